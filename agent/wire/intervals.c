/*
 * Turn observations into intervals: the state and stack of a thread, and its duration. Sampler thread only.
 *
 * All time of a thread is reported exactly once:
 *
 *   wall  =  CPU time               the thread's CPU clock; reported with each sample, for the time since the last one
 *          + waiting for a CPU      schedstat in proc(5), run delay; reported when enough has accumulated
 *          + asleep, by cause       the rest; reported for the stack on which the thread slept before, or sleeps next
 *
 * The three sums are read one after another, so the rest may be negative for a moment: it is carried over. A thread
 * that has not run since the last look is where it was, or was woken and waits for a CPU: which of the two is known
 * when it has run. Until then its interval stays open. The host gets it when it begins and when it ends. All other
 * intervals are reported when they are over.
 */

#define RECENT_NS 1000000000ULL           /* a stack of this age still stands for what the thread does, */
#define RECENT_PERIODS 10                 /* or one of that many periods, */
#define RECENT_SAMPLES 6                  /* or one after which at most that many more samples were due on average */
#define EARLY_SAMPLES 16                  /* of a new thread: see interval_ran */
#define QUEUED_TOLD_NS 1000000ULL         /* waiting for a CPU is reported when this much has accumulated */
#define LOCK_WINDOW_NS 4000000000ULL      /* time waiting for a CPU over which the share with the lock is averaged */
#define LOCK_TAKE_UP_NS 500000000LL       /* … and over which what is missing in it is made up for */
#define RUN_DELAY_UNKNOWN (~0ULL)
#define ASLEEP_UNSEEN_NS 500000000LL      /* the most unreported time asleep that waits for a look which finds the
                                           * thread asleep */

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
    record->cpu_before_us = slot->cpu_before_us;
    record->first_seen_ns = slot->first_seen_ns;
    bytes_copy(record->name, slot->name, 16);
    slot->announced = 1;
}

static void interval_send(struct agent *a, struct thread_slot *slot, const struct interval *interval, u32 flags)
{
    struct interval_record *record;
    if (!slot->announced)
        thread_announce(a, slot, 0);
    record = record_new(a, &a->intervals_out, (u32)sizeof *record);
    if (!record) {
        count_up(a, COUNTER_INTERVALS_LOST, 1);
        return;
    }
    if ((interval->marks & MARK_LOCK) == MARK_LOCK_HELD && !(flags & INTERVAL_OPEN))
        a->lock_ns -= (i64)interval->wall_ns;
    record->t0_ns = interval->t0_ns;
    record->wall_ns = interval->wall_ns;
    record->cpu_ns = interval->cpu_ns;
    record->thread_id = slot->thread_id;
    record->trace_id = interval->trace_id;
    record->state = interval->state;
    record->flags = (u8)flags;
    record->sysno = interval->sysno;
    record->samples = interval->samples;
    record->holder_id = interval->holder_id;
    record->awaited_lock = (u16)interval->awaited_lock;
    record->held_lock = (u16)(interval->marks >> HELD_LOCK_SHIFT);
}

/* Close the open interval: the thread has run. */
static void interval_close(struct agent *a, struct thread_slot *slot)
{
    if (slot->open.state && slot->blocked_ns > 0) {
        slot->open.wall_ns += (u64)slot->blocked_ns;
        slot->blocked_ns = 0;
    }
    if (slot->open.state && (slot->open.wall_ns || slot->open.samples || !slot->open.dirty))
        interval_send(a, slot, &slot->open, 0);
    slot->open.state = 0;
    slot->open.dirty = 0;
}

