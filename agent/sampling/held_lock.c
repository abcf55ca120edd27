/*
 * Whether a thread holds a lock that others wait for, at the moment of its stack. What it does at other moments is not
 * done with the lock, though it may look the same: one function takes a lock, releases it and goes on.
 *
 * The sampler finds the holder by those that wait (holders.c) and notes a word of the lock that names it. The handler
 * reads that word when it takes a stack of the holder; the sampler, when it finds the holder asleep.
 */

/* Return the number of the lock that a thread holds and others await; 0 if there is none. Context: signal, of this thread;
 * or the sampler, while the thread sleeps. */
static u32 held_lock_sigsafe(const struct agent *a, const struct thread_slot *slot)
{
    u64 runtime_addr = load_acquire_u64(&slot->held_runtime_addr), word = slot->held_word, mask = slot->held_mask, now = 0;
    u32 lock = slot->held_lock;
    if (!runtime_addr || read_memory_sigsafe(a, runtime_addr, &now, 8) != 8 || (now & mask) != word ||
        load_acquire_u64(&slot->held_runtime_addr) != runtime_addr)
        return 0;
    return lock;
}

/* Return a number for a lock. Another lock may have the same. Never 0. */
static u32 lock_number(u64 runtime_addr)
{
    u64 hash = hash_mix(0, runtime_addr);
    u32 number = (u32)(hash >> 32) & 0xffff;
    return number ? number : 1;
}

/* Note a lock that a thread holds and others await, and the word that tells whether it does. If it sleeps, it holds the
 * lock all the time. */
static void held_lock_note(struct agent *a, struct thread_slot *holder, u32 lock, u64 runtime_addr, u64 word, u64 mask)
{
    struct interval *open = &holder->open;
    if (holder->held_runtime_addr != runtime_addr || holder->held_word != word || holder->held_mask != mask) {
        store_release_u64(&holder->held_runtime_addr, 0);
        holder->held_word = word;
        holder->held_mask = mask;
        holder->held_lock = lock;
        store_release_u64(&holder->held_runtime_addr, runtime_addr);
    }
    if (open->state && !(open->marks >> HELD_LOCK_SHIFT) && held_lock_sigsafe(a, holder)) {
        open->marks |= lock << HELD_LOCK_SHIFT;
        open->dirty = 1;
    }
}
