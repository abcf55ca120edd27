/*
 * One stack of native and managed frames. All of this may run in the handler.
 *
 * The native walk comes first and notes the CFA of each frame. Then each run is given the native frame that contains its
 * anchor. If the native walk was cut below an anchor, it continues there: the CFA of the loop's frame is a constant
 * distance from the anchor, learned from other stacks for each interpreter. At last both are merged: the frames of a run come right after the
 * native frame that runs them, leaf first.
 */

#define BRIDGES_MAX 16                    /* times that one walk may continue at an anchor */

/* Sort runs by their place on the stack: those of several thread states (sub-interpreters). Context: signal. */
static void runs_sort_sigsafe(struct managed_walk *w)
{
    u32 i, j;
    for (i = 1; i < w->run_count; i++) {
        struct managed_run run = w->runs[i];
        for (j = i; j > 0 && w->runs[j - 1].anchor > run.anchor; j--)
            w->runs[j] = w->runs[j - 1];
        w->runs[j] = run;
    }
}

/* Return whether the pc is in the interpreter's loop, as far as a symbol says. Context: signal. */
static u32 is_in_loop_sigsafe(const u64 *recipe, u64 pc)
{
    return pc - recipe[RECIPE_EVAL_START] < recipe[RECIPE_EVAL_END] - recipe[RECIPE_EVAL_START] ||
           pc - recipe[RECIPE_EVAL_COLD_START] < recipe[RECIPE_EVAL_COLD_END] - recipe[RECIPE_EVAL_COLD_START];
}

/* Return the index of the first native frame of the loop from `from` on; NATIVE_NONE if there is none. Context:
 * signal. */
static u32 loop_next_sigsafe(const struct unwinder *u, const u64 *recipe, u32 from)
{
    u32 i;
    for (i = from; i < u->frame_count; i++)
        if (is_in_loop_sigsafe(recipe, u->frames[i]))
            return i;
    return NATIVE_NONE;
}

static u32 loops_count_sigsafe(const struct unwinder *u, const u64 *recipe, u32 from, u32 end)
{
    u32 i, loops = 0;
    for (i = from; i < end; i++)
        loops += is_in_loop_sigsafe(recipe, u->frames[i]);
    return loops;
}

/* End the stack where the current greenlet began: at greenlet's first frames that have as many of the loop below them as
 * there are runs, or one more. Context: signal. */
static void greenlet_end_by_loop_sigsafe(const struct managed_walk *w, struct unwinder *u, const u64 *recipe)
{
    u32 at = 0, from = 0, loops = 0;
    while ((at = greenlet_frame_sigsafe(u, from)) != NATIVE_NONE && loops <= w->run_count) {
        loops += loops_count_sigsafe(u, recipe, from, at);
        if (loops - w->run_count <= 1) {
            greenlet_end_sigsafe(u, at);
            return;
        }
        from = at + 1;
    }
}

/* Return whether the runs have no anchors, and get their native frames by their order. Context: signal. */
static u32 is_placed_by_loop_sigsafe(const u64 *recipe)
{
    return recipe[RECIPE_WALK] == PYTHON_FRAME_OBJECTS || recipe[RECIPE_WALK] == RUBY_CONTROL_FRAMES;
}

/* Leave out the innermost run of Ruby if it has no native frame yet: its function is about to be called. Context: signal. */
static void run_entering_drop_sigsafe(struct managed_walk *w, const u64 *recipe, u32 loops)
{
    if (recipe[RECIPE_WALK] != RUBY_CONTROL_FRAMES || w->run_count != loops + 1)
        return;
    w->runs[0].words = 0;
    w->runs[0].native = 0;
    if (w->verdict == MANAGED_EXACT)
        w->verdict = MANAGED_ENTERING;
}

/* Give runs without anchors (3.8, 3.9, Ruby) the native frames of the loop, from the root; from the leaf if either walk
 * was cut. Context: signal. */
static void runs_place_by_loop_sigsafe(struct managed_walk *w, struct unwinder *u, const u64 *recipe)
{
    u32 i, loops, run, is_whole;
    greenlet_end_by_loop_sigsafe(w, u, recipe);
    loops = loops_count_sigsafe(u, recipe, 0, u->frame_count);
    is_whole = !w->is_cut && u->verdict <= VERDICT_SCANNED;
    if (is_whole)
        run_entering_drop_sigsafe(w, recipe, loops);
    if (is_whole && w->verdict != MANAGED_ENTERING && (loops < w->run_count || loops > w->run_count + 1) && w->verdict != MANAGED_TORN)
        w->verdict = MANAGED_MISPLACED;
    if (is_whole && loops == w->run_count + 1 && w->verdict == MANAGED_EXACT)
        w->verdict = MANAGED_ENTERING;
    /* Too many native frames: the innermost have no frame object yet. Too few: the innermost objects have none. */
    run = is_whole && loops < w->run_count ? w->run_count - loops : 0;
    loops = is_whole && loops > w->run_count ? loops - w->run_count : 0;
    for (i = 0; i < u->frame_count && run < w->run_count; i++) {
        if (!is_in_loop_sigsafe(recipe, u->frames[i]))
            continue;
        if (loops)
            loops--;
        else {
            w->runs[run].native = i;
            w->runs[run++].is_placed = 1;
        }
    }
    w->placed = run;
}

