/*
 * A target that puts itself under a seccomp filter while it is sampled (seccomp(2)). With SECCOMP_FILTER_FLAG_TSYNC the
 * filter holds for all its threads, ours too, and a call that it does not know may kill the process: procfs and signals
 * are no calls that a sandbox expects. So from then on the agent makes none but those that every program needs, ends
 * sampling, and says why. It is asked before each look at a thread; the calls themselves ask, too (seccomp_guard.c). Sampler
 * thread only, but for the beginning.
 */

#define FILTERS_REREAD_NS 100000000ULL

/* How many filters this thread has: Seccomp_filters of its status file (since Linux 5.9), 0 without it. proc(5) */
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

/* Whoever had filters before, as in a container, has let us in with them; whether they allow the question is not known,
 * so the number of filters is read instead. The host has looked at all threads before the attach: any filter of this
 * thread's that it knows nothing of has come since. */
static void sandbox_prepare(struct agent *a, u32 filtered)
{
    a->was_filtered = filtered == FILTERED_MAIN;
    a->asks = !a->was_filtered;
    a->handlers_ask = filtered == FILTERED_NOBODY;
    a->filters = a->was_filtered ? filters_count(a) : 0;
}

/* Has a filter come since? Then it stays so. */
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
