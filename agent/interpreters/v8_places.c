/*
 * What the words of V8's frames stand for. Sampler thread only.
 *
 * A function's frame without a name is better than a wrong one: where the function that a frame holds does not run by the
 * bytecode or code that the frame runs, the frame has no name this time.
 */

/* What the words of a frame say. */
struct v8_seen {
    u64 pc;
    u64 function;                         /* runtime_addr; 0: not known */
    u64 bytecode;                         /* runtime_addr, perhaps of something else; 0: none */
    u64 offset;
    u32 recipe;
    u32 must_fit;
};

static u64 v8_frame_word(u64 position, u32 id)
{
    position = position < NO_POSITION ? position : NO_POSITION;
    return (u64)FRAME_KIND_MANAGED << WORD_SHIFT | position << FRAME_POSITION_SHIFT | id;
}

/* Return the place with this pc, or a free one for it. */
static struct v8_place *v8_place_of(struct agent *a, u64 pc)
{
    u32 at = (u32)code_mix_sigsafe(0, pc) & (V8_PLACE_SLOTS - 1);
    if (a->v8_place_count >= V8_PLACE_SLOTS / 4 * 3) {
        bytes_zero(a->v8_places, sizeof(struct v8_place) * V8_PLACE_SLOTS);
        a->v8_place_count = 0;
    }
    while (a->v8_places[at].pc && a->v8_places[at].pc != pc)
        at = (at + 1) & (V8_PLACE_SLOTS - 1);
    return &a->v8_places[at];
}

enum v8_machine { V8_MACHINE_UNKNOWN = 0, V8_MACHINE_KNOWN = 1, V8_MACHINE_OTHER = 2 };

/* Write the word of code that is no function's, at a place that says what it is. */
static u32 v8_other_word(struct agent *a, const u64 *recipe, const struct v8_place *place, u64 *word)
{
    u32 code_id = place->is_regexp ? v8_regexp(a, recipe) : 0;
    if (!code_id)
        return V8_MACHINE_OTHER;
    *word = v8_frame_word(NO_POSITION, code_id);
    return V8_MACHINE_UNKNOWN;
}

/* Return the function that this code is of, tagged: what the code says, or what the frame holds if it runs by the code or by
 * the bytecode that the code was made of. 0 if it is not known. */
static u64 v8_shared_of_machine(const struct agent *a, const u64 *recipe, const struct v8_seen *seen,
                                const struct v8_machine_code *code)
{
    u64 shared, bytecode;
    if (code->kind != recipe[V8_KIND_BASELINE])
        return v8_shared_of_code(a, recipe, code);
    shared = v8_shared_of(a, recipe, seen->function);
    if (!shared || v8_runs_by(a, recipe, shared, code->object))
        return shared;
    bytecode = v8_part(code->words, V8_OBJECT_BYTES, recipe[V8_CODE_DEOPT]);
    return v8_kind(a, recipe, &bytecode) == recipe[V8_BYTECODE_TYPE] && v8_runs_by(a, recipe, shared, bytecode - V8_TAG) ? shared
                                                                                                                      : 0;
}

/* Find the code at a pc. Returns V8_MACHINE_OTHER if it is none of a function or a regular expression, else the word for the
 * host in `*word`; V8_MACHINE_UNKNOWN if it is not known of which function, else `known` is set. */
