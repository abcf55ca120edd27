/*
 * The tick: for each thread, has it run, is it asleep, or does it get a signal. Sampler thread only.
 *
 *   CPU clock unchanged            it is where it was: the open interval grows, nothing else is read
 *   changed, asleep in the kernel  its stack is read from outside (parked.c)
 *   changed, running               one signal; its handler answers into the slot, which is collected at the next tick
 */

#define COMPILE_ROUNDS_MAX 16             /* modules one parked stack may bring in, one after another */
#define LATE_TICKS_BEFORE_CHECK 5         /* unanswered so long although it ran: does it block our signal? */
#define BLOCKED_RECHECK_TICKS 256
#define FORK_BACKOFF_NS 100000000ULL
#define STOP_WAIT_NS 200000000ULL

/* A stack that met something new: make it known, so that the next attempt gets further. */
static void learn(struct agent *a)
{
    count_up(a, COUNTER_NOT_READY, 1);
    if (a->want_refresh && now_ns_sigsafe() - a->map_read_ns > MAP_REREAD_MIN_NS)
        maps_refresh(a);
    modules_compile_wanted(a);
}

static void handler_cost_add(struct agent *a, const struct thread_slot *slot)
{
    u64 ns = slot->handler_tsc * a->ns_per_tsc_20 >> 20;
    u64 bucket = ns / HANDLER_HISTOGRAM_NS;
    count_up(a, COUNTER_SIGNALS_HANDLED, 1);
    count_up(a, COUNTER_HANDLER_NS_TOTAL, ns);
    if (ns > a->ring->counters[COUNTER_HANDLER_NS_MAX])
        a->ring->counters[COUNTER_HANDLER_NS_MAX] = ns;
    a->ring->handler_histogram[bucket < HANDLER_HISTOGRAM_BUCKETS ? bucket : HANDLER_HISTOGRAM_BUCKETS - 1]++;
}

/* Take the answer of a handler: a stack for the time up to the moment the signal was sent. */
static void answer_collect(struct agent *a, struct thread_slot *slot)
{
    u32 trace_id, injected = 0;
    if (load_acquire_u32(&slot->signal_state) != SIGNAL_ANSWERED)
        return;
    slot->signal_state = SIGNAL_IDLE;
    slot->late_ticks = 0;
    handler_cost_add(a, slot);
    if (slot->eintr)
        count_up(a, slot->eintr == 1 ? COUNTER_EINTR_REPAIRED : COUNTER_EINTR_UNREPAIRABLE, 1);
    if (slot->near_fork) {
        count_up(a, COUNTER_FORK_BACKOFF, 1);
        slot->backoff_until_ns = slot->sent_ns + FORK_BACKOFF_NS;
        return;
    }
    /* Unknown code may have been mapped since the maps were read; anything not compiled yet is compiled now. */
    if (slot->verdict == VERDICT_RETRY ||
        (slot->verdict == VERDICT_BAD_MEMORY && a->want_refresh && a->map_read_ns < slot->sent_ns - MAP_REREAD_MIN_NS)) {
        learn(a);
        return;
    }
    trace_id = trace_intern(a, slot->frames, slot->frame_count, slot->verdict, slot->fault_pc, &injected);
    if (injected && slot->owner == OWNER_UNKNOWN)
        return;                           /* probably Frida's: wait until agent.js has said */
    if (slot->waited_in != NOT_WAITING) {
        /* It had gone to sleep when the signal came: its CPU time belongs to what it did before. */
        interval_observe(a, slot, slot->sent_ns, 0, trace_id, slot->waited_in < 0 ? STATE_BLOCKED : STATE_PARKED,
                         (i16)(slot->waited_in < 0 ? -1 : slot->waited_in), 1);
        count_up(a, COUNTER_WAITS_INTERRUPTED, 1);
        return;
    }
    if (slot->woken) {
        /* On its way out of a wait, until then without a CPU: nor has it used one here. */
        interval_observe(a, slot, slot->sent_ns, 0, trace_id, STATE_RUNNING, -1, 1);
        return;
    }
    interval_observe(a, slot, slot->sent_ns, slot->sent_cpu_ns, trace_id, STATE_RUNNING, -1, 1);
    slot->cpu_carry_ns -= slot->sent_cpu_ns;
    slot->last_run_trace = trace_id;
    slot->last_run_ns = slot->sent_ns;
}

