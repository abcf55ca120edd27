/*
 * A precise clock for a thread: a perf event on its CPU time (perf_event_open(2), PERF_COUNT_SW_TASK_CLOCK), which is a
 * high-resolution timer and independent of ticks. The host opens it, since that takes rights that the target may not
 * have, attaches the BPF program that sends our signal (profiler/inject/perf_clock.py), and passes the descriptor
 * through the sockets of host_files.c. tick_phase.c chooses the threads that get one. Sampler thread only.
 *
 * Properties (kernel/events/core.c, kernel/trace/bpf_trace.c):
 *   Only the sampler thread holds the event, in its own descriptor table. When it closes the event or ends, for any
 *   reason, no further signal is raised, except one that an interrupt has begun to raise. fork and exec do not pass
 *   it on.
 *   The program sends the signal only while timer_is_set is 1. Sampler and handler stop the signals by clearing it.
 *   The event has a fixed period, a fraction of the mean; the program draws which expiries send the signal. So samples
 *   come at random times, but in multiples of a period, which is therefore drawn again from time to time.
 *   The signal is the kernel's own (SI_KERNEL) and does not count as one that the user has queued. A genuine one looks
 *   the same: no such clocks are used where the target has a handler for it.
 *   It may arrive in the middle of a system call and end a wait that is about to begin: the handler restarts the call.
 */

#define EVENT_ENABLE 0x2400               /* PERF_EVENT_IOC_… */
#define EVENT_PERIOD 0x40082404
#define EVENTS_A_SAMPLE_10 35             /* times 10: perf_clock.py */
#define PERIOD_LOOKS 64                   /* looks at which the thread ran; rare, since each new period begins with
                                           * time without a sample */
#define CLOCKS_MAX 256

/* Draw the period, within a tenth of the right one. */
static void clock_period_draw(struct agent *a, struct thread_slot *slot)
{
    u64 mean_ns = a->cpu_period_ns * 10 / EVENTS_A_SAMPLE_10, period_ns;
    a->random = random_next(a->random);
    period_ns = mean_ns - mean_ns / 10 + (mean_ns / 5 >> 10) * (a->random >> 54);
    slot->clock_looks = 0;
    permitted_call(a, NR_IOCTL, (u64)slot->clock_fd, EVENT_PERIOD, (u64)&period_ns, 0, 0);
}

/* Keep the clock going when a round has found that the thread ran and may be sampled. */
static void clock_tend(struct agent *a, struct thread_slot *slot)
{
    if (!slot->has_clock)
        return;
    if (++slot->clock_looks >= PERIOD_LOOKS)
        clock_period_draw(a, slot);
    if (slot->timer_is_set)
        return;
    slot->timer_set_cpu_ns = slot->cpu_seen_ns;
    slot->timer_may_be_set = 1;
    store_release_u32(&slot->timer_is_set, 1);
}

/* Close the clock. A sample may still be on its way. */
static void clock_close(struct agent *a, struct thread_slot *slot)
{
    if (!slot->has_clock)
        return;
    store_release_u32(&slot->timer_is_set, 0);
    store_release_u32(&slot->has_clock, 0);
    close_fd(slot->clock_fd);
    slot->is_clock_asked = 0;
    a->clock_count--;
}

/* Use a clock from the host. Returns 0 if there are enough. */
static u32 clock_begin(struct agent *a, struct thread_slot *slot, i32 fd)
{
    if (a->clock_count >= CLOCKS_MAX || slot->has_clock || !slot->has_timer)
        return 0;
    slot->clock_fd = fd;
    clock_period_draw(a, slot);
    store_release_u32(&slot->has_clock, 1);
    a->clock_count++;
    count_up(a, COUNTER_CLOCKS_LENT, 1);
    permitted_call(a, NR_IOCTL, (u64)fd, EVENT_ENABLE, 0, 0, 0);
    return 1;
}
