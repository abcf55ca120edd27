/*
 * Which thread state of an interpreter belongs to which thread: the lists of interpreters and thread states in the
 * target's memory, copied now and then for the handlers. Sampler thread only.
 *
 * Threads come and go meanwhile: a list may be torn, and then the last one is kept. A handler checks each state again.
 */

#define STATES_INTERVAL_NS 100000000ULL
#define STATES_COST_FACTOR 200            /* reading them takes at most this part of the time */
#define INTERPRETERS_MAX 64
#define LIST_IS_TORN (~0ULL)
#define STATE_BYTES 512                   /* all offsets in a thread state that we need are below */

/* Sort by thread pointer. Shell's method: few entries, no stack. */
static void states_sort(struct python_states *all, u32 count)
{
    u32 gap, i, j;
    for (gap = count / 2; gap > 0; gap /= 2)
        for (i = gap; i < count; i++) {
            struct python_state state = all->states[i];
            for (j = i; j >= gap && all->states[j - gap].thread_pointer > state.thread_pointer; j -= gap)
                all->states[j] = all->states[j - gap];
            all->states[j] = state;
        }
}

static u64 state_word(const u8 *bytes, u64 offset)
{
    return offset + 8 <= STATE_BYTES ? *(const u64 *)(bytes + offset) : 0;
}

/* Return the tid in the thread's control block, which glibc keeps right after a fork, too. Where the block is unknown,
 * what Python noted when the state was made (3.11 …); else 0. */
static u32 thread_tid(const struct agent *a, const u64 *recipe, const u8 *bytes)
{
    u64 thread_pointer = state_word(bytes, recipe[RECIPE_THREAD_POINTER]);
    u32 tid = 0;
    if (!a->tid_offset)
        return recipe[RECIPE_THREAD_TID] == ABSENT ? 0 : (u32)state_word(bytes, recipe[RECIPE_THREAD_TID]);
    if (thread_pointer)
        read_memory(a, thread_pointer + a->tid_offset, &tid, 4);
    return tid;
}

/* Append one thread state. `*interpreter` is the state's interpreter, or 0 for any, and is set. Returns the next state of
 * its list, 0 at the end, LIST_IS_TORN if this is no such state. */
static u64 state_read(struct agent *a, u32 recipe_index, u64 at, u64 *interpreter, struct python_states *to, u32 *count)
{
    const u64 *recipe = a->recipes[recipe_index];
    struct python_state *state = &to->states[*count];
    u8 bytes[STATE_BYTES];
    u64 own;
    if (*count >= STATES_MAX)
        return 0;
    /* A thread state is smaller than that, and may end where its memory does. */
    bytes_zero(bytes, STATE_BYTES);
    if (read_memory(a, at, bytes, STATE_BYTES) < (i64)recipe[RECIPE_THREAD_POINTER] + 8)
        return LIST_IS_TORN;
    own = state_word(bytes, recipe[RECIPE_THREAD_INTERPRETER]);
    if (*interpreter && own != *interpreter)
        return LIST_IS_TORN;
    *interpreter = own;
    state->thread_pointer = state_word(bytes, recipe[RECIPE_THREAD_POINTER]);
    state->tid = thread_tid(a, recipe, bytes);
    state->runtime_addr = at;
    state->interpreter = own;
    state->recipe = recipe_index;
    if (state->thread_pointer)
        ++*count;
    return state_word(bytes, recipe[RECIPE_THREAD_NEXT]);
}

/* Append the thread states of one interpreter state. Returns 0 if the list is torn. */
static u32 states_read(struct agent *a, u32 recipe_index, u64 interpreter, struct python_states *to, u32 *count)
{
    u64 at;
    if (read_memory(a, interpreter + a->recipes[recipe_index][RECIPE_INTERPRETER_THREADS], &at, 8) != 8)
        return 0;
    while (at && at != LIST_IS_TORN && *count < STATES_MAX)
        at = state_read(a, recipe_index, at, &interpreter, to, count);
    return at != LIST_IS_TORN;
}

/* Append the thread states of one runtime. Returns 0 if a list is torn. */
static u32 interpreters_read(struct agent *a, u32 recipe_index, struct python_states *to, u32 *count)
{
    const u64 *recipe = a->recipes[recipe_index];
    u64 interpreter, finalizing = 0;
    u32 seen = 0;
    if (read_memory(a, recipe[RECIPE_RUNTIME_ADDR] + recipe[RECIPE_RUNTIME_FINALIZING], &finalizing, 8) != 8 ||
        read_memory(a, recipe[RECIPE_RUNTIME_ADDR] + recipe[RECIPE_RUNTIME_HEAD], &interpreter, 8) != 8)
        return 0;
    if (finalizing) {
        /* Only the thread that ends the interpreter runs Python still: the others end, and their memory is freed. */
        interpreter = 0;
        state_read(a, recipe_index, finalizing, &interpreter, to, count);
        return 1;
    }
    while (interpreter && seen++ < INTERPRETERS_MAX) {
        if (!states_read(a, recipe_index, interpreter, to, count))
            return 0;
        lock_note(a, recipe_index, interpreter);
        if (read_memory(a, interpreter + recipe[RECIPE_INTERPRETER_NEXT], &interpreter, 8) != 8)
            return 0;
    }
    return 1;
}

