/*
 * The tick: for each thread, has it run, is it asleep, or does it get a signal. Sampler thread only.
 *
 *   idle for long, of many         only now and then is it looked at (idle.c)
 *   CPU clock unchanged            it is where it was: the open interval grows, nothing else is read
 *   changed, asleep in the kernel  its stack is read from outside (parked.c), or not at all
 *   changed, running               one signal; its handler answers into the slot, which is collected at the next tick.
 *                                  If it had no CPU, its stack shows what it did last, but stands for no CPU time
 *                                  (queued.c)
 */

#define COMPILE_ROUNDS_MAX 16             /* modules one parked stack may bring in, one after another */
#define LATE_TICKS_BEFORE_CHECK 5         /* unanswered so long although it ran: does it block our signal? */
#define BLOCKED_RECHECK_TICKS 256
#define BLOCKED_FOR_GOOD 2                /* it fetches signals by sigwait(3), and would fetch ours */
#define FORK_BACKOFF_NS 100000000ULL
#define FORK_BACKOFF_MAX_NS 6400000000ULL
#define HANDLER_COST_MAX_NS 200000ULL
#define ANSWER_SOON_NS 1000000ULL

/* Compile what stacks asked for. What that costs is told apart: it happens once a file, at any rate of sampling. */
static void compile_wanted(struct agent *a)
{
    i64 cpu_ns;
    if (!a->want_modules)
        return;
    cpu_ns = clock_ns_sigsafe(THREAD_CPU_CLOCK_OWN);
    modules_compile_wanted(a);
    a->once_cpu_ns += (u64)(clock_ns_sigsafe(THREAD_CPU_CLOCK_OWN) - cpu_ns);
}

/* A stack that met something new: make it known, so that the next attempt gets further. */
static void learn(struct agent *a)
{
    count_up(a, COUNTER_NOT_READY, 1);
    if (a->want_refresh && now_ns_sigsafe() - a->map_read_ns > MAP_REREAD_MIN_NS)
        maps_refresh(a);
    compile_wanted(a);
}

static void handler_cost_add(struct agent *a, const struct thread_slot *slot)
{
    u64 ns = slot->handler_tsc * a->ns_per_tsc_20 >> 20;
    u64 bucket = ns / HANDLER_HISTOGRAM_NS;
    count_up(a, COUNTER_SIGNALS_HANDLED, 1);
    count_up(a, COUNTER_HANDLER_NS_TOTAL, ns);
    /* What is longer was spent waiting for a CPU, which is no cost of ours. */
    a->handler_cost_ns += ns < HANDLER_COST_MAX_NS ? ns : HANDLER_COST_MAX_NS;
    if (ns > a->ring->counters[COUNTER_HANDLER_NS_MAX])
        a->ring->counters[COUNTER_HANDLER_NS_MAX] = ns;
    a->ring->handler_histogram[bucket < HANDLER_HISTOGRAM_BUCKETS ? bucket : HANDLER_HISTOGRAM_BUCKETS - 1]++;
}

/* Take the answer of a handler: a stack for the time up to the moment the signal was sent. */
static void answer_collect(struct agent *a, struct thread_slot *slot)
{
    u32 trace_id, injected = 0;
    repairs_collect(a, slot);
    if (load_acquire_u32(&slot->signal_state) != SIGNAL_ANSWERED)
        return;
    slot->signal_state = SIGNAL_IDLE;
    slot->given_up = 0;
    slot->late_ticks = 0;
    handler_cost_add(a, slot);
    stack_learn(a, slot);
    alternate_note(a, slot);
    room_learn(a, slot, slot->sp_seen);
    count_up(a, COUNTER_SIGNALS_FAILED, slot->came_bare);
    slot->came_bare = 0;
    if (slot->near_fork) {
        /* Longer each time: a process may take seconds to fork, and older kernels begin again at every signal. */
        slot->backoff_ns = slot->backoff_ns ? slot->backoff_ns * 2 : FORK_BACKOFF_NS;
        if (slot->backoff_ns > FORK_BACKOFF_MAX_NS)
            slot->backoff_ns = FORK_BACKOFF_MAX_NS;
        slot->backoff_until_ns = slot->sent_ns + slot->backoff_ns;
        count_up(a, COUNTER_FORK_BACKOFF, 1);
        return;
    }
    slot->backoff_ns = 0;
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
    if (!stands_for_cpu(a, slot)) {
        interval_observe(a, slot, slot->sent_ns, 0, trace_id, STATE_RUNNING, -1, 1);
        /* Should it end before it is seen on a CPU again, what was seen there last still stands for what it does. */
        if (!slot->last_run_trace)
            slot->last_run_trace = trace_id;
        slot->last_run_ns = slot->sent_ns;
        return;
    }
    interval_observe(a, slot, slot->sent_ns, slot->sent_cpu_ns, trace_id, STATE_RUNNING, -1, 1);
    slot->cpu_carry_ns -= slot->sent_cpu_ns;
    slot->last_run_trace = trace_id;
    slot->last_run_ns = slot->sent_ns;
}

