/*
 * Threads that run in step with the scheduler's tick, at which a timer's expiry is noticed (cpu_timers.c). A thread
 * that a timer of its own wakes every 10 ms, and that sleeps again after one, runs at the same few moments of each
 * tick: the tick then meets it always at the same place, or never. Sampler thread only.
 *
 * The sampler's rounds are in step with nothing (jitter.c). They count at what moment of the tick a thread was found
 * running, in PHASES parts, and at what moment of CYCLE_NS, in CYCLE_PARTS, since programs use such periods. If either
 * distribution is uneven by more than chance, the thread is in step. A thread that no tick has met for a while is, too.
 *
 * The same treatment is for threads that share their CPU with others and have to wait for it. The scheduler takes a CPU
 * away at a tick, or at the end of a system call after the time slice is over. In the second case the next thread
 * begins in the middle of a tick, and continues right after a system call of its own. What it does up to the next tick
 * is sampled, and what comes after is not: a loop of 900 and 350 us with a system call after each was shown with 2 to 3
 * points too much of the first.
 *
 * Such a thread gets a precise clock (perf_clocks.c). Where there are none, it gets a signal whenever a round finds it
 * running, as long as rounds begin on time, and its timer is set far ahead, for CPU time that rounds do not meet. Late
 * rounds are no better than ticks; but a thread that no tick has met for a while gets its signal in any case.
 */

#define LATE_NS 500000ULL                 /* idle machines, mostly virtual ones, wake threads up to 0.3 ms late */
#define UNMET_PERIODS 3                   /* CPU time, and as many ticks, without a sample: ticks do not meet the
                                           * thread */
#define LATE_ROUNDS_WEIGHT 64             /* number of rounds in the moving average of late ones */
#define LATE_ROUNDS_MAX_16 (65536 / 8)
#define FOUND_LEAST 24                    /* number of times found running that suffices for a test */
#define FOUND_MOST 240                    /* at this number all counts are halved, so that old ones count less */
/* Exceeded by chance less than once in a million times: with 7 degrees of freedom, and with 24. */
#define PHASES_CHI_SQUARE 40
#define CYCLE_CHI_SQUARE 80
#define CYCLE_NS 100000000ULL

#define CHOICE_NS 100000000ULL            /* interval of the decision which threads have a precise clock */
#define SHARED_PART 8
#define SLICES_MOST 500                   /* per second: a clock costs some 2 us for each */

/* Note whether a round began late. */
static void round_note(struct agent *a, u64 now_ns)
{
    a->late_rounds_16 -= a->late_rounds_16 / LATE_ROUNDS_WEIGHT;
    if (now_ns > a->due_ns + LATE_NS)
        a->late_rounds_16 += 65536 / LATE_ROUNDS_WEIGHT;
}

/* Count the moment of a round, begun at `now_ns`, that found the thread running. */
static void phase_note(const struct agent *a, struct thread_slot *slot, u64 now_ns)
{
    u32 i;
    if (!a->tick_ns)
        return;
    slot->phases[now_ns % a->tick_ns * PHASES / a->tick_ns]++;
    slot->cycle[now_ns % CYCLE_NS * CYCLE_PARTS / CYCLE_NS]++;
    if (++slot->found_running < FOUND_MOST)
        return;
    slot->found_running /= 2;
    for (i = 0; i < PHASES; i++)
        slot->phases[i] /= 2;
    for (i = 0; i < CYCLE_PARTS; i++)
        slot->cycle[i] /= 2;
}

/* Return whether `parts` counts with the sum `found` differ by more than chance: whether the sum of (n - mean)^2 / mean
 * is too large. */
static u32 is_uneven(const u8 *counts, u32 parts, u32 found, u32 most)
{
    u32 squares = 0, i;
    for (i = 0; i < parts; i++)
        squares += (u32)counts[i] * counts[i];
    return squares * parts > found * (found + most);
}

static u32 is_in_step(const struct thread_slot *slot)
{
    u32 found = slot->found_running;
    return found >= FOUND_LEAST &&
           (is_uneven(slot->phases, PHASES, found, PHASES_CHI_SQUARE) ||
            is_uneven(slot->cycle, CYCLE_PARTS, found, CYCLE_CHI_SQUARE));
}

/* Return whether no tick has met the thread for a while. */
static u32 is_unmet(const struct agent *a, const struct thread_slot *slot)
{
    return slot->cpu_seen_ns > slot->timer_set_cpu_ns + UNMET_PERIODS * (a->cpu_period_ns + a->tick_ns);
}

/* Return whether threads may have clocks. If handlers of the target's block our signal, an EINTR could be theirs or
 * ours. */
static u32 clocks_are_lent(const struct agent *a)
{
    return a->host_lends_clocks && !a->blocking_handlers;
}

/* Return whether the thread has waited for a CPU for more than a fraction of the CPU time it used, since the last
 * call. */
static u32 shares_its_cpu(struct thread_slot *slot)
{
    u64 delay_ns = slot->run_delay_seen_ns, waited_ns = 0, ran_ns = slot->cpu_seen_ns - slot->cpu_then_ns;
    if (delay_ns != RUN_DELAY_UNKNOWN && slot->delay_then_ns != RUN_DELAY_UNKNOWN && delay_ns > slot->delay_then_ns)
        waited_ns = delay_ns - slot->delay_then_ns;
    slot->delay_then_ns = delay_ns;
    slot->cpu_then_ns = slot->cpu_seen_ns;
    return waited_ns > ran_ns / SHARED_PART;
}

/*
 * Decide whether a thread that has run gets a precise clock: only if ticks sample it badly, since a clock's signal may
 * meet a system call; and not if it is given a CPU very often, because a clock costs time at each.
 */
static void clock_keep(struct agent *a, struct thread_slot *slot, u64 now_ns)
{
    u64 passed_ns = now_ns - slot->choice_ns, slices_a_second;
    u32 is_wanted;
    if (slot->has_clock && !clocks_are_lent(a))
        clock_close(a, slot);
    slot->was_unmet |= is_unmet(a, slot);
    if (slot->choice_ns && passed_ns < CHOICE_NS)
        return;
    slices_a_second = slot->choice_ns ? (slot->slices - slot->slices_then) * 1000000000ULL / passed_ns : SLICES_MOST;
    is_wanted = shares_its_cpu(slot) || slot->was_unmet || is_in_step(slot);
    slot->was_unmet = 0;
    slot->slices_then = slot->slices;
    slot->choice_ns = now_ns;
    if (slices_a_second > 2 * SLICES_MOST)
        clock_close(a, slot);
    else if (is_wanted && slices_a_second < SLICES_MOST && clocks_are_lent(a))
        host_ask(a, slot, (u32)a->signo, &slot->is_clock_asked);
}

/* Return whether this round must sample the running thread, too. */
static u32 round_samples(const struct agent *a, const struct thread_slot *slot)
{
    if (slot->has_clock)
        return 0;
    return is_unmet(a, slot) || (a->late_rounds_16 < LATE_ROUNDS_MAX_16 && is_in_step(slot));
}
