/*
 * The functions that gcc calls for copies and fills, in machine code, which has no libc (machine_code.py). They
 * use no vector registers. Context: any.
 */
#ifdef FLAMETAP_MACHINE_CODE

void *memcpy(void *to, const void *from, unsigned long bytes)
{
    void *end = to;
    __asm__ volatile("rep movsb" : "+D"(end), "+S"(from), "+c"(bytes) : : "memory");
    return to;
}

void *memmove(void *to, const void *from, unsigned long bytes)
{
    u8 *t = to;
    const u8 *f = from;
    if ((u64)t - (u64)f >= bytes)
        return memcpy(to, from, bytes);
    while (bytes--)
        t[bytes] = f[bytes];
    return to;
}

void *memset(void *to, int byte, unsigned long bytes)
{
    void *end = to;
    __asm__ volatile("rep stosb" : "+D"(end), "+c"(bytes) : "a"(byte) : "memory");
    return to;
}

int memcmp(const void *left, const void *right, unsigned long bytes)
{
    const u8 *l = left, *r = right;
    u64 i;
    for (i = 0; i < bytes; i++)
        if (l[i] != r[i])
            return l[i] < r[i] ? -1 : 1;
    return 0;
}

#endif
