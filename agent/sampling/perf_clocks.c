/*
 * A precise clock for threads that ticks sample badly: perf events (perf_event_open(2)), which are high-resolution
 * timers and independent of ticks. The host opens them, since that takes rights that the target may not have, and
 * attaches the BPF program that sends our signal to the thread (profiler/inject/perf_clock.py, held_clocks.py). It is
 * asked through the sockets of host_files.c. tick_phase.c chooses the threads, and one of two kinds:
 *
 *   CLOCK_OWN      an event on the thread's CPU time. It is set at each time slice of the thread, which costs 5 us, and
 *                  25 us in a virtual machine.
 *   CLOCK_OF_CPU   events on the CPUs where such threads run, which are set only as they expire. The CPU time between
 *                  two samples of a thread depends on what it does, if its slices are as long as that.
 *
 * Properties (kernel/events/core.c, kernel/trace/bpf_trace.c):
 *   Only the host holds the events. When the sampler or the host ends, for any reason, it closes them.
 *   The program sends the signal only to threads of this process whose entry in clock_table says so. No signal comes
 *   after the entry was cleared, except one that an interrupt has begun to raise. A child of fork is another process.
 *   Events have fixed periods, which the host draws again and again, so that no loop of the program stays in step: that
 *   of a CPU from time to time, and that of a thread when asked again.
 *   The thread's timer remains, far ahead, for CPU time that no event meets (cpu_timers.c).
 *   The signal is the kernel's own (SI_KERNEL) and does not count as one that the user has queued. A genuine one looks
 *   the same: no such clocks are used where the target has a handler for it.
 *   It may arrive in the middle of a system call and end a wait that is about to begin: the handler restarts the call.
 *
 * Sampler thread only, except for what ends in _sigsafe.
 */

#define CLOCK_RESERVED 1ULL               /* entry of a thread that wants no signal now */

static volatile u64 *clock_entry_sigsafe(struct agent *a, const struct thread_slot *slot)
{
    return &a->clock_table[slot->tid % CLOCK_TABLE];
}

/* Want signals of the clock, or none, for a thread that has one. Context: signal. */
static void clock_want_sigsafe(struct agent *a, struct thread_slot *slot, u32 is_wanted)
{
    u64 kind = load_acquire_u32(&slot->has_clock);
    if (kind)
        store_release_u64(clock_entry_sigsafe(a, slot),
                          is_wanted ? a->clock_cookie ^ kind << 32 ^ slot->tid : CLOCK_RESERVED);
}

/* Note how many time slices a second a thread with a clock of its own gets (tick_phase.c). */
static void own_slices_set(struct agent *a, struct thread_slot *slot, u64 slices_a_second)
{
    a->own_slices += slices_a_second - slot->own_slices;
    slot->own_slices = slices_a_second;
}

/* Give the clock up. A sample may still be on its way. */
static void clock_close(struct agent *a, struct thread_slot *slot)
{
    own_slices_set(a, slot, 0);
    slot->clock_asked = CLOCK_NONE;
    if (!slot->has_clock)
        return;
    store_release_u32(&slot->has_clock, CLOCK_NONE);
    store_release_u64(clock_entry_sigsafe(a, slot), 0);
}

/* Sample the thread by a clock of the host's from now on, unless another thread has its place in the table. */
static void clock_begin(struct agent *a, struct thread_slot *slot, u32 kind)
{
    if (slot->clock_asked != kind || !slot->has_timer || (!slot->has_clock && *clock_entry_sigsafe(a, slot)))
        return;
    count_up(a, COUNTER_CLOCKS_LENT, !slot->has_clock);
    a->had_clocks = 1;
    store_release_u32(&slot->had_clock, 1);
    store_release_u32(&slot->has_clock, kind);
    clock_want_sigsafe(a, slot, slot->timer_is_set);
}
