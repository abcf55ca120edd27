/*
 * What a pc in compiled Java code stands for: the method, and those that were inlined there. Sampler thread only.
 *
 * The compiler describes places in its code (PcDesc): the offset in the code, and the offset of a scope. A scope is three
 * compressed numbers: the offset of the scope around it, the method's index among the pointers of the code, and the index
 * of the bytecode. A return address has a description of its own. Other places are described by option only
 * (-XX:+DebugNonSafepoints): the next one is taken, and marked.
 *
 * src/hotspot/share/code/{pcDesc,scopeDesc,debugInfo,nmethod}.hpp; utilities/unsigned5.hpp.
 */

#define PLACES_MAX (1U << 20)             /* of one compilation */
#define SCOPES_MAX 64
#define SCOPE_BYTES 24                    /* three numbers of at most five bytes */

/* The tables of one compilation. */
struct place_table {
    u64 places;                           /* runtime_addr of the first description */
    u64 count;
    u64 scopes;
    u64 methods;
};

/* Find the tables of a compilation, whose blob lies in a code heap. Returns 0 if they cannot be. */
static u32 place_table_find(const u64 *recipe, const struct code_blob *blob, struct place_table *table)
{
    u64 base = blob->start, methods = blob->start, bytes;
    if (recipe[HOTSPOT_PLACES_BASE] != ABSENT)
        base = field_u64_sigsafe(blob->start + recipe[HOTSPOT_PLACES_BASE]);
    if (recipe[HOTSPOT_METHODS_BASE] != ABSENT)
        methods = field_u64_sigsafe(blob->start + recipe[HOTSPOT_METHODS_BASE]);
    table->places = base + field_u32_sigsafe(blob->start + recipe[HOTSPOT_PLACES]);
    bytes = base + field_u32_sigsafe(blob->start + recipe[HOTSPOT_PLACES_END]) - table->places;
    table->count = bytes / recipe[HOTSPOT_PLACE_BYTES];
    if (recipe[HOTSPOT_SCOPES] != ABSENT)
        table->scopes = field_u64_sigsafe(blob->start + recipe[HOTSPOT_SCOPES]);
    else
        table->scopes = base + field_u32_sigsafe(blob->start + recipe[HOTSPOT_SCOPES_OFFSET]);
    table->methods = methods + field_u32_sigsafe(blob->start + recipe[HOTSPOT_METHODS_OFFSET]);
    if (recipe[HOTSPOT_METHODS_OFFSET_2] != ABSENT)
        table->methods += field_u32_sigsafe(blob->start + recipe[HOTSPOT_METHODS_OFFSET_2]) & 0xffff;
    return table->count && table->count <= PLACES_MAX;
}

/* Read the code offset and scope of the description with this number. */
static u32 place_read(struct agent *a, const u64 *recipe, const struct place_table *table, u64 number, i32 *place)
{
    return read_memory(a, table->places + number * recipe[HOTSPOT_PLACE_BYTES], place, 8) == 8;
}

/* Find the scope of the first place that is not before `offset`. Sets `*is_exact` if it is there. Returns 0 if there is none. */
static i32 scope_find(struct agent *a, const u64 *recipe, const struct place_table *table, i32 offset, u32 *is_exact)
{
    u64 low = 0, high = table->count;
    i32 place[2];
    while (low < high) {
        u64 middle = (low + high) / 2;
        if (!place_read(a, recipe, table, middle, place))
            return 0;
        if (place[0] < offset)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == table->count || !place_read(a, recipe, table, low, place))
        return 0;
    *is_exact = place[0] == offset;
    return place[1];
}

/* Return the number of a method or stub, with a record for the host if it is new; 0 if there is no room. */
static u32 java_code_number(struct agent *a, u32 recipe_index, u64 code, u32 fingerprint)
{
    u32 id = code_id_sigsafe(a, code, fingerprint);
    if (!id) {
        id = code_send(a, recipe_index, code, fingerprint, 0, 0);
        if (id)
            code_keep(a, code, fingerprint, id);
    }
    return id;
}

