/*
 * From observations to intervals: what a thread did, on which stack, for how long. Sampler thread only.
 *
 * An observation made at a tick stands for the time since the one before it. Observations that agree are one interval,
 * which stays open until a different one comes; the host is told of an open interval whenever it changed, and of its
 * end. CPU time used in bursts by a thread that was then found parked, or waiting for a CPU, is carried to its next
 * on-CPU observation, so that per-thread sums equal the kernel's.
 */

#define RECENT_NS 1000000000ULL           /* a stack this old still stands for what the thread does, */
#define RECENT_PERIODS 10                 /* or one so many periods old */

static void thread_announce(struct agent *a, struct thread_slot *slot, u32 flags)
{
    struct thread_record *record = record_new(a, &a->threads_out, (u32)sizeof *record);
    if (!record) {
        count_up(a, COUNTER_RECORDS_LOST, 1);
        return;
    }
    record->thread_id = slot->thread_id;
    record->tid = slot->tid;
    record->flags = flags | (slot->signals_blocked ? THREAD_SIGNAL_BLOCKED : 0);
    record->reserved = 0;
    record->first_seen_ns = slot->first_seen_ns;
    bytes_copy(record->name, slot->name, 16);
    slot->announced = 1;
}

static void interval_send(struct agent *a, struct thread_slot *slot, u32 flags)
{
    struct interval_record *record;
    if (!slot->announced)
        thread_announce(a, slot, 0);
    record = record_new(a, &a->intervals_out, (u32)sizeof *record);
    if (!record) {
        count_up(a, COUNTER_INTERVALS_LOST, 1);
        return;
    }
    record->t0_ns = slot->open.t0_ns;
    record->wall_ns = slot->open.wall_ns;
    record->cpu_ns = slot->open.cpu_ns;
    record->thread_id = slot->thread_id;
    record->trace_id = slot->open.trace_id;
    record->state = slot->open.state;
    record->flags = (u8)flags;
    record->sysno = slot->open.sysno;
    record->samples = slot->open.samples;
}

static void interval_close(struct agent *a, struct thread_slot *slot)
{
    if (slot->open.state && (slot->open.wall_ns || slot->open.cpu_ns))
        interval_send(a, slot, 0);
    slot->open.state = 0;
    slot->open.dirty = 0;
}

/*
 * The thread was seen at `now_ns` in `state` on `trace_id`; `cpu_ns` is what it used on this stack, `samples` the
 * number of stacks that were taken (0: the last one still holds).
 */
static void interval_observe(struct agent *a, struct thread_slot *slot, u64 now_ns, u64 cpu_ns, u32 trace_id, u32 state,
                             i16 sysno, u32 samples)
{
    struct interval *open = &slot->open;
    u64 wall_ns = now_ns > slot->accounted_ns ? now_ns - slot->accounted_ns : 0;
    if (open->state && (open->trace_id != trace_id || open->state != state || open->sysno != sysno))
        interval_close(a, slot);
    if (!open->state) {
        open->t0_ns = slot->accounted_ns;
        open->wall_ns = 0;
        open->cpu_ns = 0;
        open->samples = 0;
        open->trace_id = trace_id;
        open->state = (u8)state;
        open->sysno = sysno;
    }
    open->wall_ns += wall_ns;
    open->cpu_ns += cpu_ns;
    open->samples += samples;
    if (cpu_ns || samples)
        open->dirty = 1;
    slot->accounted_ns += wall_ns;
}

/*
 * Before a flush: tell the host of open intervals that changed since it was told last. CPU time that waits for an on-CPU
 * observation is told with them: should this be the last the host hears of the target, it is not lost. The record that
 * follows says what it really was.
 */
static void intervals_send_open(struct agent *a)
{
    u32 i;
    for (i = 0; i < a->slot_count; i++) {
        struct thread_slot *slot = &a->slots[i];
        if (slot->tid && slot->open.state && slot->open.dirty && slot->owner != OWNER_INJECTED) {
            u64 carried_ns = slot->open.state == STATE_RUNNING ? slot->cpu_carry_ns : 0;
            slot->open.cpu_ns += carried_ns;
            interval_send(a, slot, INTERVAL_OPEN);
            slot->open.cpu_ns -= carried_ns;
            slot->open.dirty = 0;
        }
    }
}

/* The thread runs, and no stack of it is to be had. */
static void interval_observe_unattributed(struct agent *a, struct thread_slot *slot, u64 now_ns)
{
    count_up(a, COUNTER_UNATTRIBUTED_CPU_NS, slot->cpu_carry_ns);
    interval_observe(a, slot, now_ns, slot->cpu_carry_ns, 0, STATE_RUNNING, -1, 0);
    slot->cpu_carry_ns = 0;
}

/* CPU time without wall time, on a thread that has no open interval; on trace 0 it counts as unattributed. */
static void interval_send_cpu(struct agent *a, struct thread_slot *slot, u64 t0_ns, u64 cpu_ns, u32 trace_id)
{
    if (!trace_id)
        count_up(a, COUNTER_UNATTRIBUTED_CPU_NS, cpu_ns);
    slot->open.t0_ns = t0_ns;
    slot->open.wall_ns = 0;
    slot->open.cpu_ns = cpu_ns;
    slot->open.trace_id = trace_id;
    slot->open.state = STATE_RUNNING;
    slot->open.sysno = -1;
    slot->open.samples = 0;
    interval_close(a, slot);
}

/*
 * The end of a thread, or of the recording. CPU time used since the last on-CPU observation goes to that one if it was
 * recent; otherwise it never met a stack, and is reported as such (trace 0).
 */
static void intervals_finish(struct agent *a, struct thread_slot *slot)
{
    u64 recent_ns = RECENT_PERIODS * a->period_ns > RECENT_NS ? RECENT_PERIODS * a->period_ns : RECENT_NS;
    u32 recent = slot->last_run_trace && slot->accounted_ns < slot->last_run_ns + recent_ns;
    interval_close(a, slot);
    if (!slot->cpu_carry_ns)
        return;
    interval_send_cpu(a, slot, slot->accounted_ns, slot->cpu_carry_ns, recent ? slot->last_run_trace : 0);
    slot->cpu_carry_ns = 0;
}
