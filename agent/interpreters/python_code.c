/*
 * Code objects of Python: what tells one from another that later gets the same address, and their numbers on the wire.
 * All of this may run in the handler.
 *
 * The sampler thread numbers code objects (code_table.c). The handler only looks numbers up: a code object that has none
 * yet goes to the sampler with its address and fingerprint.
 */

#define HASH_UNKNOWN (~0ULL)

/* Mix in what a str object holds: its hash, or, as long as Python has not computed that, its characters. Returns 0 if it
 * cannot be read. Context: signal. */
static u32 string_mix_sigsafe(struct managed_walk *w, const u64 *recipe, u64 string, u64 *hash)
{
    struct mixed_string *mixed = &w->mixed_strings[string >> 4 & (MIXED_STRINGS - 1)];
    struct python_text text;
    u64 value;
    if (mixed->string != string || !string) {
        if (!managed_word_sigsafe(w, string + recipe[RECIPE_STRING_HASH], &value))
            return 0;
        if (value == HASH_UNKNOWN) {
            if (!text_of_string_sigsafe(w, recipe, string, NAME_CHARACTERS_MAX, 0, &text) ||
                !text_mix_sigsafe(w, &text, (const u8 *)0, &value))
                return 0;
        }
        mixed->string = string;
        mixed->mix = value;
    }
    *hash = code_mix_sigsafe(*hash, mixed->mix);
    return 1;
}

/* Note how much of a frame and of a code object is read, for managed_span_sigsafe. No field is larger than a word, also
 * where a hostile process says that it lies between two. Context: signal. */
static void fields_measure_sigsafe(struct managed_walk *w, const u64 *recipe)
{
    static const u8 of_frame[] = {RECIPE_FRAME_CODE, RECIPE_FRAME_PREVIOUS, RECIPE_FRAME_POSITION, RECIPE_FRAME_OWNER,
                                  RECIPE_FRAME_IS_ENTRY};
    static const u8 of_code[] = {RECIPE_OBJECT_TYPE, RECIPE_CODE_NAME, RECIPE_CODE_FILE_NAME, RECIPE_CODE_LINE_TABLE,
                                 RECIPE_CODE_FIRST_LINE, RECIPE_CODE_VERSION, RECIPE_CODE_QUALIFIED_NAME};
    u64 end = 0, i;
    for (i = 0; i < sizeof of_frame; i++)
        if (recipe[of_frame[i]] != ABSENT && recipe[of_frame[i]] + 8 > end)
            end = recipe[of_frame[i]] + 8;
    w->frame_bytes = (u32)(end + 7) & ~7U;
    for (end = i = 0; i < sizeof of_code; i++)
        if (recipe[of_code[i]] != ABSENT && recipe[of_code[i]] + 8 > end)
            end = recipe[of_code[i]] + 8;
    w->code_bytes = (u32)(end + 7) & ~7U;
    w->measured = recipe;
}

/* Mix in the names of a code object that has no version: a new object may get the address of an old one, and so may each
 * of its parts. Returns 0 if they cannot be read. Context: signal. */
static u32 code_names_mix_sigsafe(struct managed_walk *w, const u64 *recipe, u64 name, u64 qualified, u64 file, u64 *hash)
{
    return string_mix_sigsafe(w, recipe, name, hash) && string_mix_sigsafe(w, recipe, file, hash) &&
           (qualified == name || string_mix_sigsafe(w, recipe, qualified, hash));
}

/*
 * Compute the fingerprint of a code object: its name, line table, first line, and its version (3.12 …) or what its names
 * hold. Returns 0 if the memory is no code object. Sets `*is_shim` for the code that 3.12 … runs around __init__: it has
 * one string for name and file. Context: signal.
 */
