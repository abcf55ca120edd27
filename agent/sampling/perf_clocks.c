/*
 * A precise clock for a thread: an event of perf on its CPU time (perf_event_open(2), PERF_COUNT_SW_TASK_CLOCK), which is a
 * high-resolution timer and no matter of ticks. The host opens it, since that takes rights that the target need not have,
 * with the program that sends our signal (profiler/inject/perf_clock.py), and lends the descriptor over the sockets of
 * host_files.c. Which threads get one: tick_phase.c. Sampler thread only.
 *
 * What matters about it (kernel/events/core.c, kernel/trace/bpf_trace.c):
 *   The sampler thread alone holds the event, in its own table of descriptors. As it closes it, or ends, for whatever
 *   reason, no signal is raised any more, or only one that an interrupt has begun to raise. Neither fork nor exec hands it on.
 *   The program sends the signal only while timer_is_set is 1. Sampler and handler stop the signals by clearing it.
 *   The event has a fixed period, a part of the mean; which of its expiries sends the signal is drawn by the program. So
 *   samples come at random times without our doing, but in multiples of a period: that is drawn anew now and then.
 *   The signal is one of the kernel's own (SI_KERNEL), and is not counted among those that the user may have queued. A
 *   genuine one looks the same: there are no such clocks where the target has a handler for that.
 *   It may come in the middle of a system call, and end a wait that is about to begin: the handler begins it again.
 */

#define EVENT_ENABLE 0x2400               /* PERF_EVENT_IOC_… */
#define EVENT_PERIOD 0x40082404
#define EVENTS_A_SAMPLE_10 35             /* times 10: perfclock.py */
#define PERIOD_LOOKS 64                   /* in which the thread ran: each new period begins with time that has no sample */
#define CLOCKS_MAX 256

/* Draw the period, a tenth more or less than the right one. */
static void clock_period_draw(struct agent *a, struct thread_slot *slot)
{
    u64 mean_ns = a->cpu_period_ns * 10 / EVENTS_A_SAMPLE_10, period_ns;
    a->random = random_next(a->random);
    period_ns = mean_ns - mean_ns / 10 + (mean_ns / 5 >> 10) * (a->random >> 54);
    slot->clock_looks = 0;
    permitted_call(a, NR_IOCTL, (u64)slot->clock_fd, EVENT_PERIOD, (u64)&period_ns, 0, 0);
}

/* A round has found that the thread ran; it may be sampled. */
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

/* No more samples. One may be on its way. */
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

/* The host has lent a clock. 0 if there are enough. */
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
