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
#define CLOCK_UNMET_PERIODS 6             /* the same for a precise clock, whose samples have random distances */
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
#define SHORT_PART 2                      /* a time slice is short if it lasts less than that part of a period */
#define SLICES_MOST 100                   /* per second, of all threads with clocks of their own */
#define PERIOD_LOOKS 64                   /* looks at which the thread ran until its clock gets a new period; rare,
                                           * since each begins with time without a sample */

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

/* Return whether the thread has used CPU time of so many periods without a sample. */
static u32 is_unmet(const struct agent *a, const struct thread_slot *slot, u32 periods)
{
    return slot->cpu_seen_ns > slot->timer_set_cpu_ns + periods * (a->cpu_period_ns + a->tick_ns);
}

/* Return whether threads may have clocks. If handlers of the target's block our signal, an EINTR could be theirs or
 * ours. */
static u32 clocks_are_lent(const struct agent *a)
{
    return a->host_lends_clocks && !a->blocking_handlers;
}

/* What a thread did since the last decision about its clock. */
struct thread_share {
    u64 ran_ns;
    u64 waited_ns;                        /* for a CPU */
    u64 slices;                           /* number of times it was given a CPU */
    u64 slices_a_second;
};

static struct thread_share share_take(struct thread_slot *slot, u64 now_ns)
{
    u64 delay_ns = slot->run_delay_seen_ns;
    struct thread_share share = {slot->cpu_seen_ns - slot->cpu_then_ns, 0, slot->slices - slot->slices_then, 0};
    if (delay_ns != RUN_DELAY_UNKNOWN && slot->delay_then_ns != RUN_DELAY_UNKNOWN && delay_ns > slot->delay_then_ns)
        share.waited_ns = delay_ns - slot->delay_then_ns;
    if (slot->choice_ns)
        share.slices_a_second = share.slices * 1000000000ULL / (now_ns - slot->choice_ns);
    slot->delay_then_ns = delay_ns;
    slot->cpu_then_ns = slot->cpu_seen_ns;
    slot->slices_then = slot->slices;
    slot->choice_ns = now_ns;
    return share;
}

/* Choose the kind of the thread's clock: its own if its time slices are long, and as long as all threads that have one get
 * few of them. */
static u32 clock_kind_of(const struct agent *a, const struct thread_slot *slot, const struct thread_share *share)
{
    u64 most = slot->has_clock == CLOCK_OWN ? 2 * SLICES_MOST : SLICES_MOST;
    return share->ran_ns < share->slices * (a->cpu_period_ns / SHORT_PART) ||
                   a->own_slices - slot->own_slices + share->slices_a_second > most
               ? CLOCK_OF_CPU
               : CLOCK_OWN;
}

/* Decide whether a thread that has run gets a precise clock, and which: only if ticks sample it badly, since a clock's
 * signal may meet a system call. A thread that has one keeps it. */
static void clock_keep(struct agent *a, struct thread_slot *slot, u64 now_ns)
{
    struct thread_share share;
    u32 is_first = !slot->choice_ns, is_wanted, kind;
    if (slot->has_clock && !clocks_are_lent(a))
        clock_close(a, slot);
    slot->clock_looks++;
    slot->was_unmet |= is_unmet(a, slot, UNMET_PERIODS);
    if (!is_first && now_ns - slot->choice_ns < CHOICE_NS)
        return;
    share = share_take(slot, now_ns);
    is_wanted = slot->clock_asked || share.waited_ns > share.ran_ns / SHARED_PART || slot->was_unmet || is_in_step(slot);
    slot->was_unmet = 0;
    if (is_first || !is_wanted || slot->clock_asked == CLOCK_REFUSED || !clocks_are_lent(a))
        return;
    kind = clock_kind_of(a, slot, &share);
    own_slices_set(a, slot, kind == CLOCK_OWN ? share.slices_a_second : 0);
    if (kind != slot->clock_asked || slot->clock_period_ns != a->cpu_period_ns ||
        (kind == CLOCK_OWN && slot->clock_looks >= PERIOD_LOOKS))
        clock_ask(a, slot, kind);
}

/* Return whether this round must sample the running thread, too. */
static u32 round_samples(const struct agent *a, const struct thread_slot *slot)
{
    if (slot->has_clock)
        return is_unmet(a, slot, CLOCK_UNMET_PERIODS);
    return is_unmet(a, slot, UNMET_PERIODS) || (a->late_rounds_16 < LATE_ROUNDS_MAX_16 && is_in_step(slot));
}
