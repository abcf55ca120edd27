/*
 * Wait until no thread of the target can be in our code or enter it, so that the code can be unmapped. Sampler thread
 * only.
 *
 * A thread that handles our signal runs with nearly every signal blocked from the moment when the kernel built the
 * handler's frame until sigreturn; before that, the signal is pending. In between are some microseconds of kernel code,
 * where a thread that lost its CPU can stay for long. So a thread is out of our code when
 *   it is asleep, or has ended                                 our handler never sleeps
 *   its mask is not the handler's, and its signal was answered
 *   its signal was pending, and it has not run since           the kernel dropped it with the disposition
 *   it has used more CPU time since than handler and kernel need for a signal
 * The same holds for a thread that had a timer and has run since the last look: its signal may be on the way. The wait
 * for a thread that may be in our code has no limit: unmapping the code would kill the target.
 */

#define ANSWERS_WAIT_NS 200000000ULL      /* wait for the last samples; longer only */
#define TURN_WAIT_NS 2000000000ULL        /* for a thread that waits for a CPU: it may be leaving a wait, which
                                           * without our handler would end with EINTR */
#define DRAIN_CPU_NS 50000000ULL          /* far more CPU time than any handler needs */
#define TIMER_DRAIN_CPU_NS 5000000ULL     /* the same if a timer's signal may have been on its way, which is not
                                           * certain */
#define NOT_SURELY_BLOCKED (1ULL << 8 | 1ULL << 18 | 1ULL << 4) /* SIGKILL, SIGSTOP; a debugger's step unblocks SIGTRAP */
#define DRAIN_POLL_NS 1000000ULL
#define BLIND_GRACE_NS 50000000ULL

/* Return whether a signal was sent and may not have been answered. */
static u32 signal_is_open(const struct thread_slot *slot)
{
    return signal_is_under_way(slot) || slot->given_up;
}

/* Delete all timers. A signal may still be on its way to threads that ran recently. */
static void cpu_timers_delete(struct agent *a)
{
    u32 i;
    for (i = 0; i < a->slot_count; i++) {
        struct thread_slot *slot = &a->slots[i];
        u32 has_timer = slot->has_timer, is_asleep;
        cpu_timer_delete(a, slot);
        is_asleep = slot->open.state && clock_ns_sigsafe(THREAD_CPU_CLOCK(slot->tid)) == (i64)slot->cpu_seen_ns;
        slot->had_timer = has_timer && !is_asleep;
    }
}

/* Wait for each thread that can still handle its last signal. Returns how many did not. */
static u32 answers_await(struct agent *a)
{
    u64 begin_ns = now_ns_sigsafe(), waited_ns = 0;
    u32 i, waiting, unanswered;
    do {
        waiting = unanswered = 0;
        for (i = 0; i < a->slot_count; i++) {
            struct thread_slot *slot = &a->slots[i];
            struct thread_signals signals;
            if (!slot->tid || !(signal_is_under_way(slot) || slot->had_timer) ||
                !thread_signals_read(a, slot->tid, &signals))
                continue;
            if (!signal_is_under_way(slot) && !slot->is_taking && !(signals.pending >> (a->signo - 1) & 1))
                continue;
            unanswered++;
            if (slot->signal_state == SIGNAL_HANDLING || slot->is_taking || !(signals.blocked >> (a->signo - 1) & 1))
                waiting += waited_ns < (signals.state == 'R' ? TURN_WAIT_NS : ANSWERS_WAIT_NS);
        }
        if (waiting)
            sleep_until_ns(now_ns_sigsafe() + DRAIN_POLL_NS);
        waited_ns = now_ns_sigsafe() - begin_ns;
    } while (waiting);
    return unanswered;
}

/* Restore the disposition, and find the threads that are out of our code thereby. CPU time counts from here for all
 * threads at once: where hundreds share a CPU, each gets it only once a second. */
