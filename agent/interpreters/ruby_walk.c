/*
 * The walk over Ruby's frames: thread → execution context of its fiber → an array of control frames, innermost first. All of
 * this may run in the handler: bounded, no libc, no locks; memory that cannot be read, or that holds no frame, ends the walk
 * (MANAGED_TORN).
 *
 * A run is what one call of rb_vm_exec executes. It ends at a frame with the flag FINISH, and has no anchor: runs are given the
 * native frames of rb_vm_exec by their order (managed_merge.c). Methods in C belong to the run that called them, and come before
 * it: below their own native frames.
 */

#define RUBY_FRAME_FINISH 0x20            /* flags of a frame: rb_vm_exec returns when it ends */
#define RUBY_FRAME_IN_C 0x80
#define RUBY_FRAME_KIND_MASK 0x7fff0001ULL
#define RUBY_FRAME_DUMMY 0x79990001ULL    /* the highest kind: at the root of each stack; runs nothing, may have an iseq */
#define RUBY_FRAME_METHOD 0x11110001ULL   /* the lowest */
#define RUBY_FRAME_C_METHOD 0x55550001ULL

/* Read what a frame is: its environment, and its flags. Returns 0 if it is no frame. Context: signal. */
static u32 ruby_flags_sigsafe(struct managed_walk *w, const u64 *recipe, u64 frame, u64 *environment, u64 *flags)
{
    u64 kind;
    if (!managed_word_sigsafe(w, frame + recipe[RUBY_FRAME_ENVIRONMENT], environment) ||
        !managed_word_sigsafe(w, *environment, flags))
        return 0;
    kind = *flags & RUBY_FRAME_KIND_MASK;
    return kind >= RUBY_FRAME_METHOD && kind <= RUBY_FRAME_DUMMY && *flags & 1;
}

/* Have what is read next copied, or not. Context: signal. */
static void ruby_copying_sigsafe(struct managed_walk *w, u32 is_copying)
{
    w->is_copying = w->in_handler && is_copying;
    w->page_last = 0;
}

/* Append a frame: an iseq or method entry, and the method around it, or 0. Returns 0 if it is none, or if there is no room.
 * Context: signal. */
static u32 ruby_add_code_sigsafe(struct managed_walk *w, const u64 *recipe, u32 recipe_index, u64 code, u64 method, u64 position)
{
    u64 owner = ruby_owner_sigsafe(w, method);
    u32 id, fingerprint = ruby_fingerprint_sigsafe(w, recipe, code, owner, method);
    if (!fingerprint)
        return 0;
    if (w->word_count + RUBY_WORDS > MAX_FRAMES) {
        w->is_cut = 1;
        return 0;
    }
    id = code_id_sigsafe(w->agent, ruby_key_sigsafe(code, owner), fingerprint);
    if (id) {
        w->words[w->word_count++] = (u64)FRAME_KIND_MANAGED << WORD_SHIFT | position << FRAME_POSITION_SHIFT | id;
        return 1;
    }
    w->words[w->word_count++] = (u64)WORD_CODE << WORD_SHIFT | (u64)recipe_index << WORD_RECIPE_SHIFT | code;
    w->words[w->word_count++] = (u64)WORD_CODE << WORD_SHIFT | position << FRAME_POSITION_SHIFT | fingerprint;
    w->words[w->word_count++] = (u64)WORD_CODE << WORD_SHIFT | (owner & CONTENT_MASK);
    w->words[w->word_count++] = (u64)WORD_CODE << WORD_SHIFT | ruby_content_sigsafe(w, recipe, code, owner);
    if (w->in_handler)
        code_note_sigsafe(w, recipe, code, fingerprint);
    return 1;
}

/* Append a frame that runs an iseq. Returns 0 as the former. Context: signal. */
static u32 ruby_add_iseq_sigsafe(struct managed_walk *w, const u64 *recipe, u32 recipe_index, u64 environment, u64 iseq, u64 pc)
{
    u64 body, start, position = NO_POSITION;
    u32 words;
    if (!ruby_body_sigsafe(w, recipe, &iseq, &body) || !managed_word_sigsafe(w, body + recipe[RECIPE_CODE_BYTES], &start) ||
        !managed_u32_sigsafe(w, body + recipe[RUBY_BODY_WORDS], &words))
        return 0;
    /* The pc is that of the next instruction; 0 in a frame that YJIT has just made. */
    if (pc >= start && (pc - start) / 8 <= words && words < NO_POSITION)
        position = (pc - start) / 8 - (pc > start);
    return ruby_add_code_sigsafe(w, recipe, recipe_index, iseq, ruby_method_sigsafe(w, environment), position);
}

