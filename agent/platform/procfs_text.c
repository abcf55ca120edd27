/*
 * Numbers and paths of procfs, parsed and formatted. No libc; bounded by the caller's buffers.
 */

#define TEXT_BYTES 65536                  /* `text` of struct agent has two parts of this size: for files and for directories */
#define MAPPED_PATH_BYTES 4096            /* and one of this: the path of a mapped file */
#define SCRATCH_BYTES (2 * TEXT_BYTES + MAPPED_PATH_BYTES)

static u64 parse_number(const char **at, const char *end, u32 base)
{
    u64 value = 0;
    const char *p = *at;
    for (; p < end; p++) {
        u32 digit;
        if (*p >= '0' && *p <= '9')
            digit = (u32)(*p - '0');
        else if (base == 16 && *p >= 'a' && *p <= 'f')
            digit = (u32)(*p - 'a') + 10;
        else
            break;
        value = value * base + digit;
    }
    *at = p;
    return value;
}

static u32 text_is(const char *text, u32 bytes, const char *what)
{
    u32 i;
    for (i = 0; i < bytes && what[i]; i++)
        if (text[i] != what[i])
            return 0;
    return i == bytes && !what[i];
}

static u32 text_contains(const char *text, u32 bytes, const char *what)
{
    u32 i, j;
    for (i = 0; i < bytes; i++) {
        for (j = 0; what[j] && i + j < bytes && text[i + j] == what[j]; j++) {
        }
        if (!what[j])
            return 1;
    }
    return 0;
}

static u32 text_append(char *to, u32 at, const char *what)
{
    while (*what)
        to[at++] = *what++;
    to[at] = 0;
    return at;
}

static u32 text_append_number(char *to, u32 at, u32 number)
{
    char digits[10];
    u32 count = 0;
    do {
        digits[count++] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    while (count)
        to[at++] = digits[--count];
    to[at] = 0;
    return at;
}