static void restore_and_note(struct agent *a)
{
    u32 i;
    for (i = 0; i < a->slot_count; i++) {
        struct thread_slot *slot = &a->slots[i];
        struct thread_signals signals;
        slot->drain_cpu_ns = slot->tid ? clock_ns_sigsafe(THREAD_CPU_CLOCK(slot->tid)) : 0;
        if (slot->tid && signal_is_open(slot))
            slot->drain_pending = thread_signals_read(a, slot->tid, &signals) && signals.pending >> (a->signo - 1) & 1;
    }
    signal_restore(a);
    for (i = 0; i < a->slot_count; i++) {
        struct thread_slot *slot = &a->slots[i];
        if (slot->tid && signal_is_open(slot) && slot->drain_pending &&
            clock_ns_sigsafe(THREAD_CPU_CLOCK(slot->tid)) == slot->drain_cpu_ns) {
            slot->signal_state = SIGNAL_IDLE;
            slot->given_up = 0;
        }
    }
}

/* Return whether this thread may be in our code or about to enter it. */
static u32 thread_may_be_inside(struct agent *a, struct thread_slot *slot)
{
    struct thread_signals signals;
    i64 cpu_ns = clock_ns_sigsafe(THREAD_CPU_CLOCK(slot->tid));
    if (!slot->tid || !slot->frames || cpu_ns < 0)
        return 0;
    if (load_acquire_u32(&slot->signal_state) == SIGNAL_HANDLING || load_acquire_u32(&slot->is_taking))
        return 1;
    if (!thread_signals_read(a, slot->tid, &signals)) {
        a->drain_is_blind |= clock_ns_sigsafe(THREAD_CPU_CLOCK(slot->tid)) >= 0;
        return 0;
    }
    if (signals.state == 'S' || signals.state == 'Z' || signals.state == 'X')
        return 0;
    if ((a->handler_mask_least & ~NOT_SURELY_BLOCKED & ~signals.blocked) != 0 && !signal_is_open(slot) && !slot->had_timer)
        return 0;
    return cpu_ns - slot->drain_cpu_ns < (i64)(signal_is_open(slot) ? DRAIN_CPU_NS : TIMER_DRAIN_CPU_NS);
}

/*
 * As handlers_drain, without reading the state of the threads (seccomp_watch.c). Pending signals are dropped with the
 * disposition. A handler that has begun a sample is visible in its slot; one that has not finds the gate closed, which
 * stays mapped. Two cases remain, and get BLIND_GRACE_NS: a thread that lost its CPU within the few instructions
 * between, and a handler that passes on a signal of the target's.
 */
static u32 handlers_drain_blind(struct agent *a)
{
    u64 deadline = now_ns_sigsafe() + ANSWERS_WAIT_NS;
    u32 i, waiting, unanswered;
    signal_restore(a);
    a->was_replaced = 1;
    do {
        waiting = unanswered = 0;
        for (i = 0; i < a->slot_count; i++) {
            u32 tid = a->slots[i].tid, is_there = tid && clock_ns_sigsafe(THREAD_CPU_CLOCK(tid)) >= 0;
            u32 state = is_there ? load_acquire_u32(&a->slots[i].signal_state) : SIGNAL_IDLE;
            unanswered += state == SIGNAL_SENT;
            waiting += state == SIGNAL_HANDLING || (is_there && load_acquire_u32(&a->slots[i].is_taking)) || (state == SIGNAL_SENT && now_ns_sigsafe() < deadline);
        }
        if (waiting)
            sleep_until_ns(now_ns_sigsafe() + DRAIN_POLL_NS);
    } while (waiting);
    gate_close(a);
    sleep_until_ns(now_ns_sigsafe() + BLIND_GRACE_NS);
    return unanswered;
}

/* Restore the disposition and wait until no thread is in our code. Returns how many threads never handled their last
 * signal; they never will. If the state of a thread is unreadable (a new seccomp filter), use handlers_drain_blind. */
static u32 handlers_drain(struct agent *a)
{
    u32 unanswered, i, inside;
    if (is_sandboxed(a))
        return handlers_drain_blind(a);
    unanswered = answers_await(a);
    restore_and_note(a);
    do {
        inside = 0;
        for (i = 0; i < a->slot_count && !inside; i++)
            inside = thread_may_be_inside(a, &a->slots[i]);
        if (inside)
            sleep_until_ns(now_ns_sigsafe() + DRAIN_POLL_NS);
    } while (inside);
    if (a->drain_is_blind || is_sandboxed(a))
        return handlers_drain_blind(a);
    gate_close(a);
    return unanswered;
}
