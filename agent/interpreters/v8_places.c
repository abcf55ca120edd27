/*
 * What the words of V8's frames stand for: functions, with records for the host. Sampler thread only.
 *
 * Code and bytecode are thrown away, and others take their places. So what a place was known by is compared again in each
 * round in which it is met; it then gets another number, and the names that the former one has stay.
 *
 * A function's frame without a name is better than a wrong one: where the function that a frame holds does not run by the
 * bytecode or code that the frame runs, the frame has no name this time.
 */

#define V8_BYTECODE_KEY (1ULL << 63)
#define V8_BYTECODE_MARKED 5              /* first words of bytecode that do not change while it is used */

/* What the words of a frame say. */
struct v8_seen {
    u64 pc;
    u64 function;                         /* runtime_addr; 0: not known */
    u64 bytecode;                         /* runtime_addr, perhaps of something else; 0: none */
    u64 offset;
    u32 recipe;
    u32 must_fit;
};

static u64 v8_round(const struct agent *a)
{
    return a->ring->counters[COUNTER_TICKS] + 1;
}

static u64 v8_frame_word(u64 position, u32 id)
{
    return (u64)FRAME_KIND_MANAGED << WORD_SHIFT | (position < NO_POSITION ? position : NO_POSITION) << FRAME_POSITION_SHIFT | id;
}

/* Send a record. `object` is 0 for one that stands for all functions that have no name. Returns its number; 0 if there is no
 * room. */
static u32 v8_record_send(struct agent *a, const u64 *recipe, u32 kind, u64 object, const u8 *words, u64 shared)
{
    struct code_record *record = record_new(a, &a->codes_out, (u32)sizeof *record + 2 * V8_OBJECT_BYTES);
    u8 *to = (u8 *)(record + 1);
    u32 used = 0;
    if (!record)
        return 0;
    record->code_id = ++a->next_code_id;
    record->recipe_id = (u16)recipe[RECIPE_ID];
    record->flags = object ? 0 : CODE_GONE;
    record_part_clear(record);
    if (object) {
        record->detail[0] = (u64)kind << V8_KIND_SHIFT | object;
        record->detail[1] = shared ? shared - V8_TAG : 0;
        used = record->part_bytes[0] = V8_OBJECT_BYTES;
        bytes_copy(to, words, V8_OBJECT_BYTES);
        if (shared && read_memory(a, shared - V8_TAG, to + used, V8_OBJECT_BYTES) == V8_OBJECT_BYTES)
            used += record->part_bytes[1] = V8_OBJECT_BYTES;
    }
    count_up(a, object ? COUNTER_CODES : COUNTER_CODES_LOST, 1);
    a->codes_out.used -= 2 * V8_OBJECT_BYTES - used;
    return record->code_id;
}

/* Return the number of the record for functions that have no name. */
static u32 v8_unknown(struct agent *a, const u64 *recipe)
{
    if (!a->v8_unknown_id)
        a->v8_unknown_id = v8_record_send(a, recipe, 0, 0, (const u8 *)0, 0);
    return a->v8_unknown_id;
}

/* Return the number of a Code or bytecode, with a record if it is new. */
static u32 v8_code_number(struct agent *a, const u64 *recipe, u32 kind, u64 object, u64 mark, const u8 *words, u64 shared)
{
    u32 fingerprint = (u32)(mark ^ mark >> 32), id;
    fingerprint = fingerprint ? fingerprint : 1;
    id = code_id_sigsafe(a, object, fingerprint);
    if (!id) {
        id = v8_record_send(a, recipe, kind, object, words, shared);
        if (id)
            code_keep(a, object, fingerprint, id);
    }
    return id;
}

/* Return the place with this key, or a free one for it. */
static struct v8_place *v8_place_of(struct agent *a, u64 key)
{
    u32 at = (u32)code_mix_sigsafe(0, key) & (V8_PLACE_SLOTS - 1);
    if (a->v8_place_count >= V8_PLACE_SLOTS / 4 * 3) {
        bytes_zero(a->v8_places, sizeof(struct v8_place) * V8_PLACE_SLOTS);
        a->v8_place_count = 0;
    }
    while (a->v8_places[at].key && a->v8_places[at].key != key)
        at = (at + 1) & (V8_PLACE_SLOTS - 1);
    return &a->v8_places[at];
}

