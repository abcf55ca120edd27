/*
 * One round over all threads. Sampler thread only.
 *
 *   idle for long, among many      looked at only in some rounds (idle.c)
 *   CPU clock unchanged            still where it was: the open interval grows, nothing else is read
 *   changed, asleep in the kernel  its stack is read from outside (sleeping.c), or not at all
 *   changed                        its timer is set (cpu_timers.c), whether it runs now or not; the samples of its
 *                                  handler since the last round are taken out of its ring
 *   changed by all the time since  the same, but procfs is not asked what it did: it hardly slept or waited
 *
 * A thread that can have no timer gets a signal when it is found running. Its handler answers into the slot, which the
 * next round collects. If it was not on a CPU, its stack shows what it did last, but stands for no CPU time
 * (run_queue.c).
 */

#define COMPILE_ROUNDS_MAX 16             /* modules that one sleeping stack may make us compile, one after another */
#define LATE_TICKS_BEFORE_CHECK 5         /* rounds without an answer although it ran, before we check whether it
                                           * blocks our signal */
#define TIMER_LATE_PERIODS 8              /* CPU time, and as many ticks, without a sample, before we check whether
                                           * it blocks our signal */
#define BLOCKED_RECHECK_TICKS 256
#define ANSWER_SOON_NS 1000000ULL
#define HARDLY_NS 50000ULL

/* Return whether a pending target signal, whose handler blocks ours, has woken a thread that waits for a CPU. */
static u32 own_signal_is_coming(struct agent *a, const struct thread_slot *slot)
{
    struct thread_signals signals;
    return a->blocking_handlers && thread_signals_read(a, slot->tid, &signals) &&
           (a->blocking_handlers & signals.pending & ~signals.blocked) != 0;
}

/* Return whether to check again if a thread blocks our signal, after so many looks at which it had run. Soon at first,
 * since Go and others block all signals while a thread starts; then less and less often. */
static u32 blocked_check_is_due(u32 looks)
{
    return (looks & (looks - 1)) == 0 || looks % BLOCKED_RECHECK_TICKS == 0;
}

/* Send the signal. The time of sending is noted afterwards, since this thread may lose its CPU before: otherwise a wait
 * that began meanwhile would end too early. `clock` is the thread's CPU clock read before. Returns 0 or -errno. */
static i32 signal_post(const struct agent *a, struct thread_slot *slot, u64 clock)
{
    struct signal_info info;
    i32 error;
    signal_info_fill(a, &info, slot);
    if (!may_signal(a, slot->tid, &slot->signal_cpu_ns))
        return -ERR_EACCES;
    slot->sent_on_cpu = slot->signal_cpu_ns != clock;
    slot->signal_ns = SENT_JUST_NOW;
    store_release_u32(&slot->signal_state, SIGNAL_SENT);
    error = send_signal(a, slot->tid, &info);
    if (error < 0)
        slot->signal_state = SIGNAL_IDLE;
    else
        store_release_u64((volatile u64 *)&slot->signal_ns, now_ns_sigsafe());
    return error;
}

/* Return whether the thread's stack has room for our signal. If it never will, its CPU time is unattributed. */
static u32 room_is_there(struct agent *a, struct thread_slot *slot, u64 now_ns)
{
    u32 room = room_for_signal(a, slot);
    if (room == ROOM_ENOUGH)
        return 1;
    count_up(a, room == ROOM_STRAYED ? COUNTER_STRAY_STACK : COUNTER_SMALL_STACK, 1);
    if (room != ROOM_IN_DOUBT || slot->alternate_pause_ns > ALTERNATE_DOUBT_LONG_NS)
        interval_unattributed(a, slot, now_ns, COUNTER_UNATTRIBUTED_STACK_NS);
    return 0;
}