/* A thread that waits for a CPU because a signal of the target's own has woken it: will the handler block ours? */
static u32 own_signal_is_coming(struct agent *a, const struct thread_slot *slot)
{
    struct thread_signals signals;
    return a->blocking_handlers && thread_signals_read(a, slot->tid, &signals) &&
           (a->blocking_handlers & signals.pending & ~signals.blocked) != 0;
}

/* A thread that blocks our signal and has run at so many looks: does it still? Soon, since Go's and others block all
 * signals while they are born; then less and less often. */
static u32 blocked_check_is_due(u32 looks)
{
    return (looks & (looks - 1)) == 0 || looks % BLOCKED_RECHECK_TICKS == 0;
}

/* The signal itself. When it was sent is noted afterwards, since this thread may lose its CPU before: a wait that began
 * meanwhile would end early if the handler took that time for waited. `clock` is the thread's CPU clock as of before.
 * 0, or -errno. */
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

/* Has the thread a stack for our signal? Where it never will, no stack of it is to be had. */
static u32 room_is_there(struct agent *a, struct thread_slot *slot, u64 now_ns)
{
    u32 room = room_for_signal(a, slot);
    if (room == ROOM_ENOUGH)
        return 1;
    count_up(a, room == ROOM_STRAYED ? COUNTER_STRAY_STACK : COUNTER_SMALL_STACK, 1);
    if (room != ROOM_IN_DOUBT)
        interval_observe_unattributed(a, slot, now_ns);
    return 0;
}

static void signal_send(struct agent *a, struct thread_slot *slot, u64 now_ns, u64 cpu_ns)
{
    i64 clock;
    i32 error;
    if (slot->signals_blocked) {
        count_up(a, COUNTER_SIGNAL_BLOCKED, 1);
        if (slot->signals_blocked != BLOCKED_FOR_GOOD && blocked_check_is_due(++slot->late_ticks))
            slot->signals_blocked = thread_blocks_signal(a, slot->tid);
        if (!slot->last_run_trace)
            interval_observe_unattributed(a, slot, now_ns);
        return;
    }
    /* A thread that waits for signals (sigwait, ppoll with a mask) is shown with the mask it waits with: what it blocks
     * is known now that it runs. */
    if (!slot->sp_seen && thread_blocks_signal(a, slot->tid)) {
        slot->signals_blocked = 1;
        slot->late_ticks = 0;
        thread_announce(a, slot, 0);
        return;
    }
    if (!a->signal_is_ours) {
        count_up(a, COUNTER_HANDLER_REPLACED, 1);
        return;
    }
    if (!slot->alternate_is_known)
        dispositions_keep(a, now_ns, DISPOSITIONS_SOON_NS);
    if (!room_is_there(a, slot, now_ns))
        return;
    if (now_ns < slot->backoff_until_ns || now_ns < a->signals_from_ns)
        return;
    if (!slot->frames)
        slot->frames = agent_pages(a, SLOT_PAGES_BYTES);
    if (!slot->frames)
        return;
    clock = clock_ns_sigsafe(THREAD_CPU_CLOCK(slot->tid));
    slot->sent_off_cpu = clock == (i64)cpu_ns;
    if (slot->sent_off_cpu && own_signal_is_coming(a, slot))
        return;
    slot->sent_ns = now_ns;
    if (slot->sent_off_cpu)
        queued_note(a, slot);
    slot->sent_cpu_ns = slot->cpu_carry_ns;
    error = signal_post(a, slot, (u64)clock);
    if (error < 0) {
        if (error != -ERR_ESRCH && error != -ERR_EACCES)    /* the thread has ended; a filter has come */
            count_up(a, COUNTER_SIGNALS_FAILED, 1);
        return;
    }
    a->signals_open = 1;
    count_up(a, COUNTER_SIGNALS_SENT, 1);
}

