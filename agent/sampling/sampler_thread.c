/*
 * The sampler thread: the schedule of rounds, work besides looking at threads, pause, and the end. Sampler thread only.
 */

#define SLEEP_SLICE_NS 100000000ULL       /* at low rates: the longest time until the thread notices a command */
#define CALIBRATION_MAX_NS 10000000000ULL /* this times 2^20 fits into 64 bits */
#define PAUSE_LOOK_NS 20000000ULL
#define TURN_NS 100000ULL                 /* the minimum in Linux */

/* Measure nanoseconds per TSC tick over the first second; later if there was no round before. */
static void tsc_calibrate(struct agent *a)
{
    struct moment now;
    u64 ticks, passed_ns;
    moment_read(&now);
    ticks = now.tsc - a->tsc_start;
    passed_ns = now.ns - a->tsc_start_ns;
    if (ticks > 1000000 && (passed_ns < 1000000000ULL || !a->ns_per_tsc_20) && passed_ns < CALIBRATION_MAX_NS)
        a->ns_per_tsc_20 = (passed_ns << 20) / ticks;
}

/* Return whether to end: at the host's command, after its silence, or because of a new filter. */
static u32 must_end(struct agent *a)
{
    control_look(a);
    credentials_follow(a, now_ns_sigsafe());
    if (a->command == COMMAND_STOP)
        a->stop_reason = STOP_ASKED;
    else if (host_is_silent(a, now_ns_sigsafe()))
        a->stop_reason = STOP_HOST_SILENT;
    else if (is_sandboxed(a))
        a->stop_reason = STOP_SANDBOXED;
    return a->stop_reason != STOP_NONE;
}

/* Sleep until `due_ns`; less if a command to stop or pause arrives. */
static void wait_for_round(struct agent *a, u64 due_ns)
{
    u64 now_ns = now_ns_sigsafe();
    if (due_ns > now_ns)
        a->planned_sleep_ns += due_ns - now_ns;
    while (now_ns < due_ns && a->command == COMMAND_RUN) {
        u64 until_ns = due_ns - now_ns < SLEEP_SLICE_NS ? due_ns : now_ns + SLEEP_SLICE_NS;
        u64 look_ns = newcomers_due_ns(a, now_ns, due_ns);
        control_sleep_until_ns(a, look_ns < until_ns ? look_ns : until_ns);
        control_look(a);
        now_ns = now_ns_sigsafe();
        if (look_ns <= now_ns && now_ns < due_ns) {
            newcomers_look(a, now_ns);
            now_ns = now_ns_sigsafe();
        }
        if (now_ns < due_ns && host_is_silent(a, now_ns))
            return;
    }
}

/* Look at each thread a last time, at the end or before a pause: collect late answers, and account for the time since
 * the last round. */
static void threads_settle(struct agent *a, u64 now_ns)
{
    u32 i;
    for (i = 0; i < a->slot_count; i++) {
        struct thread_slot *slot = &a->slots[i];
        i64 cpu_ns;
        u64 ran_ns;
        if (!slot->tid || slot->owner == OWNER_INJECTED)
            continue;
        cpu_ns = clock_ns_sigsafe(THREAD_CPU_CLOCK(slot->tid));
        ran_ns = cpu_ns > (i64)slot->cpu_seen_ns ? (u64)cpu_ns - slot->cpu_seen_ns : 0;
        cpu_time_see(a, slot, ran_ns);
        /* Each thread has its own end time: on a busy machine others run during this loop. */
        time_account(a, slot, now_ns_sigsafe(), ran_ns);
        /* CPU time of samples that arrived since is subtracted from the time it may have slept. */
        time_pass(slot, slot->accounted_ns, samples_collect_last(a, slot), 0);
        intervals_finish(a, slot);
    }
    unseen_report(a, now_ns);
}

/* Pause: nothing is read, no signal is sent, and this time is in no interval. */
static void sampler_pause(struct agent *a)
{
    u64 now_ns = now_ns_sigsafe();
    cpu_timers_stop(a);
    threads_settle(a, now_ns);
    ring_flush(a, now_ns_sigsafe());      /* no interval ends after its batch */
    while (a->command == COMMAND_PAUSE && !must_end(a))
        control_sleep_until_ns(a, now_ns_sigsafe() + PAUSE_LOOK_NS);
    now_ns = now_ns_sigsafe();
    a->list_read_ns = now_ns;             /* what threads that start meanwhile have used is not of the recording */
    times_begin(a);
    unseen_rebase(a);
    gaps_restart(a, now_ns);
    governor_restart(a, now_ns);
}

/* Have sleeping threads looked at again once there are other recipes: their stacks lack the functions of an interpreter that
 * was found while they slept. */
static void sleepers_look_again(struct agent *a)
{
    u64 used = load_acquire_u64(&a->recipes_used);
    u32 i;
    if (used == a->recipes_looked)
        return;
    a->recipes_looked = used;
    for (i = 0; i < a->slot_count; i++)
        if (a->slots[i].tid && a->slots[i].open.state == STATE_PARKED)
            a->slots[i].is_look_due = 1;
}

/* Return the time between two batches of a recording that has lasted for so long. */
static u64 flush_pause_ns(u64 lasted_ns)
{
    u64 pause_ns = lasted_ns / FLUSH_PART;
    return pause_ns < FLUSH_LEAST_NS ? FLUSH_LEAST_NS : smaller(pause_ns, FLUSH_MOST_NS);
}