static u64 java_word(u64 index, u64 flags, u32 id)
{
    return (u64)FRAME_KIND_MANAGED << WORD_SHIFT | (index | flags) << FRAME_POSITION_SHIFT | id;
}

/* Return the word of a method; 0 if it is none, or has no such bytecode. */
static u64 method_word(struct agent *a, u32 recipe_index, u64 method, u32 index, u64 flags)
{
    const u64 *recipe = a->recipes[recipe_index];
    struct java_method found;
    u32 id;
    if (!java_method_sigsafe(sampler_walk(a), recipe, method, &found))
        return 0;
    if (index >= found.code_bytes)
        index = JAVA_NO_INDEX;
    id = java_code_number(a, recipe_index, method, found.fingerprint);
    return id ? java_word(index, flags, id) : 0;
}

/* Append the methods at a scope, innermost first. `root` is the method that was compiled: it is the outermost one. Returns
 * how many; 0 if something does not fit. */
static u32 scopes_read(struct agent *a, u32 recipe_index, const struct place_table *table, i32 scope, u64 root, u64 flags,
                       u64 *words)
{
    const u64 *recipe = a->recipes[recipe_index];
    u32 count = 0, i;
    u64 method = 0;
    while (scope > 0 && count < SCOPES_MAX) {
        u8 bytes[SCOPE_BYTES];
        u32 at = 0, sender, number, index;
        i64 got = read_memory(a, table->scopes + (u64)scope, bytes, SCOPE_BYTES);
        if (got <= 0 || !number_read(recipe, bytes, (u32)got, &at, &sender) || !number_read(recipe, bytes, (u32)got, &at, &number) ||
            !number_read(recipe, bytes, (u32)got, &at, &index) || !number || number > PLACES_MAX ||
            sender >= (u32)scope || !memory_u64(a, table->methods + 8 * ((u64)number - 1), &method))
            return 0;
        /* One more than the index; 0 stands for the entry, before the first bytecode. */
        words[count] = method_word(a, recipe_index, method, index ? index - 1 : 0, flags);
        if (!words[count])
            return 0;
        count++;
        scope = (i32)sender;
    }
    if (scope || method != root)
        return 0;
    for (i = 0; i + 1 < count; i++)
        words[i] |= (u64)JAVA_INLINED << FRAME_POSITION_SHIFT;
    return count;
}

/* Append what a pc in compiled code stands for. Returns how many words; 0 if that is not known any more. */
static u32 compiled_read(struct agent *a, u32 recipe_index, const struct code_blob *blob, u64 pc, u32 is_leaf, u64 *words)
{
    const u64 *recipe = a->recipes[recipe_index];
    u64 root = field_u64_sigsafe(blob->start + recipe[HOTSPOT_COMPILED_METHOD]), flags;
    u32 level = *(const volatile u8 *)(blob->start + recipe[HOTSPOT_COMPILED_LEVEL]), is_exact = 0, count = 0;
    struct place_table table;
    if (blob->kind == BLOB_NATIVE) {
        words[0] = method_word(a, recipe_index, root, JAVA_NO_INDEX, (u64)JAVA_TIER_NATIVE << JAVA_TIER_SHIFT);
        return words[0] != 0;
    }
    flags = (u64)(level <= 4 ? level : 4) << JAVA_TIER_SHIFT;
    if (place_table_find(recipe, blob, &table)) {
        i32 scope = scope_find(a, recipe, &table, (i32)(pc - blob->code), &is_exact);
        if (scope > 0 && (is_exact || is_leaf))
            count = scopes_read(a, recipe_index, &table, scope, root, is_exact ? flags : flags | JAVA_NEAREST, words);
    }
    if (count && recipe[HOTSPOT_OUTERMOST] == 1) {
        words[0] = words[count - 1];
        return 1;
    }
    if (count)
        return count;
    words[0] = method_word(a, recipe_index, root, JAVA_NO_INDEX, flags);
    return words[0] != 0;
}

