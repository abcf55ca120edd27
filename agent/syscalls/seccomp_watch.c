/*
 * A target that installs a seccomp filter while it is sampled (seccomp(2)). With SECCOMP_FILTER_FLAG_TSYNC the filter
 * applies to all its threads, including ours, and a call that it does not list may kill the process: sandboxes do not
 * expect reads of procfs or signals. From then on the agent makes only calls that every program needs, ends sampling,
 * and says why. It checks before each look at a thread; the calls themselves check, too (seccomp_guard.c). Sampler
 * thread only, except at the start.
 */

#define FILTERS_REREAD_NS 100000000ULL

/* Return the number of filters of this thread: Seccomp_filters of its status file (since Linux 5.9), 0 without it.
 * proc(5) */
static u64 filters_count(struct agent *a)
{
    static const char name[] = "\nSeccomp_filters:\t";
    const u32 name_bytes = sizeof name - 1;
    char *text = (char *)a->text;
    i64 got = task_file_read(a, (u32)sys_call3(NR_GETTID, 0, 0, 0), "status", text, TEXT_BYTES);
    i64 i;
    for (i = 0; i + name_bytes < got; i++) {
        if (text_is(text + i, name_bytes, name)) {
            const char *at = text + i + name_bytes;
            return parse_number(&at, text + got, 10);
        }
    }
    return 0;
}

/* Note the filters at the attach. A target with filters, as in a container, allowed the attach; whether they allow the
 * check is unknown, so the number of filters is read instead. The host has checked all threads before the attach: a
 * filter of this thread that it does not know was installed since. */
static void sandbox_prepare(struct agent *a, u32 filtered)
{
    a->was_filtered = filtered == FILTERED_MAIN;
    a->asks = !a->was_filtered;
    a->handlers_ask = filtered == FILTERED_NOBODY;
    a->filters = a->was_filtered ? filters_count(a) : 0;
}

/* Return whether a filter was installed since the attach. Once true, it stays true. */
static u32 is_sandboxed(struct agent *a)
{
    u64 now_ns;
    if (a->is_sandboxed)
        return 1;
    if (!a->was_filtered)
        return a->is_sandboxed = is_filtered_sigsafe();
    now_ns = now_ns_sigsafe();
    if (now_ns - a->filters_read_ns < FILTERS_REREAD_NS)
        return 0;
    a->filters_read_ns = now_ns;
    return a->is_sandboxed = filters_count(a) != a->filters;
}
