/*
 * Threads that have not run for a while are looked at in turns, so that a thousand of them do not lower the rate of
 * threads that run. Sampler thread only.
 *
 * A look takes two system calls, about 2 us in cold memory. Leaving one out must be much cheaper, so idle threads are
 * marked in an array of bytes. All idle threads together get a quarter of the budget, or LOOKS_PER_S without a budget.
 * If that is enough, they are looked at in each round like all others. Otherwise, a thread that begins to run is
 * noticed up to (idle threads / looks per second) later, and from then on is looked at in each round. Its CPU time is
 * still exact, from the kernel. The time before it is noticed counts for what it does then, as for any thread between
 * two looks.
 */

#define IDLE_NS 1000000000ULL
#define LOOK_NS 2000ULL
#define LOOKS_PER_S 50000ULL

static void idle_set(struct agent *a, const struct thread_slot *slot, u32 is_idle)
{
    u8 *now = &a->idle[slot - a->slots];
    a->idle_count += is_idle - *now;
    *now = (u8)is_idle;
}

/* Update the mark after a look. */
static void idle_note(struct agent *a, const struct thread_slot *slot, u64 now_ns)
{
    idle_set(a, slot,
             slot->tid && slot->open.state && !signal_is_under_way(slot) && now_ns - slot->ran_ns >= IDLE_NS);
}

static u64 looks_per_s(const struct agent *a)
{
    u64 affordable = budget_ns(a) / 4 / LOOK_NS;
    return affordable && affordable < LOOKS_PER_S ? affordable : LOOKS_PER_S;
}

/* Before a round, set how many idle threads share one look. */
static void idle_turns_begin(struct agent *a)
{
    u64 looks = looks_per_s(a) * a->period_ns / 1000000000ULL;
    if (!looks)
        looks = 1;
    a->idle_stride = (u32)((a->idle_count + looks - 1) / looks);
    a->idle_round++;
}

/* Return whether the thread in slot `place` is left out of this round. */
static u32 idle_turn_is_over(const struct agent *a, u32 place)
{
    return a->idle[place] && a->idle_stride > 1 && (place + a->idle_round) % a->idle_stride != 0;
}
