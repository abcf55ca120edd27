/*
 * Threads that run in step with the scheduler's tick, which is when a timer's expiry is noticed (cpu_timers.c). A thread that
 * a timer of its own wakes every 10 ms, and that is asleep again after one, runs at the same few moments of each tick:
 * then the tick meets it always at the same place, or never. Sampler thread only.
 *
 * The sampler's rounds are in step with nothing (jitter.c). They count at what moment of the tick a thread was found
 * running, in PHASES parts, and at what moment of CYCLE_NS, in CYCLE_PARTS: programs count in such times. If either differs
 * by more than chance, the thread is in step. One that no tick has met for a while is so, too.
 *
 * So is one that shares its CPU with others and has to wait for it. The scheduler takes a CPU away at a tick, or where a
 * system call ends after a thread's turn is over: then the next thread begins in the middle of a tick, and where it goes on
 * is a place behind a system call of its own. What it does up to the next tick is sampled, and what comes after is not: a
 * loop of 900 and 350 us with a system call behind each was shown with 2 to 3 points too much of the first.
 *
 * Then a thread has a precise clock (perf_clocks.c). Where there are none, it gets a signal whenever a round finds it running, as
 * long as rounds begin on time; and its timer is set so far off that it is for CPU time that rounds do not meet. Where rounds
 * are late they are no better than ticks; but a thread that no tick has met for a while gets its signal in any case.
 */

#define LATE_NS 500000ULL                 /* idle machines, virtual ones above all, wake threads up to 0.3 ms late */
#define UNMET_PERIODS 3                   /* so much CPU time, and as many ticks, without a sample: ticks do not meet the thread */
#define LATE_ROUNDS_WEIGHT 64             /* rounds that the share of late ones is taken over */
#define LATE_ROUNDS_MAX_16 (65536 / 8)
#define FOUND_LEAST 24                    /* found running so often: enough to judge by */
#define FOUND_MOST 240                    /* then all counts are halved: what was long ago counts less */
/* By chance less than once in a million times: with 7 degrees of freedom, and with 24. */
#define PHASES_CHI_SQUARE 40
#define CYCLE_CHI_SQUARE 80
#define CYCLE_NS 100000000ULL

#define CHOICE_NS 100000000ULL            /* so often it is chosen who has a precise clock */
#define SHARED_PART 8
#define SLICES_MOST 500                   /* a second: a clock costs some 2 us for each */

/* A round has begun. */
static void round_note(struct agent *a, u64 now_ns)
{
    a->late_rounds_16 -= a->late_rounds_16 / LATE_ROUNDS_WEIGHT;
    if (now_ns > a->due_ns + LATE_NS)
        a->late_rounds_16 += 65536 / LATE_ROUNDS_WEIGHT;
}

/* A round that began at `now_ns` has found the thread running. */
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

/* Do `parts` counts, `found` in sum, differ by more than chance? That is, is the sum of (n - mean)^2 / mean too large? */
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

/* Has no tick met the thread for a while? */
static u32 is_unmet(const struct agent *a, const struct thread_slot *slot)
{
    return slot->cpu_seen_ns > slot->timer_set_cpu_ns + UNMET_PERIODS * (a->cpu_period_ns + a->tick_ns);
}

/* May threads have clocks? Where handlers of the target's keep our signal waiting, nobody knows whose EINTR one is. */
static u32 clocks_are_lent(const struct agent *a)
{
    return a->host_lends_clocks && !a->blocking_handlers;
}

/* Has the thread waited for a CPU for more than a part of what it used, since this was asked last? */
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
 * A round has found that the thread has run: shall a clock decide when it is sampled? Only where ticks do not, since a
 * clock's signal may meet a system call; and not where the thread is given a CPU very often, for that is what a clock costs.
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

/* Is the thread, which runs, to be sampled by this round, too? */
static u32 round_samples(const struct agent *a, const struct thread_slot *slot)
{
    if (slot->has_clock)
        return 0;
    return is_unmet(a, slot) || (a->late_rounds_16 < LATE_ROUNDS_MAX_16 && is_in_step(slot));
}