static void signal_send(struct agent *a, struct thread_slot *slot, u64 now_ns, u64 cpu_ns)
{
    if (slot->signals_blocked) {
        count_up(a, COUNTER_SIGNAL_BLOCKED, 1);
        if (++slot->late_ticks % BLOCKED_RECHECK_TICKS == 0)
            slot->signals_blocked = thread_blocks_signal(a, slot->tid);
        return;
    }
    if (now_ns < slot->backoff_until_ns)
        return;
    if (!slot->frames)
        slot->frames = agent_pages(a, MAX_FRAMES * 8);
    if (!slot->frames)
        return;
    slot->sent_ns = now_ns;
    slot->sent_cpu_ns = slot->cpu_carry_ns;
    slot->sent_off_cpu = clock_ns_sigsafe(THREAD_CPU_CLOCK(slot->tid)) == (i64)cpu_ns;
    store_release_u32(&slot->signal_state, SIGNAL_SENT);
    if (send_signal(a->pid, slot->tid, a->signo, slot) < 0) {
        slot->signal_state = SIGNAL_IDLE; /* the thread is gone, or its signal queue is full */
        return;
    }
    count_up(a, COUNTER_SIGNALS_SENT, 1);
}

/* The last signal has not been answered. A thread that ran all the same may have blocked it since. */
static void signal_overdue(struct agent *a, struct thread_slot *slot, u32 ran)
{
    if (!ran)
        return;                           /* it waits for a CPU, and takes the signal when it gets one */
    count_up(a, COUNTER_SIGNALS_LATE, 1);
    if (++slot->late_ticks % LATE_TICKS_BEFORE_CHECK)
        return;
    /* While our handler runs, everything is blocked: that says nothing of the thread. */
    if (thread_blocks_signal(a, slot->tid) && slot->signal_state == SIGNAL_SENT) {
        slot->signals_blocked = 1;
        slot->signal_state = SIGNAL_IDLE; /* the slot stays valid: a late answer is dropped by the handler */
        thread_announce(a, slot, 0);
    }
}

/* The thread used CPU time since the last look, or was never looked at. */
static void thread_look(struct agent *a, struct thread_slot *slot, u64 now_ns, u64 cpu_ns)
{
    struct wait_record wait;
    struct unwinder u;
    u32 result, trace_id, injected = 0, rounds = 0;
    while ((result = parked_take(a, slot, cpu_ns, &wait, &u)) == PARKED_RETRY && rounds++ < COMPILE_ROUNDS_MAX)
        learn(a);
    if (result == PARKED_RUNNING)
        signal_send(a, slot, now_ns, cpu_ns);
    if (result != PARKED_SEEN)
        return;
    trace_id = trace_intern(a, u.frames, u.frame_count, u.verdict, u.fault_pc, &injected);
    if (injected && slot->owner == OWNER_UNKNOWN)
        return;
    interval_observe(a, slot, now_ns, 0, trace_id, wait.sysno < 0 ? STATE_BLOCKED : STATE_PARKED, (i16)wait.sysno, 1);
}