/* Return the word of a stub; 0 if there is no room. Of many routines in one blob, it says where in that. */
static u64 stub_word(struct agent *a, u32 recipe_index, const struct code_blob *blob, u64 pc, u32 is_leaf)
{
    const u64 *recipe = a->recipes[recipe_index];
    u64 code, position = JAVA_NO_INDEX, offset = pc - !is_leaf - blob->start;
    u32 fingerprint = STUB_FINGERPRINT, id;
    if (!is_leaf && pc == recipe[HOTSPOT_CALL_STUB_RETURN]) {
        code = pc;
    } else if (blob->kind == BLOB_STUBS) {
        code = blob->start;
        fingerprint = ROUTINES_FINGERPRINT;
        if (offset < JAVA_STUB_BYTES)
            position = (offset >> 16 << JAVA_STUB_SHIFT) | (offset & 0xffff);
    } else {
        code = field_u64_sigsafe(blob->start + recipe[HOTSPOT_BLOB_NAME]);
    }
    id = java_code_number(a, recipe_index, code, fingerprint);
    return id ? java_word(position, (u64)JAVA_TIER_STUB << JAVA_TIER_SHIFT, id) : 0;
}

/* Find what a frame of compiled code or a stub stands for, into `words`, with room for SCOPES_MAX. Returns how many. */
static u32 place_find(struct agent *a, u32 recipe_index, u64 pc, u64 detail, u64 *words)
{
    const struct code_heaps *heaps = code_heaps_sigsafe(a);
    const u64 *recipe = a->recipes[recipe_index];
    struct code_blob blob, again;
    u32 count, is_leaf = (detail & COMPILED_LEAF) != 0;
    if (!heaps || !blob_find_sigsafe(recipe, heaps, is_leaf ? pc : pc - 1, &blob) || blob.compile_id != (u32)detail)
        return 0;
    if (!blob.compile_id) {
        words[0] = stub_word(a, recipe_index, &blob, pc, is_leaf);
        return words[0] != 0;
    }
    count = compiled_read(a, recipe_index, &blob, pc, is_leaf, words);
    return blob_find_sigsafe(recipe, heaps, is_leaf ? pc : pc - 1, &again) && again.compile_id == blob.compile_id ? count : 0;
}

/* Return the slot for a frame of compiled code: the one that has it, or a free one. */
static struct java_place *place_slot(struct agent *a, u64 pc, u64 detail)
{
    u32 at = (u32)code_mix_sigsafe(code_mix_sigsafe(0, pc), detail) & (JAVA_PLACE_SLOTS - 1);
    while (a->places[at].pc && (a->places[at].pc != pc || a->places[at].detail != detail))
        at = (at + 1) & (JAVA_PLACE_SLOTS - 1);
    return &a->places[at];
}

/* Append what a frame of compiled code or a stub stands for: at most `room` words. Returns how many. */
static u32 place_resolve(struct agent *a, u64 word, u64 detail, u64 *to, u32 room)
{
    u64 pc = word & WORD_ADDRESS_MASK, words[SCOPES_MAX];
    struct java_place *place;
    u32 count, i;
    detail &= COMPILED_LEAF | 0xffffffffULL;
    if (!a->places)
        return 0;
    if (a->place_count >= JAVA_PLACE_SLOTS / 4 * 3 || a->place_words_used + SCOPES_MAX > JAVA_PLACE_WORDS) {
        bytes_zero(a->places, sizeof(struct java_place) * JAVA_PLACE_SLOTS);
        a->place_count = a->place_words_used = 0;
    }
    place = place_slot(a, pc, detail);
    if (!place->pc) {
        count = place_find(a, (u32)(word >> WORD_RECIPE_SHIFT) & 0xff, pc, detail, words);
        if (!count) {
            count_up(a, COUNTER_CODES_LOST, 1);
            return 0;
        }
        place->pc = pc;
        place->detail = detail;
        place->first = a->place_words_used;
        place->count = count;
        for (i = 0; i < count; i++)
            a->place_words[a->place_words_used++] = words[i];
        a->place_count++;
    }
    for (i = 0; i < place->count && i < room; i++)
        to[i] = a->place_words[place->first + i];
    return i;
}