/* Return the bits of the used recipes of one runtime. */
static u64 recipes_used_of(const struct agent *a, u64 runtime)
{
    u64 used = load_acquire_u64(&a->recipes_used), found = 0;
    u32 i;
    for (i = 0; i < RECIPES_STORED_MAX; i++)
        if (used >> i & 1 && a->recipes[i][RECIPE_RUNTIME] == runtime)
            found |= 1ULL << i;
    return found;
}

/* Get memory for numbering code objects, and for reading the sleeping threads' frames. Returns 0 if there is none. */
static u32 managed_prepare(struct agent *a)
{
    if (!a->codes)
        a->codes = agent_pages(a, sizeof(struct code_slot) * CODE_TABLE_SLOTS);
    if (!a->parked_walk) {
        a->parked_walk = agent_pages(a, sizeof *a->parked_walk + CACHED_PAGES * PAGE_BYTES);
        if (a->parked_walk)
            a->parked_walk->copies = (u8 *)(a->parked_walk + 1);
    }
    return a->codes && a->parked_walk;
}

/* Read all thread states into the other list, and publish it. Returns 0 if a list of the target's is torn. */
static u32 states_publish(struct agent *a, u64 used)
{
    struct python_states *to = a->states == a->states_pages ? a->states_pages + 1 : a->states_pages;
    u32 count = 0, i;
    to->count = 0;
    for (i = 0; i < RECIPES_STORED_MAX; i++)
        if (used >> i & 1 && !(a->recipes[i][RECIPE_RUNTIME] == RUNTIME_RUBY ? ruby_threads_read(a, i, to, &count)
                                                                             : interpreters_read(a, i, to, &count)))
            return 0;
    states_sort(to, count);
    store_release_u32(&to->count, count);
    store_release_u64((volatile u64 *)&a->states, (u64)to);
    return 1;
}

/* Return whether reading all thread states now keeps within its part of the time. */
static u32 states_may_be_read(const struct agent *a, u64 now_ns)
{
    return now_ns - a->states_read_ns >= a->states_cost_ns * STATES_COST_FACTOR;
}

/* Read all thread states, if that is due or a thread was started. */
static void states_keep(struct agent *a, u64 now_ns)
{
    u64 used = recipes_used_of(a, RUNTIME_PYTHON) | recipes_used_of(a, RUNTIME_RUBY), cpu_ns;
    if ((!used && !a->states) || (now_ns - a->states_read_ns < STATES_INTERVAL_NS && a->states_list_number == a->list_number) ||
        !states_may_be_read(a, now_ns))
        return;
    if (!a->states_pages)
        a->states_pages = agent_pages(a, 2 * sizeof *a->states_pages);
    if (!a->states_pages || !managed_prepare(a))
        return;
    cpu_ns = (u64)clock_ns_sigsafe(THREAD_CPU_CLOCK_OWN);
    a->states_read_ns = now_ns;
    if (states_publish(a, used))
        a->states_list_number = a->list_number;
    /* Its own CPU time: on a busy machine a read that loses its CPU takes milliseconds, and none would follow for a second. */
    a->states_cost_ns = (u64)clock_ns_sigsafe(THREAD_CPU_CLOCK_OWN) - cpu_ns;
}

/* Read the thread states for a thread that ran, if they were read before it had one: Python gives a thread its state when
 * the thread begins to run. For a thread without Python less and less often. */
static void state_ensure(struct agent *a, struct thread_slot *slot, u64 now_ns)
{
    const struct python_states *all = a->states;
    u32 i;
    if (slot->has_state || !all)
        return;
    if (slot->stateless_looks & (slot->stateless_looks - 1)) {     /* not 0, 1, 2, 4, 8 … */
        slot->stateless_looks++;
        return;
    }
    if (!states_may_be_read(a, now_ns))
        return;
    slot->stateless_looks++;
    for (i = 0; i < all->count && !slot->has_state; i++)
        slot->has_state = all->states[i].tid == slot->tid;
    if (slot->has_state)
        return;
    a->states_list_number = a->list_number - 1;
    states_keep(a, now_ns);
}

/* Free the memory of the managed walks. No handler may run. */
static void managed_free(struct agent *a)
{
    u32 i;
    for (i = 0; i < MAX_THREADS && a->slots; i++)
        pages_free(a->slots[i].managed, sizeof *a->slots[i].managed);
    pages_free(a->states_pages, 2 * sizeof *a->states_pages);
    pages_free(a->codes, sizeof(struct code_slot) * CODE_TABLE_SLOTS);
    pages_free(a->parked_walk, sizeof *a->parked_walk + CACHED_PAGES * PAGE_BYTES);
}