static void thread_tick(struct agent *a, struct thread_slot *slot, u64 now_ns)
{
    i64 cpu_ns;
    u32 ran;
    answer_collect(a, slot);
    cpu_ns = clock_ns_sigsafe(THREAD_CPU_CLOCK(slot->tid));
    if (cpu_ns < 0 || (u64)cpu_ns < slot->cpu_seen_ns) {
        thread_remove(a, slot);           /* gone, or its number belongs to another thread by now */
        a->list_checked_ns = 0;           /* where one goes another may have come */
        a->list_links = 0;
        return;
    }
    ran = (u64)cpu_ns != slot->cpu_seen_ns;
    slot->cpu_carry_ns += (u64)cpu_ns - slot->cpu_seen_ns;
    a->target_cpu_ns += (u64)cpu_ns - slot->cpu_seen_ns;
    slot->cpu_seen_ns = (u64)cpu_ns;
    slot->ran_since_name |= ran;
    if (signal_is_under_way(slot)) {
        signal_overdue(a, slot, ran);
    } else if (ran || !slot->open.state) {
        thread_look(a, slot, now_ns, (u64)cpu_ns);
    } else {
        interval_observe(a, slot, now_ns, 0, slot->open.trace_id, slot->open.state, slot->open.sysno, 0);
        count_up(a, COUNTER_UNCHANGED, 1);
    }
}

static void threads_tick(struct agent *a, u64 now_ns)
{
    u32 i;
    for (i = 0; i < a->slot_count; i++) {
        struct thread_slot *slot = &a->slots[i];
        if (!slot->tid)
            continue;
        if (load_acquire_u32(&slot->owner) == OWNER_INJECTED) {
            if (slot->announced) {        /* told of it before we knew: take it back */
                thread_announce(a, slot, THREAD_HIDDEN);
                slot->announced = 0;
            }
            continue;
        }
        thread_tick(a, slot, now_ns);
    }
}

/* Period with ±25 % jitter, so that no timer of the program can run in step with us. xorshift64. */
static u64 next_period_ns(struct agent *a)
{
    a->random ^= a->random << 13;
    a->random ^= a->random >> 7;
    a->random ^= a->random << 17;
    return a->period_ns / 4 * 3 + a->random % (a->period_ns / 2 + 1);
}

/* Nanoseconds per TSC tick, measured over the time since the start. */
static void tsc_calibrate(struct agent *a, u64 now_ns)
{
    u64 ticks = read_tsc_sigsafe() - a->tsc_start;
    if (ticks > 1000000 && now_ns - a->tsc_start_ns < 1000000000ULL)
        a->ns_per_tsc_20 = ((now_ns - a->tsc_start_ns) << 20) / ticks;
}

/* While paused nothing is read and nothing is signalled; what happens then is in no interval. */
static void sampler_pause(struct agent *a)
{
    u64 now_ns;
    u32 i;
    for (i = 0; i < a->slot_count; i++)
        if (a->slots[i].tid)
            interval_close(a, &a->slots[i]);
    ring_flush(a, now_ns_sigsafe());
    while (a->command == COMMAND_PAUSE)
        sleep_until_ns(now_ns_sigsafe() + 20000000ULL);
    now_ns = now_ns_sigsafe();
    for (i = 0; i < a->slot_count; i++) {
        struct thread_slot *slot = &a->slots[i];
        i64 cpu_ns = slot->tid ? clock_ns_sigsafe(THREAD_CPU_CLOCK(slot->tid)) : -1;
        if (cpu_ns < 0)
            continue;
        slot->cpu_seen_ns = (u64)cpu_ns;
        slot->cpu_carry_ns = 0;
        slot->sent_cpu_ns = 0;
        slot->accounted_ns = now_ns;
    }
    unseen_rebase(a);
}

/* Wait until no handler can still be running: every signal answered, and every mask back to normal, since a handler
 * runs with all signals blocked until it has returned. Returns how many threads did not answer. */
static u32 handlers_drain(struct agent *a)
{
    u64 deadline = now_ns_sigsafe() + STOP_WAIT_NS;
    u32 i, waiting;
    do {
        waiting = 0;
        for (i = 0; i < a->slot_count; i++) {
            struct thread_slot *slot = &a->slots[i];
            if (!slot->tid || slot->owner == OWNER_INJECTED)
                continue;
            if (signal_is_under_way(slot) && !slot->signals_blocked)
                waiting += clock_ns_sigsafe(THREAD_CPU_CLOCK(slot->tid)) >= 0;
            else if (slot->frames && !slot->signals_blocked)
                waiting += thread_blocks_signal(a, slot->tid);
        }
        if (waiting)
            sleep_until_ns(now_ns_sigsafe() + 1000000ULL);
    } while (waiting && now_ns_sigsafe() < deadline);
    return waiting;
}