/* Return whether the thread takes our signal. Checked before its first one, and from time to time. */
static u32 signal_is_let_in(struct agent *a, struct thread_slot *slot, u64 now_ns)
{
    admission_check(a, slot);
    if (slot->signals_blocked) {
        u32 is_due = slot->signals_blocked != BLOCKED_FOR_GOOD && admission_is_due(a, slot, now_ns);
        count_up(a, COUNTER_SIGNAL_BLOCKED, 1);
        if (slot->signals_blocked != BLOCKED_FOR_GOOD && (is_due || blocked_check_is_due(++slot->late_ticks)))
            slot->signals_blocked = thread_blocks_signal(a, slot->tid);
        if (is_due && slot->signals_blocked)
            admission_ask(a, slot);
    } else if (!slot->sp_seen && !slot->has_timer && thread_blocks_signal(a, slot->tid)) {
        /* For a thread that waits for signals (sigwait, ppoll with a mask), procfs shows the mask of the wait: its own
         * mask is known only after it has run. */
        blocked_note(a, slot);
    }
    if (slot->signals_blocked)
        interval_unattributed(a, slot, now_ns, COUNTER_UNATTRIBUTED_BLOCKED_NS);
    return !slot->signals_blocked;
}

/* Return whether the thread may be sampled now. If not, and not only for a moment, its CPU time is unattributed. */
static u32 may_be_sampled(struct agent *a, struct thread_slot *slot, u64 now_ns)
{
    if (!a->signal_is_ours) {
        count_up(a, COUNTER_HANDLER_REPLACED, 1);
        interval_unattributed(a, slot, now_ns, COUNTER_UNATTRIBUTED_HANDLER_NS);
        return 0;
    }
    if (!signal_is_let_in(a, slot, now_ns))
        return 0;
    if (!slot->alternate_is_known)
        dispositions_keep(a, now_ns, DISPOSITIONS_SOON_NS);
    if (!room_is_there(a, slot, now_ns) || now_ns < a->signals_from_ns)
        return 0;
    if (!slot->frames)
        slot->frames = agent_pages(a, SLOT_PAGES_BYTES);
    if (!slot->managed && (a->states || a->heaps))
        slot->managed = agent_pages(a, sizeof *slot->managed);
    return slot->frames != 0;
}

/* Send a signal to a running thread that has no timer, or whose timer samples it badly (tick_phase.c). */
static void signal_send(struct agent *a, struct thread_slot *slot, u64 now_ns, u64 cpu_ns)
{
    i64 clock;
    i32 error;
    if (now_ns < slot->backoff_until_ns)
        return;
    clock = clock_ns_sigsafe(THREAD_CPU_CLOCK(slot->tid));
    slot->sent_off_cpu = clock == (i64)cpu_ns;
    if (slot->sent_off_cpu && own_signal_is_coming(a, slot))
        return;
    slot->sent_ns = now_ns;
    if (slot->sent_off_cpu)
        queued_note(a, slot);
    slot->sent_cpu_ns = slot->cpu_seen_ns;
    error = signal_post(a, slot, (u64)clock);
    if (error < 0) {
        if (error != -ERR_ESRCH && error != -ERR_EACCES)    /* the thread has ended; a filter was installed */
            count_up(a, COUNTER_SIGNALS_FAILED, 1);
        return;
    }
    a->signals_open = 1;
    count_up(a, COUNTER_SIGNALS_SENT, 1);
}

/* Handle an unanswered signal. A thread that ran meanwhile may have blocked it. */
static void signal_overdue(struct agent *a, struct thread_slot *slot, u32 ran)
{
    struct thread_signals signals;
    if (!ran)
        return;                           /* it waits for a CPU, and handles the signal when it gets one */
    count_up(a, COUNTER_SIGNALS_LATE, 1);
    if (++slot->late_ticks % LATE_TICKS_BEFORE_CHECK)
        return;
    /* While our handler runs, all signals are blocked: the mask says nothing about the thread. */
    if (!thread_signals_read(a, slot->tid, &signals) || slot->signal_state != SIGNAL_SENT)
        return;
    if (signals.blocked >> (a->signo - 1) & 1) {
        slot->given_up = 1;
        slot->signal_state = SIGNAL_IDLE; /* the slot stays valid: the handler drops a late answer */
        blocked_note(a, slot);
    } else if (!(signals.pending >> (a->signo - 1) & 1) && slot->late_ticks > LATE_TICKS_BEFORE_CHECK) {
        /* Not pending, and not handled by us. Either the limit of queued signals (RLIMIT_SIGPENDING) was reached and
         * the kernel sent the signal without its siginfo, or the target had its own handler installed for a moment. At
         * the first look it may have been taken just before, by a thread that has lost its CPU since. */
        slot->given_up = 1;
        slot->signal_state = SIGNAL_IDLE;
        count_up(a, COUNTER_SIGNALS_FAILED, 1);
    }
}

