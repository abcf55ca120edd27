/*
 * The JavaThread of each thread: the virtual machine's own record of it, in which it keeps where the thread left Java. Read
 * again whenever threads have come or gone. Sampler thread only.
 *
 * runtime/threadSMR.hpp, ThreadsList; runtime/threads.hpp.
 */

#define JAVA_THREADS_COST_FACTOR 100      /* at most 1 % of the sampler thread's time */
#define JAVA_THREADS_READ 64              /* at a time */

/* Give a thread its JavaThread. */
static void java_thread_keep(struct agent *a, const u64 *recipe, u64 java_thread, u32 *hint)
{
    u64 system = 0;
    u32 tid = 0;
    struct thread_slot *slot;
    if (!java_thread || read_memory(a, java_thread + recipe[HOTSPOT_THREAD_SYSTEM], &system, 8) != 8 || !system ||
        read_memory(a, system + recipe[HOTSPOT_SYSTEM_TID], &tid, 4) != 4 || !tid)
        return;
    slot = thread_find(a, tid, hint);
    if (!slot)
        return;
    if (!slot->java_thread && slot->open.state == STATE_PARKED)
        slot->is_look_due = 1;            /* what it waits for may be known now */
    store_release_u64(&slot->java_thread, java_thread);
}

/* Read an array of threads. */
static void java_threads_read_array(struct agent *a, const u64 *recipe, u64 list)
{
    u64 first = 0, threads[JAVA_THREADS_READ];
    u32 count = 0, done, got, i, hint = 0;
    if (read_memory(a, list + recipe[HOTSPOT_THREADS_LENGTH], &count, 4) != 4 ||
        read_memory(a, list + recipe[HOTSPOT_THREADS_FIRST], &first, 8) != 8 || count > MAX_THREADS)
        return;
    for (done = 0; done < count; done += got) {
        got = count - done < JAVA_THREADS_READ ? count - done : JAVA_THREADS_READ;
        if (read_memory(a, first + 8ULL * done, threads, 8ULL * got) != (i64)(8ULL * got))
            return;
        for (i = 0; i < got; i++)
            java_thread_keep(a, recipe, threads[i], &hint);
    }
}

/* Read a linked list of threads. */
static void java_threads_read_links(struct agent *a, const u64 *recipe, u64 thread)
{
    u32 count, hint = 0;
    for (count = 0; thread && count < MAX_THREADS; count++) {
        java_thread_keep(a, recipe, thread, &hint);
        if (read_memory(a, thread + recipe[HOTSPOT_THREAD_NEXT], &thread, 8) != 8)
            return;
    }
}

/* Read all threads of the machine, if that is due. */
static void java_threads_keep(struct agent *a, const u64 *recipe, u64 now_ns)
{
    u64 list = 0;
    if ((a->java_threads_read_ns && a->java_threads_list == a->list_number) ||
        now_ns - a->java_threads_read_ns < a->java_threads_cost_ns * JAVA_THREADS_COST_FACTOR || recipe[HOTSPOT_THREADS] == ABSENT)
        return;
    a->java_threads_read_ns = now_ns;
    a->java_threads_list = a->list_number;
    if (read_memory(a, recipe[HOTSPOT_THREADS], &list, 8) != 8 || !list)
        return;
    if (recipe[HOTSPOT_THREADS_FIRST] == ABSENT)
        java_threads_read_links(a, recipe, list);
    else
        java_threads_read_array(a, recipe, list);
    a->java_threads_cost_ns = now_ns_sigsafe() - now_ns;
}