/* Give runs the native frames that contain their anchors, from run `w->placed` and native frame `from` on. Context:
 * signal. */
static void runs_place_sigsafe(struct managed_walk *w, struct unwinder *u, u32 from)
{
    u32 run;
    for (run = w->placed; run < w->run_count; run++) {
        u32 native = w->runs[run].anchor ? native_of_sigsafe(w, u, w->runs[run].anchor, from) : NATIVE_NONE;
        struct loop_place *place = &u->agent->loop_places[w->runs[run].recipe];
        if (native == NATIVE_NONE)
            continue;
        if (u->guessed && native >= u->guessed_at && place->distance &&
            w->cfas[native] - w->runs[run].anchor != place->distance)
            continue;                         /* a guess went too far: it is not the loop's */
        w->runs[run].native = native;
        w->runs[run].is_placed = 1;
        w->placed = run + 1;
        from = native;
        if (!u->guessed && native) {
            place->distance = w->cfas[native] - w->runs[run].anchor;
            place->pc = u->frames[native];
        }
    }
}

/* Take back a guess that has passed over the native frames of some runs: the walk is cut there. Context: signal. */
static void guess_take_back_sigsafe(struct managed_walk *w, struct unwinder *u)
{
    u64 sp;
    if ((u->verdict != VERDICT_GUESSED && u->verdict != VERDICT_SCANNED) || w->placed == w->run_count ||
        (w->placed && w->runs[w->placed - 1].native >= u->guessed_at))
        return;
    sp = u->guessed_at ? w->cfas[u->guessed_at - 1] : w->leaf_sp;
    if (!sp || w->runs[w->placed].anchor <= sp)
        return;
    u->frame_count = u->guessed_at + 1;
    u->scanned_pc = 0;
    u->sp = sp;
    u->verdict = VERDICT_NO_UNWIND_INFO;
}

/* Continue a native walk that was cut, at the next run's native frame. Returns 0 if it cannot. Context: signal. */
static u32 walk_bridge_sigsafe(struct managed_walk *w, struct unwinder *u)
{
    u64 cfa, ra, pc, distance;
    const struct unwind_rule *rule;
    u32 number, run = w->placed;
    if (u->verdict != VERDICT_NO_UNWIND_INFO && u->verdict != VERDICT_BAD_MEMORY && u->verdict != VERDICT_UNSUPPORTED_RULE)
        return 0;
    while (run < w->run_count && w->runs[run].anchor <= u->sp)
        run++;
    if (run == w->run_count || u->frame_count + 2 > MAX_FRAMES)
        return 0;
    pc = u->agent->loop_places[w->runs[run].recipe].pc;
    distance = u->agent->loop_places[w->runs[run].recipe].distance;
    if (!distance)
        return 0;
    cfa = w->runs[run].anchor + distance;
    if (cfa <= u->sp || !stack_word_sigsafe(u, cfa - 8, &ra) || !is_code_sigsafe(u, ra - 1))
        return 0;
    number = rule_for_sigsafe(u->agent, u->map, pc);
    if (number >= RULE_NOT_READY)
        return 0;
    rule = &u->agent->rules->rules[number];
    u->bp_known = rule->rbp_kind == RBP_SAVED && stack_word_sigsafe(u, cfa + (u64)(i64)rule->rbp_off, &u->bp);
    /* The frame that was not understood ends somewhere below. */
    w->cfas[u->frame_count - 1] = w->runs[run].anchor & ~15ULL;
    w->cfas[u->frame_count] = cfa;
    u->frames[u->frame_count++] = pc;
    u->sp = cfa;
    u->pc = call_site_sigsafe(ra);
    u->gregs = (const u64 *)0;
    u->guessed = 1;
    return 1;
}

/* Return the index of the native frame that runs a run whose end is not known, because it has too many frames: the next
 * one of the loop from `from` on, by its symbol, or by an entry frame in the place where it has them. NATIVE_NONE if
 * there is none. Context: signal. */
