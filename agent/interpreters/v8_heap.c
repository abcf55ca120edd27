/*
 * Objects in V8's heap, as far as they tell which function a frame runs. Sampler thread only.
 *
 * The program goes on meanwhile: each object is known by the kind that its map says, and nothing is used that does not fit.
 *
 * src/objects/{map,js-function,shared-function-info,code,instruction-stream}.h; src/objects/map-word.h.
 */

#define CODE_BYTES_MAX (1U << 20)         /* of the instructions of one function */
#define CODE_CHUNK_BYTES 4096
#define CODE_CHECKS_MAX 256               /* words that may be the start of some code, in one search */
#define V8_DATA_WORDS 5
#define CODE_KIND_MASK 15

static u32 v8_word(const struct agent *a, u64 runtime_addr, u64 *word)
{
    return read_memory(a, runtime_addr, word, 8) == 8;
}

static u32 is_object(u64 tagged)
{
    return (tagged & V8_TAG_MASK) == V8_TAG && tagged >> 47 == 0 && tagged > PAGE_BYTES;
}

/* Return the kind of the objects that have this map; 0 if it is none. */
static u32 v8_kind_of_map(const struct agent *a, const u64 *recipe, u64 map)
{
    u16 kind;
    return is_object(map) && read_memory(a, map - V8_TAG + recipe[V8_MAP_TYPE], &kind, 2) == 2 ? kind : 0;
}

/* Return the kind of an object; 0 if it is none. The collector leaves an object's new place where its map was: `tagged`
 * becomes that. */
static u32 v8_kind(const struct agent *a, const u64 *recipe, u64 *tagged)
{
    u64 map;
    if (!is_object(*tagged) || !v8_word(a, *tagged - V8_TAG, &map))
        return 0;
    if (!(map & V8_TAG) && is_object(map + V8_TAG)) {
        *tagged = map + V8_TAG;
        if (!v8_word(a, map, &map))
            return 0;
    }
    return v8_kind_of_map(a, recipe, map);
}

/* Return the SharedFunctionInfo of a function, tagged; 0 if there is none, or the function is gone. */
static u64 v8_shared_of(const struct agent *a, const u64 *recipe, u64 function)
{
    u64 tagged = function + V8_TAG, shared;
    if (!function || !v8_kind(a, recipe, &tagged) || !v8_word(a, tagged - V8_TAG + recipe[V8_FUNCTION_SHARED], &shared))
        return 0;
    return v8_kind(a, recipe, &shared) == recipe[V8_SHARED_TYPE] ? shared : 0;
}

/* Return whether an object, or one that it points to among its first words, is the wanted one. Sets `words` to these. */
static u32 v8_points_to(const struct agent *a, const u64 *recipe, u64 tagged, u64 wanted, u64 *words)
{
    u32 i;
    bytes_zero(words, 8 * V8_DATA_WORDS);
    if (tagged == wanted)
        return 1;
    if (!v8_kind(a, recipe, &tagged) || read_memory(a, tagged - V8_TAG, words, 8 * V8_DATA_WORDS) < 24)
        return 0;
    for (i = 1; i < V8_DATA_WORDS; i++)
        if (words[i] == wanted)
            return 1;
    return 0;
}

/* Return whether a function runs by this object: by its bytecode or baseline code, which is what the function points to, or
 * what that does, or, where it has both and a copy of the interpreter, what is in the middle. */
static u32 v8_runs_by(const struct agent *a, const u64 *recipe, u64 shared, u64 object)
{
    u64 data, words[V8_DATA_WORDS], inner[V8_DATA_WORDS];
    u32 i;
    if (!v8_word(a, shared - V8_TAG + recipe[V8_SHARED_DATA], &data))
        return 0;
    if (v8_points_to(a, recipe, data, object + V8_TAG, words))
        return 1;
    for (i = 1; i <= 2; i++)
        if (is_object(words[i]) && v8_points_to(a, recipe, words[i], object + V8_TAG, inner))
            return 1;
    return 0;
}

/* Return a word of an object of which the first `bytes` are there; 0 if it lies behind them. */
static u64 v8_part(const u64 *words, u64 bytes, u64 offset)
{
    return offset + 8 <= bytes && offset + 8 > offset ? words[offset / 8] : 0;
}

static u32 v8_part_u32(const u64 *words, u64 bytes, u64 offset)
{
    return (u32)(v8_part(words, bytes, offset & ~7ULL) >> (offset & 4) * 8);
}

