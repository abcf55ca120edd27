/*
 * Which thread of Ruby belongs to which thread of the process: the virtual machine's lists of ractors and their threads,
 * copied as python_states.c does with Python's. Sampler thread only.
 */

#define RACTORS_MAX 256

/* Append one thread of Ruby. Returns 0 if this is none. */
static u32 ruby_thread_read(struct agent *a, u32 recipe_index, u64 thread, u64 machine, struct python_states *to, u32 *count)
{
    const u64 *recipe = a->recipes[recipe_index];
    struct python_state *state = &to->states[*count];
    u64 holder = thread;
    if (read_memory(a, thread + recipe[RECIPE_THREAD_INTERPRETER], &state->interpreter, 8) != 8 ||
        state->interpreter != machine)
        return 0;
    if (recipe[RUBY_THREAD_NATIVE] != ABSENT && read_memory(a, thread + recipe[RUBY_THREAD_NATIVE], &holder, 8) != 8)
        return 0;
    /* A thread without a native one is not running, and has not begun. */
    if (!holder || read_memory(a, holder + recipe[RECIPE_THREAD_POINTER], &state->thread_pointer, 8) != 8 ||
        !state->thread_pointer)
        return 1;
    state->tid = 0;
    if (a->tid_offset)
        read_memory(a, state->thread_pointer + a->tid_offset, &state->tid, 4);
    state->runtime_addr = thread;
    state->recipe = recipe_index;
    ++*count;
    return 1;
}

/* Append the threads of one ractor. Returns 0 if the list is torn. */
static u32 ruby_ractor_read(struct agent *a, u32 recipe_index, u64 ractor, u64 machine, struct python_states *to, u32 *count)
{
    const u64 *recipe = a->recipes[recipe_index];
    u64 head = ractor + recipe[RUBY_RACTOR_THREADS], node;
    u32 seen = 0;
    if (read_memory(a, head, &node, 8) != 8)
        return 0;
    while (node != head && *count < STATES_MAX && seen++ < STATES_MAX)
        if (!ruby_thread_read(a, recipe_index, node - recipe[RUBY_THREAD_NODE], machine, to, count) ||
            read_memory(a, node, &node, 8) != 8)
            return 0;
    return 1;
}

/* Append all threads of one Ruby. Returns 0 if a list is torn. */
static u32 ruby_threads_read(struct agent *a, u32 recipe_index, struct python_states *to, u32 *count)
{
    const u64 *recipe = a->recipes[recipe_index];
    u64 machine, head, node;
    u32 seen = 0;
    if (read_memory(a, recipe[RECIPE_RUNTIME_ADDR], &machine, 8) != 8)
        return 0;
    if (!machine)
        return 1;                             /* it has not started, or has ended */
    head = machine + recipe[RUBY_VM_RACTORS];
    if (read_memory(a, head, &node, 8) != 8)
        return 0;
    while (node != head && seen++ < RACTORS_MAX)
        if (!ruby_ractor_read(a, recipe_index, node - recipe[RUBY_RACTOR_NODE], machine, to, count) ||
            read_memory(a, node, &node, 8) != 8)
            return 0;
    return 1;
}