static void v8_place_set(struct agent *a, struct v8_place *place, u64 key, u64 object, u64 start, u64 mark, u32 id)
{
    a->v8_place_count += !place->key;
    place->key = key;
    place->object = object;
    place->start = start;
    place->mark = mark;
    place->code_id = id;
    place->round = v8_round(a);
}

/* Return whether a place still is what it was. */
static u32 v8_machine_place_holds(struct agent *a, const u64 *recipe, struct v8_place *place)
{
    struct v8_machine_code code;
    u64 words[2];
    u32 is_inside = recipe[V8_CODE_START] == ABSENT;
    if (place->round == v8_round(a))
        return 1;
    if (!place->object || !v8_code_read(a, recipe, place->object, &code) || code.mark != place->mark)
        return 0;
    if (!is_inside && (read_memory(a, place->start - recipe[V8_CODE_INSTRUCTIONS], words, 16) != 16 ||
                       words[1] != place->object + V8_TAG))
        return 0;
    place->round = v8_round(a);
    return 1;
}

/* Find what the code at a pc stands for. Returns 0 if the function is not known this time; sets the place if it is, or if the
 * code is none of JavaScript's. */
static u32 v8_machine_find(struct agent *a, const u64 *recipe, u64 pc, u64 function, struct v8_place *place)
{
    struct v8_machine_code code;
    u64 shared;
    u32 id, is_baseline;
    if (!v8_code_find(a, recipe, pc, &code) || code.kind < recipe[V8_KIND_BASELINE]) {
        v8_place_set(a, place, pc, 0, 0, 0, 0);
        return 1;
    }
    is_baseline = code.kind == recipe[V8_KIND_BASELINE];
    shared = is_baseline ? v8_shared_of(a, recipe, function) : v8_shared_of_code(a, recipe, &code);
    if (!shared || (is_baseline && !v8_runs_by(a, recipe, shared, code.object)))
        return 0;
    id = v8_code_number(a, recipe, is_baseline ? V8_CODE_IS_BASELINE : V8_CODE_IS_OPTIMISED, code.object, code.mark, code.words,
                        shared);
    if (id)
        v8_place_set(a, place, pc, code.object, code.start, code.mark, id);
    return id != 0;
}

/* Return whether the code at a place is the function's. */
static u32 v8_fits(struct agent *a, const u64 *recipe, const struct v8_place *place, u64 function)
{
    struct v8_machine_code code;
    u64 shared = v8_shared_of(a, recipe, function);
    if (!shared || !place->object || !v8_code_read(a, recipe, place->object, &code))
        return 0;
    return code.kind == recipe[V8_KIND_BASELINE] ? v8_runs_by(a, recipe, shared, place->object)
                                                 : v8_shared_of_code(a, recipe, &code) == shared;
}

/* Write the frame of machine code. Returns how many words: 0 or 1. `is_found`: the place is right. */
static u32 v8_machine_resolve(struct agent *a, const u64 *recipe, const struct v8_place *place, const struct v8_seen *seen,
                              u32 is_found, u64 *to)
{
    if (seen->must_fit && (!is_found || !v8_fits(a, recipe, place, seen->function)))
        return 0;
    if (!is_found)
        *to = v8_frame_word(NO_POSITION, v8_unknown(a, recipe));
    else
        *to = place->object ? v8_frame_word(seen->pc - place->start, place->code_id) : seen->pc;
    return 1;
}

/* Read what bytecode is known by, and its first words. Returns 0 if it is none. */
static u32 v8_bytecode_read(struct agent *a, const u64 *recipe, u64 bytecode, u64 *words, u64 *mark)
{
    u64 tagged = bytecode + V8_TAG;
    u32 i;
    if (read_memory(a, bytecode, words, V8_OBJECT_BYTES) != V8_OBJECT_BYTES || v8_kind(a, recipe, &tagged) != recipe[V8_BYTECODE_TYPE])
        return 0;
    *mark = V8_CODE_IS_BYTECODE;
    for (i = 1; i < V8_BYTECODE_MARKED; i++)
        *mark = code_mix_sigsafe(*mark, words[i]);
    return 1;
}

