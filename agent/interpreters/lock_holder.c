/*
 * Which thread holds an interpreter's lock, seen at each round. Sampler thread only; handlers read the list of locks.
 *
 * A thread that waits for a CPU may hold the lock, or may have been woken to ask for it once more. Its last stack does
 * not tell which. But each round shows whether a lock is held. Of that time, what threads ran or slept with the lock is
 * known (intervals.c). In the rest, its holder waits for a CPU. That rest is shared out among the threads that wait for
 * a CPU and whose last stack held the lock (queued_without_lock): to each the same part of its wait, but never more than
 * it was seen to hold the lock. Single rounds are too few to tell it for each wait.
 */

#define LOCK_LOOK_MAX_NS 1000000000ULL    /* a round that is later says little about the time before it */

/* Note the lock of an interpreter, once. */
static void lock_note(struct agent *a, u32 recipe_index, u64 interpreter)
{
    const u64 *recipe = a->recipes[recipe_index];
    u64 lock = recipe[RECIPE_GIL_ADDR];
    u32 i;
    if (lock == ABSENT &&
        (recipe[RECIPE_INTERPRETER_GIL] == ABSENT ||
         read_memory(a, interpreter + recipe[RECIPE_INTERPRETER_GIL], &lock, 8) != 8 || !lock))
        return;
    for (i = 0; i < a->lock_count; i++)
        if (a->locks[i].runtime_addr == lock) {
            a->locks[i].recipe = recipe_index;
            return;
        }
    if (a->lock_count == LOCKS_MAX)
        return;
    a->locks[i].runtime_addr = lock;
    a->locks[i].recipe = recipe_index;
    a->locks[i].slot = 0;
    store_release_u32(&a->lock_count, i + 1);
}

/* Return whether an address is in the lock of an interpreter. Who waits there waits for the lock, also a thread without
 * Python functions: one of a server that embeds Python, at the begin of a call. */
static u32 is_in_lock(const struct agent *a, u64 runtime_addr)
{
    u32 i;
    for (i = 0; i < a->lock_count && a->states && a->states->count; i++)
        if (runtime_addr - a->locks[i].runtime_addr < a->recipes[a->locks[i].recipe][RECIPE_GIL_BYTES])
            return 1;
    return 0;
}

/* Return whether a lock is held, and the tid of the thread whose state holds it; 0 if it is not known. */
static u32 lock_look(struct agent *a, const struct python_lock *lock, u32 *tid)
{
    const u64 *recipe = a->recipes[lock->recipe];
    const struct python_states *all = a->states;
    u64 holder;
    u32 is_locked, i;
    *tid = 0;
    if (!(load_acquire_u64(&a->recipes_used) >> lock->recipe & 1) ||
        read_memory(a, lock->runtime_addr + recipe[RECIPE_GIL_LOCKED], &is_locked, 4) != 4 || is_locked != 1 ||
        read_memory(a, lock->runtime_addr + recipe[RECIPE_GIL_HOLDER], &holder, 8) != 8)
        return 0;
    for (i = 0; i < all->count; i++)
        if (all->states[i].runtime_addr == holder)
            *tid = all->states[i].tid;
    return 1;
}

/* Begin anew: the time before is nobody's. */
static void locks_restart(struct agent *a, u64 now_ns)
{
    a->locks_ns = now_ns;
}

/* Add the time since the last round for the locks that are held now, and for the threads that hold them. Once a round. */
static void locks_look(struct agent *a, u64 now_ns)
{
    u64 passed_ns = a->locks_ns ? now_ns - a->locks_ns : 0;
    u32 i;
    a->locks_ns = now_ns;
    if (passed_ns > LOCK_LOOK_MAX_NS)
        passed_ns = LOCK_LOOK_MAX_NS;
    for (i = 0; i < a->lock_count && a->states; i++) {
        struct thread_slot *slot;
        u32 tid, hint = a->locks[i].slot;
        if (!lock_look(a, &a->locks[i], &tid))
            continue;
        a->lock_ns += (i64)passed_ns;
        slot = tid ? thread_find(a, tid, &hint) : (struct thread_slot *)0;
        if (!slot)
            continue;
        a->locks[i].slot = (u32)(slot - a->slots);
        slot->lock_ns += passed_ns;
    }
}