static u32 native_of_cut_run_sigsafe(struct managed_walk *w, const struct unwinder *u, u32 recipe_index, u32 from)
{
    const u64 *recipe = u->agent->recipes[recipe_index];
    u32 i = loop_next_sigsafe(u, recipe, from);
    u64 distance = u->agent->loop_places[recipe_index].distance;
    if (i != NATIVE_NONE || !distance || recipe[RECIPE_FRAME_OWNER] == ABSENT)
        return i;
    for (i = from; i < u->frame_count; i++) {
        u64 anchor = w->cfas[i] - distance;
        u8 owner;
        if (w->cfas[i] && anchor >= (i ? w->cfas[i - 1] : w->leaf_sp) &&
            managed_u8_sigsafe(w, anchor + recipe[RECIPE_FRAME_OWNER], &owner) && owner >= OWNER_CSTACK && owner < 8)
            return i;
    }
    return NATIVE_NONE;
}

/* Give runs without a native frame a place by their order. Context: signal. */
static void runs_place_rest_sigsafe(struct managed_walk *w, const struct unwinder *u)
{
    u32 run, last = 0, is_whole = u->verdict <= VERDICT_SCANNED;
    for (run = 0; run < w->run_count; run++) {
        if (w->runs[run].is_placed) {
            last = w->runs[run].native;
            continue;
        }
        if (w->is_cut && run + 1 == w->run_count) {
            u32 native = native_of_cut_run_sigsafe(w, u, w->runs[run].recipe, w->placed ? last + 1 : 0);
            if (native != NATIVE_NONE) {
                w->runs[run].native = native;
                w->runs[run].is_placed = 1;
                return;
            }
        }
        if (run >= w->placed && !is_whole)
            last = u->frame_count - 1;        /* it lies above the cut */
        else if (w->runs[run].words && w->verdict < MANAGED_TORN)
            w->verdict = MANAGED_MISPLACED;
        w->runs[run].native = last;
    }
}

/* Return how many words a frame has, by its first one. Context: signal. */
static u32 words_of_frame_sigsafe(const struct managed_walk *w, u64 word)
{
    if (word >> WORD_SHIFT != WORD_CODE)
        return 1;
    return w->agent->recipes[word >> WORD_RECIPE_SHIFT & 0xff][RECIPE_RUNTIME] == RUNTIME_RUBY ? RUBY_WORDS : CODE_WORDS;
}

/* Leave out what does not fit at the root's side. Context: signal. */
static void merge_cut_sigsafe(struct managed_walk *w, struct unwinder *u)
{
    u32 total = u->frame_count + w->word_count, run, words, kept = 0;
    if (total <= MAX_FRAMES)
        return;
    w->is_cut = 1;
    u->verdict = VERDICT_TRUNCATED_DEPTH;
    for (run = 0; run < w->run_count; run++) {
        u32 native = w->runs[run].native;
        if (native + 1 + kept + w->runs[run].words > MAX_FRAMES)
            break;
        kept += w->runs[run].words;
    }
    if (run == w->run_count) {
        u->frame_count = MAX_FRAMES - kept;
        return;
    }
    u->frame_count = w->runs[run].native + 1;
    if (u->frame_count + kept > MAX_FRAMES) {
        u->frame_count = MAX_FRAMES - kept;
        w->run_count = run;
        return;
    }
    for (words = 0; words < w->runs[run].words;) {
        u32 more = words_of_frame_sigsafe(w, w->words[w->runs[run].first + words]);
        if (u->frame_count + kept + words + more > MAX_FRAMES)
            break;
        words += more;
    }
    w->runs[run].words = words;
    w->run_count = run + 1;
}

/* Insert the words of all runs into the native frames, in place, from the root. Context: signal. */
static void merge_insert_sigsafe(struct managed_walk *w, struct unwinder *u)
{
    u32 i, run = w->run_count, at = u->frame_count, is_loop, words;
    for (i = 0; i < run; i++)
        at += w->runs[i].words;
    i = u->frame_count;
    u->frame_count = at;
    while (i-- > 0) {
        for (is_loop = 0; run > 0 && w->runs[run - 1].native == i; run--) {
            const struct managed_run *placed = &w->runs[run - 1];
            is_loop |= placed->is_placed;
            for (words = placed->words; words-- > 0;)
                u->frames[--at] = w->words[placed->first + words];
        }
        u->frames[--at] = is_loop ? (u64)FRAME_KIND_EVAL << WORD_SHIFT | (u->frames[i] & WORD_ADDRESS_MASK) : u->frames[i];
    }
}

/*
 * Walk the native stack, and the managed frames of the thread, into u->frames. `w` is 0 if no interpreter is known.
 * Returns enum managed_verdict. Context: signal.
 */
