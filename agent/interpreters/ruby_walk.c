/*
 * The walk over Ruby's frames: thread → execution context of its fiber → an array of control frames, innermost first. All of
 * this may run in the handler: bounded, no libc, no locks; memory that cannot be read, or that holds no frame, ends the walk
 * (MANAGED_TORN).
 *
 * A run is what one call of rb_vm_exec executes. It ends at a frame with the flag FINISH, and has no anchor: runs are given the
 * native frames of rb_vm_exec by their order (managed_merge.c). Frames of C functions are native frames already.
 */

#define RUBY_FRAME_FINISH 0x20            /* flags of a frame: rb_vm_exec returns when it ends */
#define RUBY_FRAME_IN_C 0x80
#define RUBY_FRAME_KIND_MASK 0x7fff0001ULL
#define RUBY_FRAME_DUMMY 0x79990001ULL    /* the highest kind: at the root of each stack; runs nothing, may have an iseq */
#define RUBY_FRAME_METHOD 0x11110001ULL   /* the lowest */

/* Read what a frame is: its flags. Returns 0 if it is no frame. Context: signal. */
static u32 ruby_flags_sigsafe(struct managed_walk *w, const u64 *recipe, u64 frame, u64 *flags)
{
    u64 environment, kind;
    if (!managed_word_sigsafe(w, frame + recipe[RUBY_FRAME_ENVIRONMENT], &environment) ||
        !managed_word_sigsafe(w, environment, flags))
        return 0;
    kind = *flags & RUBY_FRAME_KIND_MASK;
    return kind >= RUBY_FRAME_METHOD && kind <= RUBY_FRAME_DUMMY && *flags & 1;
}

/* Have what is read next copied, or not. Context: signal. */
static void ruby_copying_sigsafe(struct managed_walk *w, u32 is_copying)
{
    w->is_copying = w->in_handler && is_copying;
}

/* Append the frame with this iseq. Returns 0 if it is no iseq, or if there is no room. Context: signal. */
static u32 ruby_add_sigsafe(struct managed_walk *w, const u64 *recipe, u32 recipe_index, u64 iseq, u64 pc)
{
    u64 body, start, position = NO_POSITION;
    u32 words;
    if (!ruby_body_sigsafe(w, recipe, &iseq, &body) || !managed_word_sigsafe(w, body + recipe[RECIPE_CODE_BYTES], &start) ||
        !managed_u32_sigsafe(w, body + recipe[RUBY_BODY_WORDS], &words))
        return 0;
    /* The pc is that of the next instruction. */
    if (pc >= start && (pc - start) / 8 <= words)
        position = (pc - start) / 8 - (pc > start);
    return walk_add_code_sigsafe(w, recipe, recipe_index, iseq, position);
}

/* Append the frames of an execution context. Returns 0 at the end of what can be read. Context: signal. */
static u32 ruby_frames_walk_sigsafe(struct managed_walk *w, const u64 *recipe, u32 recipe_index, u64 context, u32 is_shared)
{
    u64 stack, words, frame, end, iseq, pc, flags, bytes = recipe[RUBY_FRAME_BYTES];
    if (!managed_word_sigsafe(w, context + recipe[RUBY_CONTEXT_STACK], &stack) ||
        !managed_word_sigsafe(w, context + recipe[RUBY_CONTEXT_STACK_WORDS], &words) ||
        !managed_word_sigsafe(w, context + recipe[RUBY_CONTEXT_FRAME], &frame))
        return 0;
    end = stack + words * 8;
    if (!stack || words >> 32 || frame < stack || frame > end || (end - frame) % bytes)
        return 0;
    for (; frame < end && !w->is_cut; frame += bytes) {
        u32 is_added;
        if (!walk_step_sigsafe(w) || !ruby_flags_sigsafe(w, recipe, frame, &flags) ||
            !managed_word_sigsafe(w, frame + recipe[RECIPE_FRAME_CODE], &iseq) ||
            !managed_word_sigsafe(w, frame + recipe[RECIPE_FRAME_POSITION], &pc))
            return 0;
        if (!iseq || !pc || flags & RUBY_FRAME_IN_C || (flags & RUBY_FRAME_KIND_MASK) == RUBY_FRAME_DUMMY)
            continue;
        ruby_copying_sigsafe(w, is_shared);
        is_added = ruby_add_sigsafe(w, recipe, recipe_index, iseq, pc);
        ruby_copying_sigsafe(w, 0);
        if (!is_added)
            return w->is_cut;
        if (flags & RUBY_FRAME_FINISH) {
            run_end_sigsafe(w, 0);
            run_begin_sigsafe(w);
        }
    }
    return 1;
}

/* Return whether the thread does not hold the lock of its ractor: another one may move objects. Context: signal. */
static u32 ruby_is_shared_sigsafe(struct managed_walk *w, const u64 *recipe, u64 thread)
{
    u64 ractor, owner;
    return !managed_word_sigsafe(w, thread + recipe[RUBY_THREAD_RACTOR], &ractor) ||
           !managed_word_sigsafe(w, ractor + recipe[RUBY_RACTOR_OWNER], &owner) || owner != thread;
}

/* Append the frames of one thread. Context: signal. */
static void ruby_walk_sigsafe(struct managed_walk *w, const struct python_state *state)
{
    const u64 *recipe = w->agent->recipes[state->recipe];
    u64 context;
    u32 runs = w->run_count, whole;
    w->recipe = state->recipe;
    if (!managed_word_sigsafe(w, state->runtime_addr + recipe[RUBY_THREAD_CONTEXT], &context) || !context)
        return;                               /* it has just begun, or ends */
    run_begin_sigsafe(w);
    whole = ruby_frames_walk_sigsafe(w, recipe, state->recipe, context,
                                     w->in_handler && ruby_is_shared_sigsafe(w, recipe, state->runtime_addr));
    ruby_copying_sigsafe(w, 0);
    /* Frames of a run whose end was not reached are kept: they are what was read. */
    if (w->run_count < RUNS_MAX && w->runs[w->run_count].first < w->word_count)
        run_end_sigsafe(w, 0);
    if (!whole)
        w->verdict = MANAGED_TORN;
    else if (w->verdict < MANAGED_EXACT && w->run_count > runs)
        w->verdict = MANAGED_EXACT;
}