/* The last look at every thread: collect late answers, account for what was used since the last tick. */
static void sampler_finish(struct agent *a)
{
    u32 i;
    u64 now_ns = now_ns_sigsafe();
    for (i = 0; i < a->slot_count; i++) {
        struct thread_slot *slot = &a->slots[i];
        i64 cpu_ns;
        if (!slot->tid || slot->owner == OWNER_INJECTED)
            continue;
        answer_collect(a, slot);
        cpu_ns = clock_ns_sigsafe(THREAD_CPU_CLOCK(slot->tid));
        if (cpu_ns > (i64)slot->cpu_seen_ns) {
            slot->cpu_carry_ns += (u64)cpu_ns - slot->cpu_seen_ns;
            a->target_cpu_ns += (u64)cpu_ns - slot->cpu_seen_ns;
            slot->cpu_seen_ns = (u64)cpu_ns;
        }
        if (slot->open.state)
            interval_observe(a, slot, now_ns, 0, slot->open.trace_id, slot->open.state, slot->open.sysno, 0);
        intervals_finish(a, slot);
    }
    unseen_report(a, now_ns);
}

static void *sampler_main(void *argument)
{
    struct agent *a = argument;
    u64 due_ns, now_ns;
    u32 i;
    /* All signals blocked but glibc's own 32 and 33: setuid() in the target waits for every thread to answer 33. */
    u64 mask = ~(3ULL << 31);
    sys_call6(NR_RT_SIGPROCMASK, 2 /* SIG_SETMASK */, (u64)&mask, 0, 8, 0, 0);
    a->fds_private = sys_call3(NR_CLOSE_RANGE, 0, 0xffffffffU, 2 /* CLOSE_RANGE_UNSHARE */) == 0;
    store_release_u32((volatile u32 *)&a->sampler_tid, (u32)sys_call3(NR_GETTID, 0, 0, 0));
    for (i = 0; i < a->slot_count && a->fds_private; i++)
        if (a->slots[i].tid)
            a->slots[i].syscall_fd = syscall_file_keep(a, a->slots[i].tid);
    due_ns = now_ns_sigsafe();
    while (a->command != COMMAND_STOP) {
        if (a->command == COMMAND_PAUSE) {
            sampler_pause(a);
            due_ns = now_ns_sigsafe();
        }
        now_ns = now_ns_sigsafe();
        tsc_calibrate(a, now_ns);
        maps_keep(a, now_ns);
        threads_keep(a, now_ns);
        threads_tick(a, now_ns);
        unseen_keep(a, now_ns);
        modules_compile_wanted(a);
        count_up(a, COUNTER_TICKS, 1);
        store_release_u64((volatile u64 *)&a->ring->now_ns, now_ns);
        if (now_ns - a->last_flush_ns >= FLUSH_INTERVAL_NS ||
            a->intervals_out.used > a->intervals_out.capacity / 2 || a->traces_out.used > a->traces_out.capacity / 2) {
            intervals_send_open(a);
            ring_flush(a, now_ns);
        }
        due_ns += next_period_ns(a);
        now_ns = now_ns_sigsafe();
        if (due_ns < now_ns) {
            count_up(a, COUNTER_TICKS_LATE, 1);
            due_ns = now_ns + a->period_ns / 4;
        }
        sleep_until_ns(due_ns);
    }
    a->ring->counters[COUNTER_SAMPLER_CPU_NS] = (u64)clock_ns_sigsafe(3 /* CLOCK_THREAD_CPUTIME_ID */);
    a->stopped = 1;
    return (void *)0;
}