/* Append the frame of a method in C, if its name can be told. Returns 0 if there is no room. Context: signal. */
static u32 ruby_add_c_sigsafe(struct managed_walk *w, const u64 *recipe, u32 recipe_index, u64 environment)
{
    u64 method = ruby_method_sigsafe(w, environment);
    if (recipe[RUBY_SYMBOLS] != ABSENT && method)
        ruby_add_code_sigsafe(w, recipe, recipe_index, method, method, NO_POSITION);
    return !w->is_cut;
}

/* Append the frames of an execution context. Returns 0 at the end of what can be read. Context: signal. */
static u32 ruby_frames_walk_sigsafe(struct managed_walk *w, const u64 *recipe, u32 recipe_index, u64 context, u32 is_shared)
{
    u64 stack, words, frame, end, iseq, pc, flags, environment, bytes = recipe[RUBY_FRAME_BYTES];
    u32 first;
    if (!managed_word_sigsafe(w, context + recipe[RUBY_CONTEXT_STACK], &stack) ||
        !managed_word_sigsafe(w, context + recipe[RUBY_CONTEXT_STACK_WORDS], &words) ||
        !managed_word_sigsafe(w, context + recipe[RUBY_CONTEXT_FRAME], &frame))
        return 0;
    first = w->run_count;
    end = stack + words * 8;
    if (!stack || words >> 32 || frame < stack || frame > end || (end - frame) % bytes)
        return 0;
    for (; frame < end && !w->is_cut; frame += bytes) {
        u32 is_added, is_c;
        if (!walk_step_sigsafe(w) || !ruby_flags_sigsafe(w, recipe, frame, &environment, &flags) ||
            !managed_word_sigsafe(w, frame + recipe[RECIPE_FRAME_CODE], &iseq) ||
            !managed_word_sigsafe(w, frame + recipe[RECIPE_FRAME_POSITION], &pc))
            return 0;
        is_c = (flags & RUBY_FRAME_KIND_MASK) == RUBY_FRAME_C_METHOD;
        if (!is_c && (!iseq || flags & RUBY_FRAME_IN_C || (flags & RUBY_FRAME_KIND_MASK) == RUBY_FRAME_DUMMY))
            continue;
        ruby_copying_sigsafe(w, is_shared);
        is_added = is_c ? ruby_add_c_sigsafe(w, recipe, recipe_index, environment)
                        : ruby_add_iseq_sigsafe(w, recipe, recipe_index, environment, iseq, pc);
        ruby_copying_sigsafe(w, 0);
        if (!is_added)
            return w->is_cut;
        if (!is_c && flags & RUBY_FRAME_FINISH) {
            run_end_sigsafe(w, 0);
            run_begin_sigsafe(w);
        }
    }
    /* Methods in C at the root: what a fiber or thread was made of. */
    if (!w->is_cut && w->run_count > first && w->run_count < RUNS_MAX && w->runs[w->run_count].first < w->word_count)
        w->runs[w->run_count - 1].words = w->word_count - w->runs[w->run_count - 1].first;
    return 1;
}

/* Return whether another thread may move objects: this one does not hold the lock of its ractor, or there are other ractors,
 * for which it may be made to wait while it holds it. Context: signal. */
static u32 ruby_is_shared_sigsafe(struct managed_walk *w, const u64 *recipe, const struct python_state *state)
{
    u64 ractor, owner, first, next, head = state->interpreter + recipe[RUBY_VM_RACTORS];
    return !managed_word_sigsafe(w, state->runtime_addr + recipe[RUBY_THREAD_RACTOR], &ractor) ||
           !managed_word_sigsafe(w, ractor + recipe[RUBY_RACTOR_OWNER], &owner) || owner != state->runtime_addr ||
           !managed_word_sigsafe(w, head, &first) || !managed_word_sigsafe(w, first, &next) || next != head;
}

/* Append the frames of one thread. Context: signal. */
static void ruby_walk_sigsafe(struct managed_walk *w, const struct python_state *state)
{
    const u64 *recipe = w->agent->recipes[state->recipe];
    u64 context;
    u32 runs = w->run_count, whole, is_shared;
    w->recipe = state->recipe;
    if (!managed_word_sigsafe(w, state->runtime_addr + recipe[RUBY_THREAD_CONTEXT], &context) || !context)
        return;                               /* it has just begun, or ends */
    run_begin_sigsafe(w);
    is_shared = w->in_handler && ruby_is_shared_sigsafe(w, recipe, state);
    if (is_shared)
        managed_forget_lines_sigsafe(w);
    whole = ruby_frames_walk_sigsafe(w, recipe, state->recipe, context, is_shared);
    ruby_copying_sigsafe(w, 0);
    /* Frames of a run whose end was not reached are kept: they are what was read. */
    if ((!whole || w->is_cut) && w->run_count < RUNS_MAX && w->runs[w->run_count].first < w->word_count)
        run_end_sigsafe(w, 0);
    if (!whole)
        w->verdict = MANAGED_TORN;
    else if (w->verdict < MANAGED_EXACT && w->run_count > runs)
        w->verdict = MANAGED_EXACT;
}