static u32 stack_take_sigsafe(struct unwinder *u, struct managed_walk *w, u64 thread_pointer, u32 tid, const u64 *gregs)
{
    u32 i, walked = 0, count = w ? states_of_thread_sigsafe(u->agent, thread_pointer, tid, w->states) : 0, from, bridges = 0;
    u32 loop, in_greenlet;
    const u64 *recipe;
    u64 leaf_sp = u->sp;
    if (w) {
        w->marks = w->is_copying = 0;
        w->agent = u->agent;
        w->in_handler = u->in_handler;
        w->runtime_bytes = w->stack_bytes = 0;
        managed_forget_pages_sigsafe(w);
        if (!count && u->in_handler && thread_pointer)
            count = state_by_lock_sigsafe(w, thread_pointer, w->states);
    }
    u->walk = w;
    u->cfas = count ? w->cfas : (u64 *)0;
    unwind_sigsafe(u);
    if (u->verdict == VERDICT_RETRY || !u->frame_count)
        return MANAGED_NONE;
    if (!count)
        return u->managed_verdict;
    w->verdict = MANAGED_NONE;
    w->run_count = w->word_count = w->placed = w->is_cut = w->noted = 0;
    w->steps_left = STEPS_MAX;
    w->leaf_sp = leaf_sp;
    managed_forget_pages_sigsafe(w);
    if (u->in_handler && !u->window_delta && u->window_end - u->window_start >= 8) {
        w->stack_start = u->window_start;
        w->stack_bytes = u->window_end - u->window_start - 7;
    }
    for (i = 0; i < count; i++) {
        u32 runs = w->run_count;
        recipe = u->agent->recipes[w->states[i].recipe];
        w->runtime_start = recipe[RECIPE_RUNTIME_ADDR];
        w->runtime_bytes = recipe[RECIPE_RUNTIME_BYTES] < 8 ? 0 : recipe[RECIPE_RUNTIME_BYTES] - 7;
        if (!is_state_sigsafe(w, &w->states[i]) &&
            (i + 1 < count || walked || !u->in_handler || !state_by_lock_sigsafe(w, thread_pointer, &w->states[i])))
            continue;
        if (recipe[RECIPE_RUNTIME] == RUNTIME_RUBY)
            ruby_walk_sigsafe(w, &w->states[i]);
        else
            python_walk_sigsafe(w, &w->states[i], u, gregs);
        if (recipe[RECIPE_RUNTIME] == RUNTIME_PYTHON && (w->marks & MARK_LOCK) != MARK_LOCK_HELD)
            marks_read_sigsafe(w, &w->states[i], w->run_count > runs);
        walked += w->run_count > runs;
    }
    if (!w->run_count) {
        greenlet_end_sigsafe(u, 0);           /* a greenlet that runs no Python now */
        return w->verdict;
    }
    recipe = u->agent->recipes[w->states[0].recipe];
    loop = is_placed_by_loop_sigsafe(recipe) ? loop_next_sigsafe(u, recipe, 0)
                                                       : native_of_sigsafe(w, u, w->runs[0].anchor, 0);
    /* Greenlet's code is called by the innermost Python function: it may be about to switch, or be switching. */
    in_greenlet = u->agent->greenlet_start && greenlet_frame_sigsafe(u, 0) < loop;
    if (in_greenlet && !is_frame_of_loop_sigsafe(w, u, gregs, loop))
        return between_greenlets_sigsafe(u);
    if (walked > 1)
        runs_sort_sigsafe(w);
    if (is_placed_by_loop_sigsafe(recipe)) {
        runs_place_by_loop_sigsafe(w, u, recipe);
    } else {
        runs_place_sigsafe(w, u, 0);
        guess_take_back_sigsafe(w, u);
        while (w->placed < w->run_count && bridges++ < BRIDGES_MAX && walk_bridge_sigsafe(w, u)) {
            from = u->frame_count - 1;
            unwind_on_sigsafe(u);
            if (u->verdict == VERDICT_RETRY)
                return MANAGED_NONE;
            runs_place_sigsafe(w, u, from);
        }
        if (w->placed == w->run_count)
            greenlet_end_sigsafe(u, w->runs[w->placed - 1].native + 1);
    }
    runs_place_rest_sigsafe(w, u);
    if (in_greenlet && (w->verdict == MANAGED_MISPLACED || loops_count_sigsafe(u, recipe, 0, u->frame_count) > w->run_count))
        return between_greenlets_sigsafe(u);
    merge_cut_sigsafe(w, u);
    merge_insert_sigsafe(w, u);
    return w->is_cut && w->verdict < MANAGED_TORN ? MANAGED_DEPTH : w->verdict;
}