/* The last signal has not been answered. A thread that ran all the same may have blocked it since. */
static void signal_overdue(struct agent *a, struct thread_slot *slot, u32 ran)
{
    struct thread_signals signals;
    if (!ran)
        return;                           /* it waits for a CPU, and takes the signal when it gets one */
    count_up(a, COUNTER_SIGNALS_LATE, 1);
    if (++slot->late_ticks % LATE_TICKS_BEFORE_CHECK)
        return;
    /* While our handler runs, everything is blocked: that says nothing of the thread. */
    if (!thread_signals_read(a, slot->tid, &signals) || slot->signal_state != SIGNAL_SENT)
        return;
    if (signals.blocked >> (a->signo - 1) & 1) {
        slot->signals_blocked = 1;
        slot->late_ticks = 0;
        slot->given_up = 1;
        slot->signal_state = SIGNAL_IDLE; /* the slot stays valid: a late answer is dropped by the handler */
        thread_announce(a, slot, 0);
    } else if (!(signals.pending >> (a->signo - 1) & 1)) {
        /* Taken, and not by our handler: the limit of queued signals (RLIMIT_SIGPENDING) is reached, and the kernel
         * sent a bare one; or a handler of the target's has been there for a moment. */
        slot->given_up = 1;
        slot->signal_state = SIGNAL_IDLE;
        count_up(a, COUNTER_SIGNALS_FAILED, 1);
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
    slot->is_look_due = result == PARKED_HIDDEN && hostfile_is_coming(a, slot);
    if (result == PARKED_HIDDEN && !slot->is_look_due)
        interval_observe(a, slot, now_ns, 0, 0, STATE_BLOCKED, -1, 1);
    if (result != PARKED_SEEN)
        return;
    room_learn(a, slot, wait.sp);
    alternate_watch(a, slot);
    if (wait.sysno == NR_RT_SIGTIMEDWAIT)
        slot->signals_blocked = BLOCKED_FOR_GOOD;
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
    if (ran)
        slot->ran_ns = now_ns;
    if (ran && slot->open.state == STATE_RUNNING)
        slot->open.dirty = 1;             /* it may be a while until a stack comes for this time, or never */
    if (signal_is_under_way(slot)) {
        signal_overdue(a, slot, ran);
    } else if (ran || !slot->open.state || slot->is_look_due) {
        thread_look(a, slot, now_ns, (u64)cpu_ns);
    } else {
        interval_observe(a, slot, now_ns, 0, slot->open.trace_id, slot->open.state, slot->open.sysno, 0);
        count_up(a, COUNTER_UNCHANGED, 1);
    }
}

static void threads_tick(struct agent *a, u64 now_ns)
{
    u32 i;
    hostfiles_take(a);
    idle_turns_begin(a);
    for (i = 0; i < a->slot_count; i++) {
        struct thread_slot *slot = &a->slots[i];
        if (idle_turn_is_over(a, i) || !slot->tid)
            continue;
        if (load_acquire_u32(&slot->owner) == OWNER_INJECTED) {
            idle_set(a, slot, 0);
            if (slot->announced) {        /* told of it before we knew: take it back */
                thread_announce(a, slot, THREAD_HIDDEN);
                slot->announced = 0;
            }
            continue;
        }
        if (is_sandboxed(a))
            return;
        thread_tick(a, slot, now_ns);
        idle_note(a, slot, now_ns);
    }
}

/* Where there is time until the next round, take the answers to this one's signals now: what was sampled shall be with
 * the host if the target ends in between. */
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