static u32 code_fingerprint_sigsafe(struct managed_walk *w, const u64 *recipe, u64 code, u32 *is_shim)
{
    const u8 *at;
    u64 name, qualified, file, lines, hash;
    u32 first_line, version = 0;
    if (w->measured != recipe)
        fields_measure_sigsafe(w, recipe);
    at = managed_span_sigsafe(w, code, w->code_bytes);
    if (!at || *(const volatile u64 *)(at + recipe[RECIPE_OBJECT_TYPE]) != recipe[RECIPE_CODE_TYPE_ADDR])
        return 0;
    name = qualified = *(const volatile u64 *)(at + recipe[RECIPE_CODE_NAME]);
    file = *(const volatile u64 *)(at + recipe[RECIPE_CODE_FILE_NAME]);
    lines = *(const volatile u64 *)(at + recipe[RECIPE_CODE_LINE_TABLE]);
    first_line = *(const volatile u32 *)(at + recipe[RECIPE_CODE_FIRST_LINE]);
    if (recipe[RECIPE_CODE_VERSION] != ABSENT)
        version = *(const volatile u32 *)(at + recipe[RECIPE_CODE_VERSION]);
    if (recipe[RECIPE_CODE_QUALIFIED_NAME] != ABSENT)
        qualified = *(const volatile u64 *)(at + recipe[RECIPE_CODE_QUALIFIED_NAME]);
    *is_shim = name == file && code >= recipe[RECIPE_IMAGE_START] && code < recipe[RECIPE_IMAGE_END];
    hash = code_mix_sigsafe(code_mix_sigsafe(name, lines), (u64)version << 32 | first_line);
    if (!version && !code_names_mix_sigsafe(w, recipe, name, qualified, file, &hash))
        return 0;
    return (u32)hash ? (u32)hash : 1;
}

/* Find one part of a code object, as its record has it. Returns 0 if it has none, or it cannot be read. Context: signal. */
static u32 code_part_sigsafe(struct managed_walk *w, const u64 *recipe, u64 code, u32 part, struct python_text *text)
{
    u64 offset = part == PART_NAME             ? recipe[RECIPE_CODE_NAME]
                 : part == PART_QUALIFIED_NAME ? recipe[RECIPE_CODE_QUALIFIED_NAME]
                 : part == PART_FILE_NAME      ? recipe[RECIPE_CODE_FILE_NAME]
                                               : recipe[RECIPE_CODE_LINE_TABLE];
    u64 object;
    u32 is_singleton;
    if (recipe[RECIPE_RUNTIME] == RUNTIME_RUBY)
        return ruby_text_sigsafe(w, recipe, code, 0, part, &is_singleton, text);
    if (offset == ABSENT || !managed_word_sigsafe(w, code + offset, &object))
        return 0;
    if (part == PART_LINE_TABLE)
        return text_of_bytes_sigsafe(w, recipe, object, LINE_TABLE_BYTES_MAX, text);
    return text_of_string_sigsafe(w, recipe, object, part == PART_FILE_NAME ? FILE_CHARACTERS_MAX : NAME_CHARACTERS_MAX,
                                  part == PART_FILE_NAME, text);
}

/*
 * Return a mix of what the record of a code object says, CONTENT_BITS long. A record that is made later is right if it has
 * the same: an object that was freed keeps its fingerprint until its memory is used again, but the memory of its name may
 * have been used before, for the name of the next function. Context: signal.
 */
static u64 code_content_sigsafe(struct managed_walk *w, const u64 *recipe, u64 code)
{
    struct python_text text;
    u64 hash = 0, mixed;
    u32 part, first_line = 0;
    for (part = 0; part < CODE_PARTS; part++) {
        mixed = hash;
        if (!code_part_sigsafe(w, recipe, code, part, &text) || !text_mix_sigsafe(w, &text, (const u8 *)0, &mixed))
            mixed = code_mix_sigsafe(hash, part);
        hash = mixed;
    }
    managed_u32_sigsafe(w, code + recipe[RECIPE_CODE_FIRST_LINE], &first_line);
    return code_mix_sigsafe(hash, first_line) & CONTENT_MASK;
}

static u32 code_slot_first_sigsafe(u64 code)
{
    return (u32)(code_mix_sigsafe(0, code >> 4) & (CODE_TABLE_SLOTS - 1));
}

#define CODE_PROBES_MAX 64

/* Return the number of a code object; 0 if it has none yet. Context: signal. */
static u32 code_id_sigsafe(const struct agent *a, u64 code, u32 fingerprint)
{
    u32 at = code_slot_first_sigsafe(code), probes;
    for (probes = 0; probes < CODE_PROBES_MAX; probes++, at = (at + 1) & (CODE_TABLE_SLOTS - 1)) {
        const volatile struct code_slot *slot = &a->codes[at];
        u64 key = slot->code, known;
        COMPILER_BARRIER();
        if (!key)
            return 0;
        if (key != code)
            continue;
        known = slot->known;
        return (u32)(known >> 32) == fingerprint ? (u32)known : 0;
    }
    return 0;
}