/* Send an interval that is over: `wall_ns` up to `end_ns` in `state`. `marks` are those of the stack. */
static void interval_send_past(struct agent *a, struct thread_slot *slot, u64 end_ns, u64 wall_ns, u32 state, u32 trace_id,
                               u32 marks, i16 sysno, u32 samples)
{
    struct interval past;
    past.t0_ns = end_ns - wall_ns;
    past.wall_ns = wall_ns;
    past.cpu_ns = state == STATE_RUNNING ? wall_ns : 0;
    past.trace_id = trace_id;
    past.samples = samples;
    past.state = (u8)state;
    past.sysno = sysno;
    past.marks = marks;
    past.holder_id = past.awaited_lock = 0;
    interval_close(a, slot);
    interval_send(a, slot, &past, 0);
}

/*
 * Report CPU time up to `cpu_ns` of the thread's clock for this stack, seen at `seen_ns`. All time since the sample before
 * is for this stack. In a thread's first samples half of it is for the stack before: a thread that lives for a few
 * samples does other things at its beginning than at its end, and the beginning would have too small a share.
 */
static void interval_ran(struct agent *a, struct thread_slot *slot, u64 seen_ns, u64 cpu_ns, u32 trace_id, u32 marks)
{
    u64 ran_ns;
    if (cpu_ns <= slot->cpu_told_ns)
        return;
    ran_ns = cpu_ns - slot->cpu_told_ns;
    if (slot->early_samples) {
        u64 before_ns = slot->early_samples < EARLY_SAMPLES && slot->last_run_trace != trace_id ? ran_ns / 2 : 0;
        slot->early_samples--;
        ran_ns -= before_ns;
        if (before_ns)
            interval_send_past(a, slot, seen_ns - ran_ns, before_ns, STATE_RUNNING, slot->last_run_trace,
                               slot->last_run_marks, -1, 0);
    }
    interval_send_past(a, slot, seen_ns, ran_ns, STATE_RUNNING, trace_id, marks, -1, 1);
    slot->cpu_told_ns = cpu_ns;
    slot->last_run_trace = trace_id;
    slot->last_run_marks = marks;
    slot->last_run_ns = seen_ns;
}

/* Report all CPU time up to the last look as unattributed: it has no stack. `why` is the counter of the reason. */
static void interval_unattributed(struct agent *a, struct thread_slot *slot, u64 now_ns, u32 why)
{
    u64 cpu_ns = slot->cpu_seen_ns - slot->cpu_told_ns;
    if (slot->cpu_seen_ns <= slot->cpu_told_ns)
        return;
    slot->early_samples = 0;
    count_up(a, COUNTER_UNATTRIBUTED_CPU_NS, cpu_ns);
    count_up(a, why, cpu_ns);
    interval_send_past(a, slot, now_ns, cpu_ns, STATE_RUNNING, 0, 0, -1, 0);
    slot->cpu_told_ns = slot->cpu_seen_ns;
}

/* Return in how much of `queued_ns` the thread did not hold the lock that its last stack held: lock_holder.c. */
static u64 queued_without_lock(struct agent *a, struct thread_slot *slot, u64 queued_ns)
{
    i64 share_10;
    u64 with_ns;
    if ((slot->last_run_marks & MARK_LOCK) != MARK_LOCK_HELD || !a->lock_count)
        return 0;
    /* As much as of late, and more or less as too little or too much was told so far. */
    share_10 = a->lock_ns / (LOCK_TAKE_UP_NS >> 10);
    if (a->lock_queued_ns)
        share_10 += (i64)((a->lock_told_ns << 10) / a->lock_queued_ns);
    if (share_10 < 0)
        share_10 = 0;
    with_ns = share_10 < 1 << 10 ? queued_ns * (u64)share_10 >> 10 : queued_ns;
    if (with_ns > slot->lock_ns)
        with_ns = slot->lock_ns;
    slot->lock_ns -= with_ns;
    a->lock_ns -= (i64)with_ns;
    a->lock_told_ns += with_ns;
    a->lock_queued_ns += queued_ns;
    while (a->lock_queued_ns > LOCK_WINDOW_NS) {
        a->lock_queued_ns /= 2;
        a->lock_told_ns /= 2;
    }
    return queued_ns - with_ns;
}

