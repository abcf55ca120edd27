/*
 * Threads that have not run for a while take turns in being looked at, so that a thousand of them cost what a few
 * hundred do. Sampler thread only.
 *
 * A look is one clock_gettime(2), 0.6 to 1.1 us of cold memory. All idle threads together get LOOKS_PER_S of them
 * whatever the rate: up to so many threads / Hz are looked at in each round, as all others are. Beyond that one that
 * begins to run is noticed up to (idle threads / LOOKS_PER_S) seconds later, and from then on looked at in each round.
 * Its CPU time is the kernel's in any case, and no moment of what it does is more likely to be left out than another.
 */

#define IDLE_NS 1000000000ULL
#define LOOKS_PER_S 50000ULL

static u32 is_idle(const struct thread_slot *slot, u64 now_ns)
{
    return slot->open.state && !signal_is_under_way(slot) && now_ns - slot->ran_ns >= IDLE_NS;
}

/* Before a round: of how many idle threads one is looked at. */
static void idle_turns_begin(struct agent *a)
{
    u64 looks = LOOKS_PER_S * a->period_ns / 1000000000ULL;
    if (!looks)
        looks = 1;
    a->idle_stride = (u32)((a->idle_count + looks - 1) / looks);
    a->idle_count = 0;
    a->idle_round++;
}

/* Is the thread in slot `place` left out of this round? */
static u32 idle_turn_is_over(struct agent *a, const struct thread_slot *slot, u32 place, u64 now_ns)
{
    if (!is_idle(slot, now_ns))
        return 0;
    a->idle_count++;
    return a->idle_stride > 1 && (place + a->idle_round) % a->idle_stride != 0;
}