static u32 v8_machine_find(struct agent *a, const u64 *recipe, const struct v8_seen *seen, struct v8_known **known, u64 *word)
{
    struct v8_place *place = v8_place_of(a, seen->pc);
    struct v8_machine_code code;
    struct v8_known found;
    u64 shared;
    u32 has_code, is_baseline, code_id;
    if (place->pc && !place->object && place->round == v8_round(a))
        return v8_other_word(a, recipe, place, word);
    if (place->pc && place->object) {
        *known = v8_known_of(a, place->object);
        if (v8_still_is(a, recipe, *known) && seen->pc - (*known)->start < (*known)->bytes) {
            *word = v8_frame_word(seen->pc - (*known)->start, (*known)->code_id);
            return V8_MACHINE_KNOWN;
        }
    }
    a->v8_place_count += !place->pc;
    place->pc = seen->pc;
    place->round = v8_round(a);
    place->object = place->is_regexp = 0;
    has_code = v8_code_find(a, recipe, seen->pc, &code);
    if (!has_code || code.kind < recipe[V8_KIND_BASELINE]) {
        place->is_regexp = has_code && code.kind == recipe[V8_KIND_REGEXP];
        return v8_other_word(a, recipe, place, word);
    }
    place->object = code.object;
    *known = v8_known_of(a, code.object);
    code_id = v8_still_is(a, recipe, *known) && (*known)->start == code.start ? (*known)->code_id : 0;
    if (!code_id) {
        is_baseline = code.kind == recipe[V8_KIND_BASELINE];
        bytes_zero(&found, sizeof found);
        found.object = code.object;
        found.start = code.start;
        found.bytes = code.bytes;
        found.kind = is_baseline ? V8_CODE_IS_BASELINE : V8_CODE_IS_OPTIMISED;
        shared = v8_shared_of_machine(a, recipe, seen, &code);
        if (!shared || !v8_known_set(a, recipe, *known, &found, shared,
                                     is_baseline ? 0 : v8_part(code.words, V8_OBJECT_BYTES, recipe[V8_CODE_DEOPT]))) {
            *word = v8_frame_word(seen->pc - code.start, v8_unnamed_set(a, recipe, *known, &found));
            return V8_MACHINE_UNKNOWN;
        }
        code_id = (*known)->code_id;
    }
    *word = v8_frame_word(seen->pc - code.start, code_id);
    return V8_MACHINE_KNOWN;
}

/* Write the frame of the interpreter. Returns 0 if it is none. */
static u32 v8_bytecode_resolve(struct agent *a, const u64 *recipe, const struct v8_seen *seen, u64 *to)
{
    struct v8_known *known = v8_known_of(a, seen->bytecode), found;
    u64 tagged = seen->bytecode + V8_TAG, shared;
    u32 code_id = known->code_id;
    if (!v8_still_is(a, recipe, known) || known->kind != V8_CODE_IS_BYTECODE) {
        if (v8_kind(a, recipe, &tagged) != recipe[V8_BYTECODE_TYPE])
            return 0;
        bytes_zero(&found, sizeof found);
        found.object = seen->bytecode;
        found.kind = V8_CODE_IS_BYTECODE;
        shared = v8_shared_of(a, recipe, seen->function);
        if (shared && v8_runs_by(a, recipe, shared, seen->bytecode) && v8_known_set(a, recipe, known, &found, shared, 0))
            code_id = known->code_id;
        else
            code_id = v8_unnamed_set(a, recipe, known, &found);
    }
    *to = v8_frame_word(seen->offset, code_id);
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
    seen->pc = words[*from] & V8_PC_MASK;
    second = words[*from + 1];
    seen->function = (second & V8_OBJECT_MASK) << 3;
    seen->must_fit = (words[*from] & V8_MUST_FIT) != 0;
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
    struct v8_known *known = (struct v8_known *)0;
    const struct code_range *range;
    const u64 *recipe;
    if (!a->v8_places || !v8_words_read(words, count, from, &seen)) {
        *from = count;
        return 0;
    }
    recipe = a->recipes[seen.recipe];
    range = code_range_sigsafe(a->map, seen.pc);
    if (!range || !range->module) {
        u32 what = v8_machine_find(a, recipe, &seen, &known, to);
        if (seen.must_fit && (what != V8_MACHINE_KNOWN || v8_shared_of(a, recipe, seen.function) != known->shared + V8_TAG))
            return 0;
        if (what != V8_MACHINE_OTHER)
            return 1;
    }
    if (!seen.bytecode || !v8_bytecode_resolve(a, recipe, &seen, to))
        *to = seen.pc;
    return 1;
}
