/*
 * Code objects of Python: what tells one from another that later gets the same address, and their numbers on the wire.
 * All of this may run in the handler.
 *
 * The sampler thread numbers code objects (code_table.c). The handler only looks numbers up: a code object that has none
 * yet goes to the sampler with its address and fingerprint.
 */

/* Return the low 32 bits of a mix of two numbers. */
static u64 code_mix_sigsafe(u64 hash, u64 value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
    return hash ^ (hash >> 32);
}

#define HASH_UNKNOWN (~0ULL)
#define MIXED_BYTES_MAX 256

/* Mix in what a str object holds: its hash, or, as long as Python has not computed that, its characters (the first
 * MIXED_BYTES_MAX bytes) and length. Returns 0 if it cannot be read. Context: signal. */
static u32 string_mix_sigsafe(struct managed_walk *w, const u64 *recipe, u64 string, u64 *hash)
{
    u64 value, length, data, at, byte_count;
    u32 state;
    if (!managed_word_sigsafe(w, string + recipe[RECIPE_STRING_HASH], &value))
        return 0;
    *hash = code_mix_sigsafe(*hash, value);
    if (value != HASH_UNKNOWN)
        return 1;
    if (!managed_word_sigsafe(w, string + recipe[RECIPE_STRING_LENGTH], &length) ||
        !managed_u32_sigsafe(w, string + recipe[RECIPE_STRING_STATE], &state))
        return 0;
    state >>= recipe[RECIPE_STRING_KIND_SHIFT];
    *hash = code_mix_sigsafe(*hash, length);
    if (!(state >> 3 & 1))                /* not compact: its characters are elsewhere */
        return 1;
    data = string + (state >> 4 & 1 ? recipe[RECIPE_STRING_ASCII] : recipe[RECIPE_STRING_COMPACT]);
    byte_count = length < MIXED_BYTES_MAX ? length * (state & 7) : MIXED_BYTES_MAX;
    if (byte_count > MIXED_BYTES_MAX)
        byte_count = MIXED_BYTES_MAX;
    for (at = 0; at < byte_count; at += 8) {
        if (!managed_word_sigsafe(w, data + at, &value))
            return 0;
        if (byte_count - at < 8)
            value &= (1ULL << (byte_count - at) * 8) - 1;
        *hash = code_mix_sigsafe(*hash, value);
    }
    return 1;
}

/*
 * Compute the fingerprint of a code object: its name, line table, first line, and its version (3.12 …) or what its name
 * holds, since a new object may get the address of an old one for each of its parts. Returns 0 if the memory is no code
 * object. Sets `*is_shim` for the code that 3.12 … runs around __init__: it has one string for name and file. Context:
 * signal.
 */
static u32 code_fingerprint_sigsafe(struct managed_walk *w, const u64 *recipe, u64 code, u32 *is_shim)
{
    u64 type, name, file, lines, hash;
    u32 first_line, version = 0;
    if (!managed_word_sigsafe(w, code + recipe[RECIPE_OBJECT_TYPE], &type) || type != recipe[RECIPE_CODE_TYPE_ADDR] ||
        !managed_word_sigsafe(w, code + recipe[RECIPE_CODE_NAME], &name) ||
        !managed_word_sigsafe(w, code + recipe[RECIPE_CODE_FILE_NAME], &file) ||
        !managed_word_sigsafe(w, code + recipe[RECIPE_CODE_LINE_TABLE], &lines) ||
        !managed_u32_sigsafe(w, code + recipe[RECIPE_CODE_FIRST_LINE], &first_line))
        return 0;
    *is_shim = name == file && code >= recipe[RECIPE_IMAGE_START] && code < recipe[RECIPE_IMAGE_END];
    if (recipe[RECIPE_CODE_VERSION] != ABSENT)
        managed_u32_sigsafe(w, code + recipe[RECIPE_CODE_VERSION], &version);
    hash = code_mix_sigsafe(code_mix_sigsafe(name, lines), (u64)version << 32 | first_line);
    if (!version && !string_mix_sigsafe(w, recipe, name, &hash))
        return 0;
    return (u32)hash ? (u32)hash : 1;
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

/* Append a frame with this code object to the walk. `position` is in code units, NO_POSITION if unknown. Returns 0 if the
 * memory is no code object, or if there is no room. Context: signal. */
static u32 walk_add_code_sigsafe(struct managed_walk *w, const u64 *recipe, u32 recipe_index, u64 code, u64 position)
{
    u32 is_shim = 0, id, fingerprint = code_fingerprint_sigsafe(w, recipe, code, &is_shim);
    if (!fingerprint)
        return 0;
    if (is_shim)
        return 1;
    if (w->word_count + 2 > MAX_FRAMES) {
        w->is_cut = 1;
        return 0;
    }
    if (position > NO_POSITION)
        position = NO_POSITION;
    id = code_id_sigsafe(w->agent, code, fingerprint);
    if (id) {
        w->words[w->word_count++] = (u64)FRAME_KIND_MANAGED << WORD_SHIFT | position << FRAME_POSITION_SHIFT | id;
        return 1;
    }
    w->words[w->word_count++] = (u64)WORD_CODE << WORD_SHIFT | (u64)recipe_index << WORD_RECIPE_SHIFT | code;
    w->words[w->word_count++] = (u64)WORD_CODE << WORD_SHIFT | position << FRAME_POSITION_SHIFT | fingerprint;
    if (w->in_handler)
        code_note_sigsafe(w, recipe, code, fingerprint);
    return 1;
}
