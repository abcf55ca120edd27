/*
 * The walk over Python's frames: thread state → runs of frames, innermost first. All of this may run in the handler:
 * bounded, no libc, no locks; memory that cannot be read, or that holds no code object, ends the walk (MANAGED_TORN).
 *
 *   3.8, 3.9   each frame object is a run of its own, and has no anchor
 *   3.10       the same, and a C frame in the loop's native frame for each: the anchors, paired from the root
 *   3.11       C frame → frames, down to one with is_entry; the C frame is the anchor
 *   3.12 …     an entry frame ends a run, and is its anchor
 */

/* Begin a run; python_walk_sigsafe begins the first one. Context: signal. */
static void run_begin_sigsafe(struct managed_walk *w)
{
    if (w->run_count >= RUNS_MAX) {
        w->is_cut = 1;
        return;
    }
    w->runs[w->run_count].anchor = 0;
    w->runs[w->run_count].first = w->word_count;
    w->runs[w->run_count].native = NATIVE_NONE;
    w->runs[w->run_count].is_placed = 0;
    w->runs[w->run_count].recipe = w->recipe;
}

static void run_end_sigsafe(struct managed_walk *w, u64 anchor)
{
    if (w->run_count >= RUNS_MAX)
        return;
    w->runs[w->run_count].anchor = anchor;
    w->runs[w->run_count].words = w->word_count - w->runs[w->run_count].first;
    w->run_count++;
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
    if (w->word_count + CODE_WORDS > MAX_FRAMES) {
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
    w->words[w->word_count++] = (u64)WORD_CODE << WORD_SHIFT | code_content_sigsafe(w, recipe, code);
    if (w->in_handler)
        code_note_sigsafe(w, recipe, code, fingerprint);
    return 1;
}

/* Append one frame. Returns 0 at the end of what can be read. Context: signal. */
static u32 frame_add_sigsafe(struct managed_walk *w, const u64 *recipe, u32 recipe_index, const struct python_frame *frame)
{
    u64 position;
    if (recipe[RECIPE_FRAME_POSITION_UNIT])
        position = (i32)frame->position < 0 ? NO_POSITION : frame->position * recipe[RECIPE_FRAME_POSITION_UNIT] / 2;
    else
        position = (frame->position - (frame->code + recipe[RECIPE_CODE_BYTES])) / 2;
    return walk_add_code_sigsafe(w, recipe, recipe_index, frame->code, position);
}

/* Give each frame object the C frame of the loop that runs it, from the root. `first_run` is the first of this thread
 * state. Context: signal. */
static u32 cframes_pair_sigsafe(struct managed_walk *w, const u64 *recipe, u64 state, u32 first_run,
                                const struct unwinder *u)
{
    u64 cframe, root = state + recipe[RECIPE_THREAD_ROOT_CFRAME];
    u32 count = 0, runs = w->run_count - first_run, run, skip;
    if (!managed_word_sigsafe(w, state + recipe[RECIPE_THREAD_CFRAME], &cframe))
        return 0;
    while (cframe && cframe != root && count < RUNS_MAX) {
        u64 previous;
        if (!managed_word_sigsafe(w, cframe + recipe[RECIPE_CFRAME_PREVIOUS], &previous))
            return 0;
        if (previous == root && is_greenlet_cframe_sigsafe(w, u, cframe)) {
            root = cframe;
            break;
        }
        cframe = previous;
        count++;
    }
    if (w->is_cut)
        count = runs;                     /* those at the root are missing: paired from the leaf */
    else if (cframe != root || count + 1 < runs || count > runs + 1)
        return 0;
    managed_word_sigsafe(w, state + recipe[RECIPE_THREAD_CFRAME], &cframe);
    /* One more C frame: the loop is just being entered or left. One less: the frame has no C frame yet. */
    skip = count > runs ? 1 : 0;
    run = count < runs ? first_run + 1 : first_run;
    for (; cframe && cframe != root && run < w->run_count;
         managed_word_sigsafe(w, cframe + recipe[RECIPE_CFRAME_PREVIOUS], &cframe)) {
        if (skip) {
            skip = 0;
            continue;
        }
        w->runs[run++].anchor = cframe;
    }
    if (count < runs && runs > 1)
        w->runs[first_run].anchor = w->runs[first_run + 1].anchor;
    return 1;
}

/* Walk frame objects, 3.8 to 3.10. Context: signal. */
static u32 frame_objects_walk_sigsafe(struct managed_walk *w, const u64 *recipe, u32 recipe_index, u64 state, u64 frame,
                                      const struct unwinder *u)
{
    u32 first_run = w->run_count;
    while (frame && !w->is_cut) {
        struct python_frame found;
        if (!walk_step_sigsafe(w) || !frame_read_sigsafe(w, recipe, frame, &found) ||
            !frame_add_sigsafe(w, recipe, recipe_index, &found)) {
            if (w->is_cut)
                break;                        /* no room for this one: the others have their places */
            return 0;
        }
        run_end_sigsafe(w, 0);
        run_begin_sigsafe(w);
        frame = found.previous;
    }
    return recipe[RECIPE_WALK] == PYTHON_FRAME_OBJECTS ||
           cframes_pair_sigsafe(w, recipe, state, first_run, u);
}

/* Walk C frames and their frames, 3.11. Context: signal. */
static u32 cframes_walk_sigsafe(struct managed_walk *w, const u64 *recipe, u32 recipe_index, u64 state,
                                struct python_chain *chain, const struct unwinder *u)
{
    u64 frame = chain->frame, cframe = chain->cframe, current;
    for (; frame && !w->is_cut; chain->cframe = cframe) {
        struct python_frame found;
        if (!walk_step_sigsafe(w) || !frame_read_sigsafe(w, recipe, frame, &found) ||
            !frame_add_sigsafe(w, recipe, recipe_index, &found))
            return w->is_cut;
        if (found.is_entry) {
            run_end_sigsafe(w, cframe);
            if (!managed_word_sigsafe(w, cframe + recipe[RECIPE_CFRAME_PREVIOUS], &cframe) ||
                !managed_word_sigsafe(w, cframe + recipe[RECIPE_CFRAME_FRAME], &current) || current != found.previous)
                return 0;
            run_begin_sigsafe(w);
        }
        frame = found.previous;
    }
    return w->is_cut || cframe == state + recipe[RECIPE_THREAD_ROOT_CFRAME] || is_greenlet_cframe_sigsafe(w, u, cframe);
}

/* Walk frames with entry frames among them, 3.12 … Context: signal. */
static u32 entries_walk_sigsafe(struct managed_walk *w, const u64 *recipe, u32 recipe_index, u64 state, u64 frame,
                                const struct unwinder *u)
{
    u64 base = 0;
    u32 is_inside = 0;
    if (recipe[RECIPE_THREAD_BASE_FRAME] != ABSENT &&
        !managed_word_sigsafe(w, state + recipe[RECIPE_THREAD_BASE_FRAME], &base))
        return 0;
    while (frame && frame != base && !w->is_cut) {
        struct python_frame found;
        if (!walk_step_sigsafe(w) || !frame_read_sigsafe(w, recipe, frame, &found))
            return 0;
        if (found.owner >= OWNER_CSTACK) {
            run_end_sigsafe(w, frame);
            run_begin_sigsafe(w);
            is_inside = 0;
        } else {
            if (!frame_add_sigsafe(w, recipe, recipe_index, &found))
                return w->is_cut;
            is_inside = 1;
        }
        frame = found.previous;
    }
    /* The chain of a greenlet ends without the sentinel. */
    return w->is_cut || (!is_inside && (!base || frame == base || greenlet_frame_sigsafe(u, 0) != NATIVE_NONE));
}

/* Append the frames of one thread state. The native frames of the thread are in `u` and w->cfas. Context: signal. */
static void python_walk_sigsafe(struct managed_walk *w, const struct python_state *state, const struct unwinder *u,
                                const u64 *gregs)
{
    const u64 *recipe = w->agent->recipes[state->recipe];
    struct python_chain chain;
    u32 runs = w->run_count, whole;
    w->recipe = state->recipe;
    if (w->measured != recipe)
        fields_measure_sigsafe(w, recipe);
    run_begin_sigsafe(w);
    if (!chain_begin_sigsafe(w, recipe, state->runtime_addr, u, gregs, &chain)) {
        w->verdict = MANAGED_TORN;
        return;
    }
    if (!runs)
        w->leaf_frame = chain.frame;
    if (recipe[RECIPE_WALK] == PYTHON_FRAME_OBJECTS || recipe[RECIPE_WALK] == PYTHON_CFRAME_OBJECTS)
        whole = frame_objects_walk_sigsafe(w, recipe, state->recipe, state->runtime_addr, chain.frame, u);
    else if (recipe[RECIPE_WALK] == PYTHON_CFRAMES)
        whole = cframes_walk_sigsafe(w, recipe, state->recipe, state->runtime_addr, &chain, u);
    else
        whole = entries_walk_sigsafe(w, recipe, state->recipe, state->runtime_addr, chain.frame, u);
    /* Frames of a run whose end was not reached are kept: they are what was read. */
    if (w->run_count < RUNS_MAX && w->runs[w->run_count].first < w->word_count)
        run_end_sigsafe(w, recipe[RECIPE_WALK] == PYTHON_CFRAMES ? chain.cframe : 0);
    if (!whole)
        w->verdict = MANAGED_TORN;
    else if (w->verdict < chain.verdict && w->run_count > runs)
        w->verdict = chain.verdict;
}
