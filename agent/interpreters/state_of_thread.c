/*
 * The thread states of one thread, and what they say of the interpreter's lock. In the handler, and in the sampler thread for
 * a sleeping thread. The list of all states is made by python_states.c.
 */

/* Find the thread states of a thread; returns their number. By thread pointer, or by tid. Context: signal. */
static u32 states_of_thread_sigsafe(const struct agent *a, u64 thread_pointer, u32 tid, struct python_state *found)
{
    const struct python_states *all = (const struct python_states *)load_acquire_u64((const volatile u64 *)&a->states);
    u32 count = all ? load_acquire_u32(&all->count) : 0, low = 0, high = count, n = 0, i;
    if (thread_pointer) {
        while (low < high) {
            u32 middle = (low + high) / 2;
            if (all->states[middle].thread_pointer < thread_pointer)
                low = middle + 1;
            else
                high = middle;
        }
        for (i = low; i < count && all->states[i].thread_pointer == thread_pointer && n < STATES_PER_THREAD; i++)
            found[n++] = all->states[i];
        return n;
    }
    for (i = 0; i < count && tid && n < STATES_PER_THREAD; i++)
        if (all->states[i].tid == tid)
            found[n++] = all->states[i];
    return n;
}

/* Return whether a thread state is still what it was when the list was made. Context: signal. */
static u32 is_state_sigsafe(struct managed_walk *w, const struct python_state *state)
{
    const u64 *recipe = w->agent->recipes[state->recipe];
    u64 thread_pointer, interpreter, holder = state->runtime_addr;
    if (recipe[RECIPE_RUNTIME] == RUNTIME_RUBY && recipe[RUBY_THREAD_NATIVE] != ABSENT &&
        !managed_word_sigsafe(w, holder + recipe[RUBY_THREAD_NATIVE], &holder))
        return 0;
    return managed_word_sigsafe(w, holder + recipe[RECIPE_THREAD_POINTER], &thread_pointer) &&
           thread_pointer == state->thread_pointer &&
           managed_word_sigsafe(w, state->runtime_addr + recipe[RECIPE_THREAD_INTERPRETER], &interpreter) &&
           interpreter == state->interpreter;
}

/*
 * Find the thread state that holds an interpreter's lock, if it is this thread's. The list of thread states is some
 * milliseconds old: a thread that has just begun is not in it, nor is the state that C code makes for a single call
 * (PyGILState_Ensure). While they run Python, they hold the lock. A recipe that was withdrawn is not used. Returns the
 * number of states found. Context: signal.
 */
static u32 state_by_lock_sigsafe(struct managed_walk *w, u64 thread_pointer, struct python_state *found)
{
    const struct agent *a = w->agent;
    u64 used = load_acquire_u64(&a->recipes_used);
    u32 count = load_acquire_u32(&a->lock_count), i;
    for (i = 0; i < count; i++) {
        const u64 *recipe = a->recipes[a->locks[i].recipe];
        u64 lock = a->locks[i].runtime_addr;
        u32 is_locked;
        if (!(used >> a->locks[i].recipe & 1) || !managed_u32_sigsafe(w, lock + recipe[RECIPE_GIL_LOCKED], &is_locked) || is_locked != 1 ||
            !managed_word_sigsafe(w, lock + recipe[RECIPE_GIL_HOLDER], &found->runtime_addr) || !found->runtime_addr ||
            !managed_word_sigsafe(w, found->runtime_addr + recipe[RECIPE_THREAD_POINTER], &found->thread_pointer) ||
            found->thread_pointer != thread_pointer ||
            !managed_word_sigsafe(w, found->runtime_addr + recipe[RECIPE_THREAD_INTERPRETER], &found->interpreter))
            continue;
        found->recipe = a->locks[i].recipe;
        return 1;
    }
    return 0;
}

/* Note whether the thread holds the interpreter's lock, and collects garbage. Without Python functions (`has_frames` is 0:
 * C code that was given the lock), only that it does. Context: signal. */
static void marks_read_sigsafe(struct managed_walk *w, const struct python_state *state, u32 has_frames)
{
    const u64 *recipe = w->agent->recipes[state->recipe];
    u64 lock = recipe[RECIPE_GIL_ADDR], holder;
    u32 is_locked, is_held, is_collecting = 0;
    if (lock == ABSENT && (recipe[RECIPE_INTERPRETER_GIL] == ABSENT ||
                           !managed_word_sigsafe(w, state->interpreter + recipe[RECIPE_INTERPRETER_GIL], &lock)))
        return;
    if (!managed_word_sigsafe(w, lock + recipe[RECIPE_GIL_HOLDER], &holder) ||
        !managed_u32_sigsafe(w, lock + recipe[RECIPE_GIL_LOCKED], &is_locked))
        return;
    /* The last holder stays noted after it has released the lock. */
    is_held = is_locked == 1 && holder == state->runtime_addr;
    if (is_held || has_frames)
        w->marks = is_held ? MARK_LOCK_HELD : MARK_LOCK_RELEASED;
    if (is_held && recipe[RECIPE_INTERPRETER_COLLECTING] != ABSENT &&
        managed_u32_sigsafe(w, state->interpreter + recipe[RECIPE_INTERPRETER_COLLECTING], &is_collecting) &&
        is_collecting == 1)
        w->marks |= MARK_COLLECTING;
}