/* Handle a timer without samples although the thread ran. It may have blocked our signal, or a handler of the target's
 * took it. */
static void timer_overdue(struct agent *a, struct thread_slot *slot)
{
    struct thread_signals signals;
    if (slot->cpu_seen_ns < slot->timer_set_cpu_ns + TIMER_LATE_PERIODS * (a->cpu_period_ns + a->tick_ns))
        return;
    count_up(a, COUNTER_SIGNALS_LATE, 1);
    slot->timer_set_cpu_ns = slot->cpu_seen_ns;
    if (slot->is_taking || !thread_signals_read(a, slot->tid, &signals))
        return;
    if (signals.blocked >> (a->signo - 1) & 1) {
        cpu_timer_stop(a, slot);
        blocked_note(a, slot);
    } else if (!(signals.pending >> (a->signo - 1) & 1)) {
        u32 had_clock = slot->has_clock;
        cpu_timer_stop(a, slot);              /* it is set again later */
        clock_close(a, slot);
        if (had_clock)
            slot->clock_asked = CLOCK_REFUSED;
    }
}

/* Decide whether and how to sample a thread that has run since the last look. */
static void sampling_keep(struct agent *a, struct thread_slot *slot, u64 now_ns, u64 cpu_ns, u32 runs)
{
    if (slot->timer_is_set)
        timer_overdue(a, slot);
    if (!may_be_sampled(a, slot, now_ns)) {
        cpu_timer_stop(a, slot);
        return;
    }
    slot->is_on_alternate = alternate_has_room(a, slot);
    if (runs)
        phase_note(a, slot, now_ns);
    clock_keep(a, slot, now_ns);
    if ((!cpu_timer_start(a, slot) || round_samples(a, slot)) && runs)
        signal_send(a, slot, now_ns, cpu_ns);
}

/* Return whether the thread has run nearly all the time since the last look; `ran_ns` is its CPU time in it. */
static u32 ran_throughout(const struct thread_slot *slot, u64 now_ns, u64 ran_ns)
{
    return !slot->may_have_waited && !slot->is_of_kernel &&
           slot->blocked_ns + (i64)(now_ns - slot->accounted_ns) - (i64)ran_ns < (i64)HARDLY_NS;
}

