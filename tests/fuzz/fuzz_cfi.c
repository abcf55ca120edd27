/*
 * Fuzz target: cfi_row_limit, cfi_scratch_bytes and cfi_compile on any section. Blocks have their exact sizes, so that
 * AddressSanitizer sees a byte read or written outside; what cfi.h promises of the rows is checked.
 *
 * Input: one byte of options, then the section. With OPTION_FRAMED the bytes after the options are programs, and the
 * records around them are made here: every mutation reaches the interpreter then.
 *   framed: augmentation (1), alignment (1), CIE program (length 1, bytes), FDEs {start (2), bytes (2), program (length
 *   1, bytes)}
 */
#include "cfi_promises.h"
#include "input.h"

enum {
    OPTION_FRAMED = 1,
    OPTION_TEXT_SHIFT = 1,                /* two bits: which range of code */
    OPTION_RULES_FULL = 8,                /* the rule table has room for few more */
    OPTION_ROWS_SHORT = 16,               /* fewer rows than cfi_row_limit asked for */
    OPTION_DEBUG_FRAME = 32,              /* it is a .debug_frame */
};

#define SECTION_ADDR 0x100000ULL          /* as tests/support/eh_frame.py puts them */
#define TEXT_START 0x1000ULL
#define TEXT_END 0x80000ULL
#define FRAMED_BYTES_MAX 65536

static void put(unsigned char **at, u64 value, u32 bytes)
{
    for (u32 i = 0; i < bytes; i++)
        *(*at)++ = (unsigned char)(value >> (8 * i));
}

/* A program of the input as the rest of a record that begins at `record`. */
static void put_program(unsigned char **at, unsigned char *record, struct input *input)
{
    u64 bytes = take(input, 1);
    for (; bytes && input->at != input->end; bytes--)
        *(*at)++ = *input->at++;
    unsigned char *length = record;
    put(&length, (u64)(*at - record) - 4, 4);
}

static size_t frame(struct input *input, unsigned char *section, u32 is_debug_frame)
{
    static const char *const augmentations[] = {"zR", "zRS", "", "zPLR", "zX", "R", "zRB", "z"};
    unsigned char *at = section, *cie = section;
    const char *letters = augmentations[take(input, 1) % 8];
    if (is_debug_frame)
        letters = letters[0] ? "" : "armcc";
    at += 4;
    put(&at, is_debug_frame ? 0xffffffff : 0, 4);
    put(&at, is_debug_frame ? 4 : 1, 1);
    memcpy(at, letters, strlen(letters) + 1);
    at += strlen(letters) + 1;
    if (is_debug_frame)
        put(&at, 8, 2);                   /* bytes of an address, of a segment */
    put(&at, 1 + take(input, 1) % 3, 1);
    put(&at, 0x78, 1);                    /* data alignment -8 */
    put(&at, 16, 1);
    if (letters[0] == 'z') {
        put(&at, 7, 1);
        put(&at, letters[1] == 'P' ? 0x1b010203049bULL : 0x1b, 7);
    }
    put_program(&at, cie, input);
    while (input->at != input->end && at - section < FRAMED_BYTES_MAX - 512) {
        unsigned char *fde = at;
        u64 start = TEXT_START + take(input, 2), bytes = take(input, 2);
        at += 4;
        put(&at, is_debug_frame ? 0 : (u64)(at - cie), 4);
        if (letters[0] == 'z' && strchr(letters, 'R')) {
            put(&at, start - (SECTION_ADDR + (u64)(at - section)), 4);
            put(&at, bytes, 4);
        } else {
            put(&at, start, 8);
            put(&at, bytes, 8);
        }
        if (letters[0] == 'z')
            put(&at, 0, 1);
        put_program(&at, fde, input);
    }
    return (size_t)(at - section);
}

static void *exactly(u64 bytes)
{
    void *block = malloc(bytes);
    if (!block && bytes)
        abort();
    return block;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    static const u64 texts[4][2] = {
        {TEXT_START, TEXT_END}, {TEXT_START + 64, TEXT_START + 192}, {0, 1ULL << 32}, {~0ULL - 4096, ~0ULL}};
    static unsigned char framed[FRAMED_BYTES_MAX];
    static struct rule_table *table;
    struct input input = {data, data + size};
    u32 options = (u32)take(&input, 1), rules_before;
    if (!table)
        table = calloc(1, sizeof *table);
    if (!table)
        abort();
    if (options & OPTION_FRAMED) {
        size_t bytes = frame(&input, framed, options & OPTION_DEBUG_FRAME);
        input.at = framed;
        input.end = framed + bytes;
    }
    struct cfi_input section = {
        .section_bytes = (u64)(input.end - input.at),
        .section_file_addr = SECTION_ADDR,
        .text_start = texts[options >> OPTION_TEXT_SHIFT & 3][0],
        .text_end = texts[options >> OPTION_TEXT_SHIFT & 3][1],
        .is_debug_frame = (options & OPTION_DEBUG_FRAME) != 0,
    };
    unsigned char *copy = exactly(section.section_bytes);
    if (section.section_bytes)
        memcpy(copy, input.at, section.section_bytes);
    section.section = copy;
    rules_before = table->count;
    if (options & OPTION_RULES_FULL && table->count)
        table->count = MAX_RULES - 2;

    struct run run;
    memset(&run.result, 0xa5, sizeof run.result);
    run.row_limit = cfi_row_limit(&section);
    u32 room = options & OPTION_ROWS_SHORT ? run.row_limit / 2 : run.row_limit;
    run.rows = exactly(room * sizeof *run.rows);
    void *scratch = exactly(cfi_scratch_bytes(&section));
    run.code = cfi_compile(&section, table, run.rows, room, scratch, &run.result);
    require(run.result.row_count <= room, "no more rows than there is room for");
    if (room == run.row_limit || run.code == 0)
        check_promises(&section, table, &run);
    if (!(options & OPTION_RULES_FULL))
        require(!run.result.rules_full, "rules are full only when they are");
    free(scratch);
    free(run.rows);
    free(copy);
    if (options & OPTION_RULES_FULL || table->count > 2048) {
        memset(table->rules, 0, sizeof table->rules[0] * (rules_before > 4096 ? rules_before : 4096));
        memset(table->hash, 0, sizeof table->hash);
        table->count = 0;
    }
    return 0;
}