/* Report the time waiting for a CPU, for the stack on which the thread was last seen running. */
static void interval_queued(struct agent *a, struct thread_slot *slot, u64 now_ns, u64 at_least_ns)
{
    u64 without_ns;
    if (slot->queued_ns <= at_least_ns)
        return;
    without_ns = queued_without_lock(a, slot, slot->queued_ns);
    if (without_ns)
        interval_send_past(a, slot, now_ns - (slot->queued_ns - without_ns), without_ns, STATE_QUEUED, slot->last_run_trace,
                           0, SYSNO_LOCK, 0);
    if (without_ns < slot->queued_ns)
        interval_send_past(a, slot, now_ns, slot->queued_ns - without_ns, STATE_QUEUED, slot->last_run_trace,
                           slot->last_run_marks & ~MARKS_OF_STACK, -1, 0);
    slot->queued_ns = 0;
}

/* Begin to account for a thread at `now_ns`, with the current values of its CPU clock and run delay. */
static void time_begin(struct thread_slot *slot, u64 now_ns, u64 cpu_ns, u64 run_delay_ns)
{
    if (!slot->announced)
        slot->first_seen_ns = now_ns;
    slot->cpu_seen_ns = slot->cpu_told_ns = cpu_ns;
    slot->run_delay_seen_ns = run_delay_ns;
    slot->may_have_waited = 1;
    slot->early_samples = 0;
    slot->accounted_ns = now_ns;
    slot->blocked_ns = 0;
    slot->queued_ns = 0;
}

/* Note CPU time of a thread since the last look. */
static void cpu_time_see(struct agent *a, struct thread_slot *slot, u64 ran_ns)
{
    a->target_cpu_ns += ran_ns;
    slot->cpu_seen_ns += ran_ns;
}

/* Account for the time since the last look: the thread ran for `ran_ns` of it and waited for a CPU for `queued_ns`, a
 * part of which may have been before the first look. Returns how much of that was placed. */
static u64 time_pass(struct thread_slot *slot, u64 now_ns, u64 ran_ns, u64 queued_ns)
{
    slot->blocked_ns += (i64)(now_ns - slot->accounted_ns) - (i64)ran_ns;
    slot->accounted_ns = now_ns;
    if (ran_ns)
        slot->ran_ns = now_ns;
    if ((i64)queued_ns > slot->blocked_ns)
        queued_ns = slot->blocked_ns > 0 ? (u64)slot->blocked_ns : 0;
    slot->blocked_ns -= (i64)queued_ns;
    slot->queued_ns += queued_ns;
    return queued_ns;
}

/* Note that the thread is asleep at `now_ns` on this stack. `samples` is the number of stacks taken (0: the last one is
 * still valid). */
static void interval_asleep(struct agent *a, struct thread_slot *slot, u64 now_ns, u32 trace_id, u32 marks, u32 state,
                            i16 sysno, u32 samples)
{
    struct interval *open = &slot->open;
    if (open->state &&
        (open->trace_id != trace_id || open->state != state || open->sysno != sysno || open->marks != marks))
        interval_close(a, slot);
    if (!open->state) {
        open->t0_ns = slot->blocked_ns > 0 ? now_ns - (u64)slot->blocked_ns : now_ns;
        open->wall_ns = 0;
        open->cpu_ns = 0;
        open->samples = 0;
        open->trace_id = trace_id;
        open->state = (u8)state;
        open->sysno = sysno;
        open->marks = marks;
        open->holder_id = open->awaited_lock = 0;
        open->dirty = 1;
    }
    open->samples += samples;
    open->dirty |= samples != 0;
    slot->last_wait_trace = trace_id;
    slot->last_wait_state = (u8)state;
    slot->last_wait_sysno = sysno;
}

