/*
 * Threads that start between two rounds. Where threads live for some tens of milliseconds, much of their CPU time would
 * pass before the next round finds them, more so where the budget keeps rounds far apart. So while threads keep coming,
 * the sampler thread looks for them between rounds, too, and starts their timers; the next round does the rest.
 *
 * What this costs does not depend on the rate of rounds, so it does not lower it: it may cost as much as the budget
 * again. Sampler thread only.
 */

#define NEWCOMERS_LOOK_NS 4000000ULL
#define NEWCOMERS_MARGIN_NS 1000000ULL    /* no look if the next round is due within this time … */
#define NEWCOMERS_MARGIN_PER_THREAD_NS 1000ULL /* … and this for each slot */
#define NEWCOMERS_EARLY_NS 100000000ULL   /* what they may cost is not less than in this part of a window */

static u32 newcomers_fit(const struct agent *a, u64 now_ns)
{
    u64 allowed_ns = budget_ns(a), passed_ns = now_ns - a->window_start_ns;
    if (passed_ns < NEWCOMERS_EARLY_NS)
        passed_ns = NEWCOMERS_EARLY_NS;
    return !allowed_ns || newcomers_cost_ns(a) < allowed_ns * (passed_ns / 1000) / (WINDOW_NS / 1000);
}

/* Return when to look for new threads next; ~0 for not before the next round, which is due at `round_ns`. */
static u64 newcomers_due_ns(const struct agent *a, u64 now_ns, u64 round_ns)
{
    u64 due_ns = a->list_checked_ns + NEWCOMERS_LOOK_NS + a->slot_count * LIST_CHECK_PER_THREAD_NS;
    if (due_ns < now_ns)
        due_ns = now_ns;
    if (!a->engine_is_timers || !threads_keep_coming(a, now_ns) || !newcomers_fit(a, now_ns) ||
        due_ns + NEWCOMERS_MARGIN_NS + a->slot_count * NEWCOMERS_MARGIN_PER_THREAD_NS > round_ns)
        return ~0ULL;
    return due_ns;
}

/* Start the timer of a thread that runs, if it can have one. One that is asleep is for the next round, which sees where. */
static void newcomer_begin(struct agent *a, struct thread_slot *slot, u64 now_ns)
{
    struct wait_record wait;
    i64 is_waiting = wait_read(a, slot, &wait), cpu_ns = clock_ns_sigsafe(THREAD_CPU_CLOCK(slot->tid));
    if (is_waiting || cpu_ns < 0 || slot->is_of_kernel || is_sandboxed(a))
        return;
    state_ensure(a, slot, now_ns);
    sampling_keep(a, slot, now_ns, (u64)cpu_ns, 0);
}

static void newcomers_look(struct agent *a, u64 now_ns)
{
    u64 own_cpu_ns = (u64)clock_ns_sigsafe(THREAD_CPU_CLOCK_OWN);
    u32 i;
    list_check(a, now_ns);
    if (a->list_read_ns == now_ns) {
        heaps_keep(a, now_ns);
        a->signal_is_ours = signal_is_ours(a);
        for (i = 0; i < a->slot_count; i++)
            if (a->slots[i].tid && a->slots[i].first_seen_ns == now_ns)
                newcomer_begin(a, &a->slots[i], now_ns);
    }
    a->newcomers_cpu_ns += (u64)clock_ns_sigsafe(THREAD_CPU_CLOCK_OWN) - own_cpu_ns;
}
