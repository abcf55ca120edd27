/*
 * Suspensions: times in which the whole target, and the agent with it, was stopped (SIGSTOP, the cgroup freezer, a
 * debugger, a suspended machine). They are in no interval, and counted. Sampler thread only.
 *
 * The sampler detects one if far more time has passed than it meant to sleep, if it neither computed nor waited for a
 * CPU meanwhile (run delay in its schedstat file), and if no other thread ran or waited for a CPU.
 */

#define GAP_MIN_NS 100000000ULL           /* shorter ones cannot be told from the noise of a loaded machine */
#define RUN_DELAY_READ_NS 100000000ULL
/* Waits that a stop interrupted are restarted when it ends; until then their threads look as if they ran. */
#define GAP_GRACE_NS 50000000ULL

/* Return how long this thread has waited for a CPU in total; 0 if the kernel does not count it. proc(5),
 * sched-stats. */
static u64 run_delay_read(struct agent *a)
{
    char text[80];
    u64 slices, run_delay_ns = run_delay_parse(text, task_file_read(a, a->sampler_tid, "schedstat", text, sizeof text), &slices);
    return run_delay_ns == RUN_DELAY_UNKNOWN ? 0 : run_delay_ns;
}

/* Return the longest time that one thread of the target has run or waited for a CPU since its last look. Where many
 * share a CPU none runs for long, but a stopped thread does not wait for one. */
static u64 longest_run_ns(struct agent *a)
{
    u64 longest = 0;
    u32 i;
    for (i = 0; i < a->slot_count; i++) {
        struct thread_slot *slot = &a->slots[i];
        i64 cpu_ns = slot->tid && slot->owner != OWNER_INJECTED ? clock_ns_sigsafe(THREAD_CPU_CLOCK(slot->tid)) : -1;
        u64 run_ns, delay_ns;
        if (cpu_ns <= (i64)slot->cpu_seen_ns)
            continue;
        run_ns = (u64)cpu_ns - slot->cpu_seen_ns;
        delay_ns = run_delay_of(a, slot);
        if (delay_ns != RUN_DELAY_UNKNOWN && slot->run_delay_seen_ns != RUN_DELAY_UNKNOWN &&
            delay_ns > slot->run_delay_seen_ns)
            run_ns += delay_ns - slot->run_delay_seen_ns;
        longest = run_ns > longest ? run_ns : longest;
    }
    return longest;
}

/* Take the `gap_ns` before now out of all intervals. Open intervals end before and begin again after. */
static void gap_take_out(struct agent *a, u64 now_ns, u64 gap_ns)
{
    u32 i;
    locks_restart(a, now_ns);
    for (i = 0; i < a->slot_count; i++) {
        struct thread_slot *slot = &a->slots[i];
        struct interval was = slot->open;
        if (!slot->tid || slot->owner == OWNER_INJECTED)
            continue;
        interval_close(a, slot);
        slot->accounted_ns = slot->accounted_ns + gap_ns < now_ns ? slot->accounted_ns + gap_ns : now_ns;
        /* A sleeping thread is still where it was: it need not be looked at again. */
        if (was.state)
            interval_go_on(a, slot, slot->accounted_ns, &was);
    }
    a->signals_from_ns = now_ns + GAP_GRACE_NS;
    count_up(a, COUNTER_GAPS, 1);
    count_up(a, COUNTER_GAP_NS, gap_ns);
}

/* Begin anew: no time before counts as a suspension. */
static void gaps_restart(struct agent *a, u64 now_ns)
{
    a->awake_ns = now_ns;
    a->planned_sleep_ns = 0;
    a->own_cpu_ns = (u64)clock_ns_sigsafe(THREAD_CPU_CLOCK_OWN);
    a->run_delay_ns = run_delay_read(a);
    a->run_delay_read_ns = now_ns;
}

/*
 * Detect a suspension. Call this at the start of each round; `planned_sleep_ns` is how long the thread has meant to
 * sleep since the last call.
 */
static void gaps_keep(struct agent *a, u64 now_ns)
{
    u64 passed_ns = now_ns - a->awake_ns, expected_ns = a->planned_sleep_ns;
    u64 own_cpu_ns = (u64)clock_ns_sigsafe(THREAD_CPU_CLOCK_OWN);
    a->awake_ns = now_ns;
    a->planned_sleep_ns = 0;
    expected_ns += own_cpu_ns - a->own_cpu_ns;
    a->own_cpu_ns = own_cpu_ns;
    if (passed_ns > expected_ns + GAP_MIN_NS) {
        u64 run_delay_ns = run_delay_read(a);
        expected_ns += run_delay_ns - a->run_delay_ns;
        if (passed_ns > expected_ns + GAP_MIN_NS && longest_run_ns(a) < expected_ns + (passed_ns - expected_ns) / 2)
            gap_take_out(a, now_ns, passed_ns - expected_ns);
    }
    if (now_ns - a->run_delay_read_ns >= RUN_DELAY_READ_NS) {
        a->run_delay_ns = run_delay_read(a);
        a->run_delay_read_ns = now_ns;
    }
}
