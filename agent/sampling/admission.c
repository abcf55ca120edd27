/*
 * Threads that block all signals: workers of Apache, HAProxy, unbound and xz. Our signal never reaches them,
 * and only a tracer can change the mask of another thread. So we ask the host to let it in
 * (profiler/inject/admission.py); before it detaches, the host puts the masks back.
 *
 *   only if        the target has no handler for our signal, and the thread has blocked it for a while
 *   repeatedly     the host stops only threads that run just then: the next look asks again
 *   not for ever   a thread that blocks the signal again and again is left alone
 *
 * A signal of the target's own with the same number would wait, blocked, until somebody reads it (signalfd(2),
 * sigwait(3)). If one comes to an admitted thread, the handler blocks the signal there, as it was, and sends it on.
 *
 * Sampler thread only, except for what ends in _sigsafe.
 */

#define ADMISSION_AGE_NS 50000000ULL      /* libc blocks all signals while a thread starts or ends */
#define ADMISSION_PAUSE_LEAST_NS 20000000ULL
#define ADMISSION_PAUSE_MOST_NS 2000000000ULL
#define ADMISSIONS_MAX 3                  /* of one thread */

/* Return the target's own action for our signal. Context: signal. */
static const struct kernel_sigaction *old_action_sigsafe(const struct agent *a)
{
    return &a->old_actions[load_acquire_u32(&a->old_action_at) & 1];
}

/* Note that the thread blocks our signal. */
static void blocked_note(struct agent *a, struct thread_slot *slot)
{
    slot->signals_blocked = 1;
    slot->late_ticks = 0;
    slot->admission_from_ns = 0;
    thread_announce(a, slot, 0);
}

/* Return whether to ask the host to let our signal in, which the thread blocks. */
static u32 admission_is_due(const struct agent *a, struct thread_slot *slot, u64 now_ns)
{
    if (old_action_sigsafe(a)->handler > SIGNAL_IGNORE || slot->owner != OWNER_TARGET || slot->admissions >= ADMISSIONS_MAX ||
        slot->admission_is_asked)
        return 0;
    if (!slot->admission_from_ns) {
        slot->admission_from_ns = now_ns + ADMISSION_AGE_NS;
        slot->admission_pause_ns = ADMISSION_PAUSE_LEAST_NS;
        return 0;
    }
    if (now_ns < slot->admission_from_ns)
        return 0;
    slot->admission_from_ns = now_ns + slot->admission_pause_ns;
    if (slot->admission_pause_ns < ADMISSION_PAUSE_MOST_NS)
        slot->admission_pause_ns *= 2;
    return 1;
}

/* The host has not changed the thread's mask. If it was asked again because the thread seemed to block the signal, that was
 * in our handler: the mask is still open. */
static void admission_refused(struct thread_slot *slot)
{
    if (!slot->admissions)
        store_release_u32(&slot->is_admitted, 0);
}

/* Take the host's answer: whether it has changed the thread's mask. */
static void admission_take(struct agent *a, struct thread_slot *slot, u32 is_changed)
{
    slot->admission_is_asked = 0;
    if (!is_changed) {
        admission_refused(slot);
        return;
    }
    slot->admissions++;
    store_release_u32(&slot->is_admitted, 1);    /* the handler may have met a signal of the target's meanwhile */
    if (slot->signals_blocked != BLOCKED_FOR_GOOD)
        slot->signals_blocked = thread_blocks_signal(a, slot->tid);
    slot->late_ticks = 0;
    if (slot->signals_blocked)
        return;
    count_up(a, COUNTER_THREADS_ADMITTED, 1);
    thread_announce(a, slot, 0);
}

/* Notice that the handler has met a signal of the target's and blocks ours again. */
static void admission_check(struct agent *a, struct thread_slot *slot)
{
    if (!slot->is_returned || slot->signals_blocked == BLOCKED_FOR_GOOD)
        return;
    slot->signals_blocked = BLOCKED_FOR_GOOD;
    thread_announce(a, slot, 0);
}

/*
 * Block our signal again in an admitted thread to which a signal of the target's came, and send that one on: to whom it
 * was for, so that it waits there as it would have without us. None of ours may come any more. A signal that kill(2) sent names us as its sender then,
 * unless the main thread got it: the kernel lets only a thread itself say otherwise. Context: signal.
 */
static void admission_return_sigsafe(struct agent *a, struct thread_slot *slot, i32 signo, void *info, void *context)
{
    i32 code = *(const i32 *)((const u8 *)info + SIGINFO_CODE);
    u64 tid = slot->tid;
    if (!slot->is_admitted || is_shut_sigsafe(a))
        return;
    *(u64 *)((u8 *)context + UCONTEXT_SIGMASK) |= 1ULL << (signo - 1);
    slot->is_admitted = 0;
    store_release_u32(&slot->is_returned, 1);
    samples_end_sigsafe(a, slot);         /* one that came now would wait there, too, and be read as the target's */
    if (code == SIGINFO_CODE_TKILL)
        permitted_call_sigsafe(a, NR_RT_TGSIGQUEUEINFO, a->pid, tid, (u64)signo, (u64)info, 0);
    else if (permitted_call_sigsafe(a, NR_RT_SIGQUEUEINFO, a->pid, (u64)signo, (u64)info, 0, 0) < 0)
        permitted_call_sigsafe(a, NR_KILL, a->pid, (u64)signo, 0, 0, 0);
}