/* Read a Code. Returns 0 if it is none. `start` is that of its instructions, where they lie in it; else it is read. */
static u32 v8_code_read(const struct agent *a, const u64 *recipe, u64 object, struct v8_machine_code *code)
{
    u64 tagged = object + V8_TAG;
    u32 flags, bytes;
    if (read_memory(a, object, code->words, V8_OBJECT_BYTES) != V8_OBJECT_BYTES ||
        v8_kind(a, recipe, &tagged) != recipe[V8_CODE_TYPE])
        return 0;
    flags = v8_part_u32(code->words, V8_OBJECT_BYTES, recipe[V8_CODE_FLAGS]);
    bytes = v8_part_u32(code->words, V8_OBJECT_BYTES, recipe[V8_CODE_BYTES]);
    code->object = object;
    code->start = recipe[V8_CODE_START] == ABSENT ? object + recipe[V8_CODE_INSTRUCTIONS]
                                                  : v8_part(code->words, V8_OBJECT_BYTES, recipe[V8_CODE_START]);
    code->bytes = bytes;
    code->kind = flags & CODE_KIND_MASK;
    return bytes && bytes <= CODE_BYTES_MAX;
}

static u32 is_known_map(const struct agent *a, u64 map)
{
    u32 i;
    for (i = 0; i < V8_MAPS_KNOWN; i++)
        if (a->v8_maps[i] == map)
            return 1;
    return 0;
}

/* Return whether what begins at `at` holds the code at `pc`: its first words are these. */
static u32 v8_holds(struct agent *a, const u64 *recipe, u64 at, const u64 *words, u64 pc, struct v8_machine_code *code)
{
    u32 is_inside = recipe[V8_CODE_START] == ABSENT;
    if (!v8_code_read(a, recipe, is_inside ? at : words[1] - V8_TAG, code) || pc - code->start >= code->bytes ||
        code->start - at != recipe[V8_CODE_INSTRUCTIONS])
        return 0;
    if (!is_known_map(a, words[0]))
        a->v8_maps[a->v8_map_next++ % V8_MAPS_KNOWN] = words[0];
    return 1;
}

/*
 * Find the Code whose instructions contain `pc`. They follow the map of what holds them and, if that is not the Code itself,
 * a pointer to the Code, which says where its instructions begin: so what is found proves itself. Returns 0 if there is none.
 */
static u32 v8_code_find(struct agent *a, const u64 *recipe, u64 pc, struct v8_machine_code *code)
{
    const struct code_range *range = code_range_sigsafe(a->map, pc);
    u64 words[CODE_CHUNK_BYTES / 8 + 1], high = (pc & ~7ULL) + 8, lowest;
    u32 checks = 0, i, is_inside = recipe[V8_CODE_START] == ABSENT;
    if (!range || range->module)
        return 0;
    lowest = pc - range->start > CODE_BYTES_MAX ? pc - CODE_BYTES_MAX : range->start;
    lowest = (lowest + 7) & ~7ULL;
    while (high > lowest && checks < CODE_CHECKS_MAX) {
        u64 low = (high - 1) & ~(u64)(CODE_CHUNK_BYTES - 1), count;
        low = low < lowest ? lowest : low;
        count = (high - low) / 8;
        /* One word more, for a pair that goes over the end. */
        words[count] = 0;
        if (read_memory(a, low, words, 8 * (count + 1)) < (i64)(8 * count))
            return 0;
        for (i = (u32)count; i-- > 0 && checks < CODE_CHECKS_MAX;) {
            if (!is_object(words[i]) || (!is_inside && !is_object(words[i + 1])) || low + 8 * i > pc)
                continue;
            if (is_inside && !is_known_map(a, words[i]) && v8_kind_of_map(a, recipe, words[i]) != recipe[V8_CODE_TYPE])
                continue;
            checks++;
            if (v8_holds(a, recipe, low + 8 * i, words + i, pc, code))
                return 1;
        }
        high = low;
    }
    return 0;
}

/* Return the function that optimised code was made of, tagged; 0 if it is not known. */
static u64 v8_shared_of_code(const struct agent *a, const u64 *recipe, const struct v8_machine_code *code)
{
    u64 deopt = v8_part(code->words, V8_OBJECT_BYTES, recipe[V8_CODE_DEOPT]), shared;
    if (!is_object(deopt) || !v8_word(a, deopt - V8_TAG + recipe[V8_DEOPT_SHARED], &shared) || !is_object(shared))
        return 0;
    if (recipe[V8_WRAPPER_SHARED] != ABSENT && !v8_word(a, shared - V8_TAG + recipe[V8_WRAPPER_SHARED], &shared))
        return 0;
    return v8_kind(a, recipe, &shared) == recipe[V8_SHARED_TYPE] ? shared : 0;
}