/* Look at a thread that used CPU time since the last look, or that was never looked at. */
static void thread_look(struct agent *a, struct thread_slot *slot, u64 now_ns, u64 cpu_ns, u32 ran)
{
    struct wait_record wait;
    struct unwinder u;
    struct verdicts verdicts;
    u32 result, trace_id, injected = 0, rounds = 0;
    if (slot->is_of_kernel) {
        kernel_thread_look(a, slot, now_ns);
        return;
    }
    state_ensure(a, slot, now_ns);
    while ((result = parked_take(a, slot, cpu_ns, &wait, &u)) == PARKED_RETRY && rounds++ < COMPILE_ROUNDS_MAX)
        learn(a);
    if (result == PARKED_SEEN) {
        room_learn(a, slot, wait.sp);
        alternate_watch(a, slot);
        if (wait.sysno == NR_RT_SIGTIMEDWAIT)
            slot->signals_blocked = BLOCKED_FOR_GOOD;
    }
    if (ran || result == PARKED_RUNNING)
        sampling_keep(a, slot, now_ns, cpu_ns, result == PARKED_RUNNING);
    slot->is_look_due = result == PARKED_HIDDEN && hostfile_is_coming(a, slot);
    if (result == PARKED_HIDDEN && !slot->is_look_due)
        interval_asleep(a, slot, now_ns, 0, 0, STATE_BLOCKED, -1, 1);
    if (result != PARKED_SEEN)
        return;
    verdicts.native = u.verdict;
    verdicts.managed = slot->managed_verdict;
    verdicts.marks = slot->marks;
    verdicts.fault_pc = u.fault_pc;
    a->noted_by = slot->managed;
    trace_id = trace_intern(a, u.frames, u.frame_count, &verdicts, &injected);
    if (injected && slot->owner == OWNER_UNKNOWN)
        return;
    if (slot->marks == MARK_LOCK_AWAITED)
        wait.sysno = SYSNO_LOCK;
    slot->marks |= held_lock_sigsafe(a, slot) << HELD_LOCK_SHIFT;
    interval_asleep(a, slot, now_ns, trace_id, slot->marks, wait.sysno < 0 ? STATE_BLOCKED : STATE_PARKED,
                    (i16)wait.sysno, 1);
    holder_wait_note(a, slot, now_ns);
}

/* Account for the time since the last look. `ran_ns` is the CPU time that the thread used in it. */
static void time_account(struct agent *a, struct thread_slot *slot, u64 now_ns, u64 ran_ns)
{
    u64 queued_ns = 0, told_ns;
    if (ran_ns && !ran_throughout(slot, now_ns, ran_ns)) {
        u64 delay_ns = run_delay_of(a, slot);
        if (delay_ns != RUN_DELAY_UNKNOWN && slot->run_delay_seen_ns != RUN_DELAY_UNKNOWN &&
            delay_ns > slot->run_delay_seen_ns)
            queued_ns = delay_ns - slot->run_delay_seen_ns;
        slot->run_delay_seen_ns = delay_ns;
    }
    told_ns = time_pass(slot, now_ns, ran_ns, queued_ns);
    /* The part that does not fit was before the first look. For later looks, the clocks were read one after another: it
     * goes to the next look. */
    if (!slot->may_have_waited)
        slot->run_delay_seen_ns -= queued_ns - told_ns;
    if (ran_ns) {
        slot->may_have_waited = 0;
        interval_close(a, slot);
    }
    interval_queued(a, slot, now_ns, QUEUED_TOLD_NS);
    if (ran_ns)                           /* before it has run, it may be waiting for a CPU */
        interval_asleep_unseen(a, slot, now_ns, ASLEEP_UNSEEN_NS);
}

/* Collect the last samples of a thread. Returns the CPU time that they show beyond the last look. */
static u64 samples_collect_last(struct agent *a, struct thread_slot *slot)
{
    u64 unseen_ns;
    samples_collect(a, slot);
    answer_collect(a, slot);
    unseen_ns = slot->cpu_told_ns > slot->cpu_seen_ns ? slot->cpu_told_ns - slot->cpu_seen_ns : 0;
    cpu_time_see(a, slot, unseen_ns);
    return unseen_ns;
}

/* Begin to account for the time of all listed threads. */
static void times_begin(struct agent *a)
{
    u32 i;
    locks_restart(a, now_ns_sigsafe());
    for (i = 0; i < a->slot_count; i++) {
        struct thread_slot *slot = &a->slots[i];
        i64 cpu_ns = slot->tid ? clock_ns_sigsafe(THREAD_CPU_CLOCK(slot->tid)) : -1;
        if (cpu_ns >= 0)
            time_begin(slot, now_ns_sigsafe(), (u64)cpu_ns, run_delay_of(a, slot));
    }
}

static void thread_end(struct agent *a, struct thread_slot *slot)
{
    if (slot->owner != OWNER_INJECTED) {
        u64 unseen_ns = samples_collect_last(a, slot), tail_ns = tail_take(a, slot, unseen_ns);
        cpu_time_see(a, slot, tail_ns);
        unseen_ns += tail_ns;
        /* The thread existed that much longer. */
        time_pass(slot, slot->accounted_ns + unseen_ns, unseen_ns, 0);
    }
    thread_remove(a, slot);
    a->list_checked_ns = 0;               /* another thread may have started */
    a->list_links = 0;
}

