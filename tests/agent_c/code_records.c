/*
 * The record of a code object that is freed between a sample and the sampler's look at it. CPython 3.12's structures, as far
 * as the agent reads them. Built behind the agent's sources.
 *
 * Usage: code_records FREED [forgotten]. A handler has met the code object of "outer_1". Then its memory is given back, and
 * of that is used again for "outer_2": nothing (none), the name alone (name), the file's name, the line table, or name and
 * code object (code), before it has its new version. forgotten: the handler's note was overwritten meanwhile.
 * Prints the record's flags, first line, qualified name and file name.
 */
#include <stdio.h>
#include <string.h>

enum {                                    /* Include/internal of 3.12, 64 bits */
    RUNTIME_HEAD = 40, RUNTIME_FINALIZING = 24, OBJECT_TYPE = 8, SIZE = 16, TEXT_HASH = 24, TEXT_STATE = 32, TEXT = 40,
    TEXT_WIDE = 56, BYTES = 32, CODE_FIRST_LINE = 68, CODE_VERSION = 92, CODE_FILE = 112, CODE_NAME = 120,
    CODE_QUALIFIED_NAME = 128, CODE_LINES = 136, CODE_INSTRUCTIONS = 192,
};
#define COMPACT_ASCII (1 << 2 | 1 << 5 | 1 << 6)

struct object { _Alignas(16) u8 bytes[256]; };

static struct object runtime, code_type, code, name, file, lines;

static u64 addr(const struct object *object)
{
    return (u64)object;
}

static void put(struct object *object, int offset, u64 value)
{
    memcpy(object->bytes + offset, &value, 8);
}

static void put_u32(struct object *object, int offset, u32 value)
{
    memcpy(object->bytes + offset, &value, 4);
}

static void text_make(struct object *to, const char *text)
{
    memset(to, 0, sizeof *to);
    put(to, SIZE, strlen(text));
    put(to, TEXT_HASH, HASH_UNKNOWN);
    put_u32(to, TEXT_STATE, COMPACT_ASCII);
    strcpy((char *)to->bytes + TEXT, text);
}

static void lines_make(u8 first)
{
    put(&lines, SIZE, 2);
    lines.bytes[BYTES] = first;
}

static void code_make(void)
{
    put(&code, OBJECT_TYPE, addr(&code_type));
    put_u32(&code, CODE_FIRST_LINE, 7);
    put_u32(&code, CODE_VERSION, 99);
    put(&code, CODE_FILE, addr(&file));
    put(&code, CODE_NAME, addr(&name));
    put(&code, CODE_QUALIFIED_NAME, addr(&name));
    put(&code, CODE_LINES, addr(&lines));
}

static void recipe_make(u64 *recipe)
{
    for (u32 i = 0; i < RECIPE_WORDS; i++)
        recipe[i] = ABSENT;
    recipe[RECIPE_RUNTIME] = RUNTIME_PYTHON;
    recipe[RECIPE_ID] = 1;
    recipe[RECIPE_WALK] = PYTHON_CFRAME_ENTRIES;
    recipe[RECIPE_RUNTIME_ADDR] = addr(&runtime);
    recipe[RECIPE_RUNTIME_HEAD] = RUNTIME_HEAD;
    recipe[RECIPE_RUNTIME_FINALIZING] = RUNTIME_FINALIZING;
    recipe[RECIPE_CODE_TYPE_ADDR] = addr(&code_type);
    recipe[RECIPE_IMAGE_START] = recipe[RECIPE_IMAGE_END] = 0;
    recipe[RECIPE_CODE_BYTES] = CODE_INSTRUCTIONS;
    recipe[RECIPE_CODE_FIRST_LINE] = CODE_FIRST_LINE;
    recipe[RECIPE_CODE_FILE_NAME] = CODE_FILE;
    recipe[RECIPE_CODE_NAME] = CODE_NAME;
    recipe[RECIPE_CODE_QUALIFIED_NAME] = CODE_QUALIFIED_NAME;
    recipe[RECIPE_CODE_LINE_TABLE] = CODE_LINES;
    recipe[RECIPE_CODE_VERSION] = CODE_VERSION;
    recipe[RECIPE_OBJECT_TYPE] = OBJECT_TYPE;
    recipe[RECIPE_STRING_LENGTH] = SIZE;
    recipe[RECIPE_STRING_HASH] = TEXT_HASH;
    recipe[RECIPE_STRING_STATE] = TEXT_STATE;
    recipe[RECIPE_STRING_KIND_SHIFT] = 2;
    recipe[RECIPE_STRING_ASCII] = TEXT;
    recipe[RECIPE_STRING_COMPACT] = TEXT_WIDE;
    recipe[RECIPE_BYTES_LENGTH] = SIZE;
    recipe[RECIPE_BYTES_DATA] = BYTES;
}

/* An object's memory, when its allocator has put it into a list: the first word alone has changed. */
static void memory_reuse(const char *what)
{
    put(&code, 0, addr(&code) + 512);
    if (strcmp(what, "name") == 0 || strcmp(what, "code") == 0)
        text_make(&name, "outer_2");
    if (strcmp(what, "code") == 0)
        put(&code, 0, 1);
    if (strcmp(what, "file") == 0)
        text_make(&file, "/srv/two.py");
    if (strcmp(what, "lines") == 0)
        lines_make(0x80 | 12 << 3);
}

int main(int argc, char **argv)
{
    u64 recipe[RECIPE_WORDS], words[CODE_WORDS];
    if (argc < 2 || agent_prepare(100, FILTERED_NOBODY, 0))
        return 2;
    struct agent *a = agent_cell;
    struct managed_walk *w = agent_pages(a, sizeof *w);
    text_make(&name, "outer_1");
    text_make(&file, "/srv/one.py");
    lines_make(0x80 | 11 << 3);
    code_make();
    recipe_make(recipe);
    recipes_set(a, recipe, 1);
    states_keep(a, now_ns_sigsafe());

    w->agent = a;
    w->in_handler = 1;
    managed_forget_pages_sigsafe(w);
    if (!walk_add_code_sigsafe(w, a->recipes[0], 0, addr(&code), JAVA_NEAREST) || w->word_count != CODE_WORDS)
        return 3;
    bytes_copy(words, w->words, sizeof words);
    memory_reuse(argv[1]);
    if (argc > 2)
        memset(w->notes, 0, sizeof w->notes);
    a->noted_by = w;
    u32 count = CODE_WORDS, is_nearest = 1;
    codes_resolve(a, words, &count, &is_nearest);
    if (is_nearest)                       /* a large position of Python's is none of Java's marks */
        return 5;
    if (count != 1 || a->codes_out.records != 1)
        return 4;
    const struct code_record *record = (const struct code_record *)a->codes_out.data;
    const char *parts = (const char *)(record + 1);
    parts += record->part_bytes[PART_NAME];
    printf("%u %llu %.*s ", record->flags & CODE_GONE, record->detail[0], (int)record->part_bytes[PART_QUALIFIED_NAME], parts);
    parts += record->part_bytes[PART_QUALIFIED_NAME];
    printf("%.*s\n", (int)record->part_bytes[PART_FILE_NAME], parts);
    return 0;
}
