/*
 * A target that puts itself under a seccomp filter while it is sampled (seccomp(2)). With SECCOMP_FILTER_FLAG_TSYNC the
 * filter holds for all its threads, ours too, and a call that it does not know may kill the process: procfs and signals
 * are no calls that a sandbox expects. So from then on the agent makes none but those that every program needs, ends
 * sampling, and says why. Sampler thread only.
 *
 * It is asked before each look at a thread and each signal: 0.1 us, by the one call that programs which know filters
 * let pass. What remains: a filter that comes between the question and the next call, and a handler of ours at work in
 * that very moment.
 */

#define PR_GET_SECCOMP_OPTION 21
#define SECCOMP_MODE_FILTER_NUMBER 2
#define FILTERS_REREAD_NS 10000000ULL

/* How many filters hold for this thread; 0 before Linux 5.9, which does not say. proc(5), Seccomp_filters */
static u64 filters_count(struct agent *a)
{
    char *text = (char *)a->text;
    i64 got = task_file_read((u32)sys_call3(NR_GETTID, 0, 0, 0), "status", text, TEXT_BYTES);
    i64 i;
    for (i = 0; i + 17 < got; i++) {
        if (text[i] == '\n' && text_is(text + i + 1, 15, "Seccomp_filters")) {
            const char *at = text + i + 18;
            return parse_number(&at, text + got, 10);
        }
    }
    return 0;
}

static i64 seccomp_mode(void)
{
    return sys_call6(NR_PRCTL, PR_GET_SECCOMP_OPTION, 0, 0, 0, 0, 0);
}

/* Whoever was born under a filter, as in a container, has been let in by it. */
static void sandbox_prepare(struct agent *a)
{
    a->seccomp_mode = seccomp_mode();
    if (a->seccomp_mode == SECCOMP_MODE_FILTER_NUMBER)
        a->filters = filters_count(a);
}

/* Has another filter come since? Then it stays so. */
static u32 is_sandboxed(struct agent *a)
{
    u64 now_ns;
    if (a->is_sandboxed || seccomp_mode() != a->seccomp_mode)
        return a->is_sandboxed = 1;
    if (a->seccomp_mode != SECCOMP_MODE_FILTER_NUMBER)
        return 0;
    now_ns = now_ns_sigsafe();
    if (now_ns - a->filters_read_ns >= FILTERS_REREAD_NS) {
        a->filters_read_ns = now_ns;
        a->is_sandboxed = filters_count(a) != a->filters;
    }
    return a->is_sandboxed;
}