/* Begin again at `now_ns` what was closed: the thread is still where it was. */
static void interval_go_on(struct agent *a, struct thread_slot *slot, u64 now_ns, const struct interval *was)
{
    interval_asleep(a, slot, now_ns, was->trace_id, was->marks, was->state, was->sysno, 0);
    slot->open.holder_id = was->holder_id;
    slot->open.awaited_lock = was->awaited_lock;
}

/* Note which lock a sleeping thread waits for, and which thread holds it; both 0 if that is not known. Each holder has an
 * interval of its own. `is_new`: this is the first look at the wait, so it counts from its begin; else from now on. */
static void interval_held_by(struct agent *a, struct thread_slot *slot, u64 now_ns, u32 lock, u32 holder_id, u32 is_new)
{
    struct interval before = slot->open;
    if (!before.state || (before.holder_id == holder_id && before.awaited_lock == lock))
        return;
    if (!is_new || before.holder_id) {
        interval_close(a, slot);
        interval_go_on(a, slot, now_ns, &before);
    }
    slot->open.holder_id = holder_id;
    slot->open.awaited_lock = lock;
    slot->open.dirty = 1;
}

/* Report time asleep that no look has observed, for the stack on which the thread slept last, if it exceeds
 * `at_least_ns`. */
static void interval_asleep_unseen(struct agent *a, struct thread_slot *slot, u64 now_ns, i64 at_least_ns)
{
    if (slot->open.state || slot->blocked_ns <= at_least_ns)
        return;
    interval_send_past(a, slot, now_ns, (u64)slot->blocked_ns, slot->last_wait_state ? slot->last_wait_state : STATE_BLOCKED,
                       slot->last_wait_trace, 0, slot->last_wait_state ? slot->last_wait_sysno : -1, 0);
    slot->blocked_ns = 0;
}

/* Before a flush, send open intervals that have begun since the last flush. */
static void intervals_send_open(struct agent *a)
{
    u32 i;
    for (i = 0; i < a->slot_count; i++) {
        struct thread_slot *slot = &a->slots[i];
        if (slot->tid && slot->open.state && slot->open.dirty && slot->owner != OWNER_INJECTED) {
            struct interval so_far = slot->open;
            so_far.wall_ns += slot->blocked_ns > 0 ? (u64)slot->blocked_ns : 0;
            interval_send(a, slot, &so_far, INTERVAL_OPEN);
            slot->open.dirty = 0;
        }
    }
}

/* Return whether the stack on which the thread was last seen running still stands for what it does: if that was not
 * long ago, or if the thread has used no more CPU time since than between two samples. */
static u32 last_run_holds(const struct agent *a, const struct thread_slot *slot)
{
    u64 recent_ns = RECENT_PERIODS * a->period_ns > RECENT_NS ? RECENT_PERIODS * a->period_ns : RECENT_NS;
    return slot->last_run_trace && (slot->accounted_ns < slot->last_run_ns + recent_ns ||
                                    slot->cpu_seen_ns < slot->cpu_told_ns + RECENT_SAMPLES * (a->cpu_period_ns + a->tick_ns));
}

/* Finish the intervals of a thread, at its end or that of the recording. CPU time without a sample is reported as
 * such, where the thread ran last: it may have slept for long since. */
static void intervals_finish(struct agent *a, struct thread_slot *slot)
{
    u64 ran_ns = slot->ran_ns ? slot->ran_ns : slot->accounted_ns;
    interval_close(a, slot);
    if (last_run_holds(a, slot) && slot->cpu_seen_ns > slot->cpu_told_ns) {
        interval_send_past(a, slot, ran_ns, slot->cpu_seen_ns - slot->cpu_told_ns, STATE_RUNNING,
                           slot->last_run_trace, slot->last_run_marks, -1, 0);
        slot->cpu_told_ns = slot->cpu_seen_ns;
    }
    interval_unattributed(a, slot, ran_ns, COUNTER_UNATTRIBUTED_ENDED_NS);
    interval_queued(a, slot, slot->accounted_ns, 0);
    interval_asleep_unseen(a, slot, slot->accounted_ns, 0);
}