/* Write the frame of the interpreter. Returns 0 if it is none. */
static u32 v8_bytecode_resolve(struct agent *a, const u64 *recipe, const struct v8_seen *seen, u64 *to)
{
    u64 key = seen->bytecode | V8_BYTECODE_KEY, words[V8_OBJECT_BYTES / 8], mark, shared;
    struct v8_place *place = v8_place_of(a, key);
    u32 id;
    *to = v8_frame_word(NO_POSITION, v8_unknown(a, recipe));
    if (!place->key || place->round != v8_round(a)) {
        if (!v8_bytecode_read(a, recipe, seen->bytecode, words, &mark))
            return 0;
        if (place->key && place->mark == mark) {
            place->round = v8_round(a);
        } else {
            shared = v8_shared_of(a, recipe, seen->function);
            if (!shared || !v8_runs_by(a, recipe, shared, seen->bytecode))
                return 1;
            id = v8_code_number(a, recipe, V8_CODE_IS_BYTECODE, seen->bytecode, mark, (const u8 *)words, shared);
            if (!id)
                return 1;
            v8_place_set(a, place, key, seen->bytecode, 0, mark, id);
        }
    }
    *to = v8_frame_word(seen->offset, place->code_id);
    return 1;
}

/* Read the words of one frame, at `*from`; moves `*from` behind them. Returns 0 if they are cut. */
static u32 v8_words_read(const u64 *words, u32 count, u32 *from, struct v8_seen *seen)
{
    u64 kind = words[*from] >> WORD_SHIFT, second, third;
    u32 length = kind == WORD_V8_MACHINE ? V8_MACHINE_WORDS : V8_INTERPRETED_WORDS;
    if (*from + length > count || words[*from + length - 1] >> WORD_SHIFT != kind)
        return 0;
    seen->recipe = (u32)(words[*from] >> WORD_RECIPE_SHIFT & 0xff) % RECIPES_STORED_MAX;
    seen->pc = words[*from] & WORD_ADDRESS_MASK;
    second = words[*from + 1];
    seen->function = (second & V8_OBJECT_MASK) << 3;
    seen->must_fit = (second & V8_MUST_FIT) != 0;
    seen->bytecode = seen->offset = 0;
    if (length == V8_INTERPRETED_WORDS) {
        u64 low = second >> V8_OFFSET_SHIFT & ((1 << V8_OFFSET_BITS) - 1);
        third = words[*from + 2];
        seen->bytecode = (third & V8_OBJECT_MASK) << 3;
        seen->offset = (third >> V8_OFFSET_SHIFT & ((1 << V8_OFFSET_BITS) - 1)) << V8_OFFSET_BITS | low;
    }
    *from += length;
    return 1;
}

/* Replace the words of one frame, at `*from`, by those for the host. Returns how many; moves `*from` behind the frame, or to
 * the end if it is cut. */
static u32 v8_frame_resolve(struct agent *a, const u64 *words, u32 count, u32 *from, u64 *to)
{
    struct v8_seen seen;
    const struct code_range *range;
    const u64 *recipe;
    if (!a->v8_places || !v8_words_read(words, count, from, &seen)) {
        *from = count;
        return 0;
    }
    recipe = a->recipes[seen.recipe];
    range = code_range_sigsafe(a->map, seen.pc);
    if (!range || !range->module) {
        struct v8_place *place = v8_place_of(a, seen.pc);
        u32 is_found = (place->key && v8_machine_place_holds(a, recipe, place)) ||
                       v8_machine_find(a, recipe, seen.pc, seen.function, place);
        if (!is_found || place->object || !seen.bytecode)
            return v8_machine_resolve(a, recipe, place, &seen, is_found, to);
    }
    if (!seen.bytecode || !v8_bytecode_resolve(a, recipe, &seen, to))
        *to = seen.pc;
    return 1;
}