static void thread_tick(struct agent *a, struct thread_slot *slot, u64 now_ns)
{
    i64 cpu_ns;
    u64 ran_ns;
    u32 is_running;
    cpu_ns = clock_ns_sigsafe(THREAD_CPU_CLOCK(slot->tid));
    if (cpu_ns < 0 || (u64)cpu_ns < slot->cpu_seen_ns) {
        thread_end(a, slot);              /* ended, or its tid now belongs to another thread */
        return;
    }
    ran_ns = (u64)cpu_ns - slot->cpu_seen_ns;
    cpu_time_see(a, slot, ran_ns);
    slot->ran_since_name |= ran_ns != 0;
    /* This thread may have waited for a CPU since the round began, and the other one run. */
    if (ran_ns) {
        now_ns = now_ns_sigsafe();
        slot->awaited = 0;                /* until its next wait was seen */
    }
    is_running = ran_ns && ran_throughout(slot, now_ns, ran_ns);
    time_account(a, slot, now_ns, ran_ns);
    /* For a thread that begins to run just now, the next look is better: it also knows the run delay. */
    if (ran_ns)
        samples_collect(a, slot);
    answer_collect(a, slot);
    if (signal_is_under_way(slot)) {
        signal_overdue(a, slot, ran_ns != 0);
    } else if (is_running) {
        state_ensure(a, slot, now_ns);
        sampling_keep(a, slot, now_ns, (u64)cpu_ns, 1);
        slot->is_look_due = 1;            /* it may have fallen asleep just now */
    } else if (ran_ns || !slot->open.state || slot->is_look_due) {
        thread_look(a, slot, now_ns, (u64)cpu_ns, ran_ns != 0);
    } else {
        count_up(a, COUNTER_UNCHANGED, 1);
        holder_look(a, slot, now_ns, 0);
    }
}

/* Return whether this round leaves a thread out, which has slept before. Its samples are collected nevertheless, before
 * their ring is full. */
static u32 is_left_out(struct agent *a, struct thread_slot *slot)
{
    if (!slot->last_wait_trace || slot->is_gone || signal_is_under_way(slot) || !look_is_left_out(a))
        return 0;
    samples_collect(a, slot);
    return 1;
}

static void threads_tick(struct agent *a, u64 now_ns)
{
    u32 i;
    hostfiles_take(a);
    idle_turns_begin(a);
    for (i = 0; i < a->slot_count; i++) {
        struct thread_slot *slot = &a->slots[i];
        if (!slot->tid || (idle_turn_is_over(a, i) && !slot->is_gone))
            continue;
        if (slot->is_gone) {
            thread_end(a, slot);
            continue;
        }
        if (load_acquire_u32(&slot->owner) == OWNER_INJECTED) {
            idle_set(a, slot, 0);
            cpu_timer_stop(a, slot);
            if (slot->announced) {        /* announced before we knew: withdraw it */
                thread_announce(a, slot, THREAD_HIDDEN);
                slot->announced = 0;
            }
            continue;
        }
        if (is_sandboxed(a))
            return;
        if (is_left_out(a, slot))
            continue;
        thread_tick(a, slot, now_ns);
        idle_note(a, slot, now_ns);
    }
}

/* If there is time until the next round, collect the answers to this round's signals now, so that the samples reach the
 * host even if the target ends in between. */
static void answers_collect_soon(struct agent *a)
{
    u32 i;
    if (!a->signals_open || a->period_ns < 5 * ANSWER_SOON_NS)
        return;
    a->planned_sleep_ns += ANSWER_SOON_NS;
    sleep_until_ns(now_ns_sigsafe() + ANSWER_SOON_NS);
    for (i = 0; i < a->slot_count; i++)
        if (a->slots[i].tid)
            answer_collect(a, &a->slots[i]);
}