static void flush_keep(struct agent *a, u64 now_ns)
{
    u64 since_ns = now_ns - a->last_flush_ns;
    if (since_ns < flush_pause_ns(now_ns - a->ring->start_ns) && a->intervals_out.used <= a->intervals_out.capacity / 2 &&
        a->traces_out.used <= a->traces_out.capacity / 2)
        return;
    intervals_send_open(a);
    if (batch_has_news(a) || since_ns >= QUIET_FLUSH_NS)
        ring_flush(a, now_ns);
}

static void sampler_round(struct agent *a, u64 now_ns)
{
    u64 once_cpu_ns = a->once_cpu_ns, own_cpu_ns = (u64)clock_ns_sigsafe(THREAD_CPU_CLOCK_OWN);
    tsc_calibrate(a);
    round_note(a, now_ns);
    gaps_keep(a, now_ns);
    maps_keep(a, now_ns);
    threads_keep(a, now_ns);
    states_keep(a, now_ns);
    heaps_keep(a, now_ns);
    v8_keep(a);
    registered_keep(a, now_ns);
    sleepers_look_again(a);
    locks_look(a, now_ns);
    a->signal_is_ours = signal_is_ours(a);
    if (!a->signal_is_ours) {
        cpu_timers_stop(a);
        a->signal_is_ours = signal_take_over(a);
    }
    dispositions_keep(a, now_ns, DISPOSITIONS_INTERVAL_NS);
    a->signals_open = 0;
    threads_tick(a, now_ns);
    unseen_keep(a, now_ns);
    compile_wanted(a);
    answers_collect_soon(a);
    /* The first round takes the stack of every thread; no later one does. */
    if (!a->ring->counters[COUNTER_TICKS]) {
        a->begin_cpu_ns = own_cpu_ns - once_cpu_ns;
        a->once_cpu_ns = once_cpu_ns + (u64)clock_ns_sigsafe(THREAD_CPU_CLOCK_OWN) - own_cpu_ns;
    }
    a->ring->counters[COUNTER_ONCE_CPU_NS] = a->begin_cpu_ns + a->once_cpu_ns;
    asked_rate_keep(a, now_ns);
    governor_keep(a, now_ns);
    count_up(a, COUNTER_TICKS, 1);
    store_release_u64((volatile u64 *)&a->ring->now_ns, now_ns);
    flush_keep(a, now_ns);
}

/* struct sched_attr, sched_setattr(2) */
struct scheduling {
    u32 bytes;
    u32 policy;                           /* 0: SCHED_OTHER */
    u64 flags;
    i32 nice;
    u32 priority;
    u64 runtime_ns;                       /* SCHED_OTHER: the time slice, since Linux 6.12 */
    u64 deadline_ns;
    u64 period_ns;
};

/*
 * Ask for a short time slice: such a thread gets a CPU as soon as it wakes up, even if another's slice has just begun.
 * Otherwise rounds would be late, and more often at some places of the program than at others. Measured on busy CPUs:
 * without it, a program's work in the 2 ms after a wait had a share that was 10 points too small. Older kernels ignore
 * it. A target that started under a filter may not allow this call.
 */
static void turns_shorten(const struct agent *a)
{
    struct scheduling own;
    if (a->was_filtered || permitted_call(a, NR_SCHED_GETATTR, 0, (u64)&own, sizeof own, 0, 0) != 0 ||
        own.policy != 0)
        return;
    own.bytes = sizeof own;
    own.runtime_ns = TURN_NS;
    permitted_call(a, NR_SCHED_SETATTR, 0, (u64)&own, 0, 0, 0);
}

static void sampler_begin(struct agent *a)
{
    u32 i;
    if (is_sandboxed(a)) {
        a->host_fd = -1;
        return;
    }
    thread_pointers_prepare(a);
    rooms_begin(a);
    turns_shorten(a);
    for (i = 0; i < a->slot_count; i++) {
        struct thread_slot *slot = &a->slots[i];
        if (!slot->tid)
            continue;
        slot->syscall_fd = task_file_keep(a, slot->tid, "syscall");
        if (slot->syscall_fd < 0)
            hostfile_ask(a, slot);
    }
}

/* End sampling, for any reason. On return, no handler of ours can run, and the last batch is in the ring. The recording
 * ends before the handlers do: on busy CPUs it may take long until each thread has had a CPU. */
static void sampler_end(struct agent *a)
{
    u64 now_ns;
    cpu_timers_delete(a);
    now_ns = now_ns_sigsafe();
    threads_settle(a, now_ns);
    modules_announce_again(a);
    ring_flush(a, now_ns_sigsafe());      /* no interval ends after its batch */
    a->unanswered = handlers_drain(a);
    a->ring->counters[COUNTER_SAMPLER_CPU_NS] = (u64)clock_ns_sigsafe(THREAD_CPU_CLOCK_OWN);
    ring_close(a, a->stop_reason);
}

/* Sample until the end. */
static void sampler_main(struct agent *a)
{
    u64 due_ns, now_ns;
    sampler_begin(a);
    due_ns = now_ns_sigsafe();
    gaps_restart(a, due_ns);
    governor_restart(a, due_ns);
    while (!must_end(a)) {
        if (a->command == COMMAND_PAUSE) {
            sampler_pause(a);
            due_ns = now_ns_sigsafe();
            continue;
        }
        a->due_ns = due_ns;
        sampler_round(a, now_ns_sigsafe());
        due_ns += next_gap_ns(a);
        now_ns = now_ns_sigsafe();
        /* A short gap may have passed before the round ends. */
        if (due_ns + a->period_ns < now_ns) {
            count_up(a, COUNTER_TICKS_LATE, 1);
            due_ns = now_ns + a->period_ns / 4;
        }
        wait_for_round(a, due_ns);
    }
    sampler_end(a);
    store_release_u32(&a->has_ended, 1);
}
