/*
 * Restart system calls that our signal would end with EINTR: those of a thread that began to wait after procfs showed
 * it running. All of this may run in the handler: no libc, no locks, no allocation.
 *
 * What the kernel does (arch/x86/kernel/signal.c, handle_signal): it restarts calls that end with ERESTARTSYS or
 * ERESTARTNOINTR by itself (SA_RESTART): pc is back on the instruction, and rax has the number. All others return
 * EINTR: pc is after the instruction, rax is -EINTR, and the number is lost. We know it if the registers are those of
 * the wait that procfs showed last, or from the code. To restart, we set rax to the number and move pc back by the two
 * bytes of `syscall`.
 *
 * An EINTR is not ours, and not changed, when
 *   the kernel would have restarted the call after a handler with SA_RESTART            is_restartable_sigsafe
 *   our signal was blocked during the call (by the mask of ppoll and similar calls)     mask_during_call_sigsafe
 *   a signal of the target's is pending: it is delivered when our handler returns       own_signal_is_due_sigsafe
 *   a handler of the target's that blocks our signal has run meanwhile                  own_handler_has_run_sigsafe
 * It may be anybody's, and is not changed either, if the call's mask lets in target signals that the thread blocks
 * otherwise (ppoll and similar calls): such a call is a sigsuspend with more to wait for. A handler of the target's may
 * have returned in the microsecond in which ours was sent, and a program that waits this way relies on being woken by
 * it.
 *
 * A signal with a lower number, sent to the thread itself, is delivered first, and its handler is interrupted by ours
 * before its first instruction: then no EINTR is visible here.
 *
 * One case cannot be detected, because the kernel leaves no trace of it: a handler of the target's that returned
 * between the sending and the handling of our signal, in the microsecond of its sigreturn or, if it blocks our signal,
 * while it ran. We then restart any other wait: to the target it is as if its signal had arrived just before the call,
 * which it must expect. The sampler makes this rare: it sends no signal to a thread that is about to run such a
 * handler.
 */

enum eintr_result {
    EINTR_NONE = 0,                       /* no call returned EINTR, or not because of us */
    EINTR_REPAIRED = 1,
    EINTR_UNREPAIRABLE = 2,
};

/* The most CPU time between the sending of our signal and its handler, if it was not blocked: 3 to 5 us; more where a
 * virtual machine's host takes the CPU away, which counts as CPU time: over 100 us in 1 of 200. Taking that for a
 * handler of the target's leaves an EINTR of our making; missing a shorter handler hides one of its own. */
#define DELIVERY_CPU_NS 1000000ULL

static u64 signal_bit_sigsafe(i32 signo)
{
    return 1ULL << (signo - 1);
}

/* Return whether the target has a handler for any of `signals`. Context: signal. */
static u32 is_any_handled_sigsafe(const struct agent *a, u64 signals)
{
    struct kernel_sigaction action;
    i32 signo;
    signals &= ~signal_bit_sigsafe(a->signo);
    for (signo = 1; signals; signo++, signals >>= 1)
        if (signals & 1 && kernel_sigaction_get(signo, &action) == 0 && action.handler > SIGNAL_IGNORE)
            return 1;
    return 0;
}

/* Return whether a signal is pending that a handler of the target's takes as soon as ours returns and `mask` is in
 * force again: it would have ended the wait, too. Context: signal. */
static u32 own_signal_is_due_sigsafe(const struct agent *a, u64 mask)
{
    u64 pending = 0;
    if (permitted_call_sigsafe(a, NR_RT_SIGPENDING, (u64)&pending, 8, 0, 0, 0) < 0)
        return 0;
    return is_any_handled_sigsafe(a, pending & ~mask);
}

/* Return whether the thread has used more CPU time since our signal was sent than its delivery takes. Then our signal
 * was blocked by a handler of the target's, which ended the wait, if the target has such a handler. Context: signal. */
static u32 own_handler_has_run_sigsafe(const struct agent *a, const struct thread_slot *slot, u64 cpu_ns, u64 mask)
{
    return slot && slot->sent_on_cpu && a->blocking_handlers & ~mask && cpu_ns - slot->signal_cpu_ns >= DELIVERY_CPU_NS;
}

static u32 is_recorded_wait_sigsafe(const struct thread_slot *slot, const u64 *gregs)
{
    return slot->wait_sysno >= 0 && gregs[GREG_RIP] == slot->wait_pc && gregs[GREG_RSP] == slot->wait_sp &&
           gregs[GREG_RDI] == slot->wait_args[0] && gregs[GREG_RSI] == slot->wait_args[1] &&
           gregs[GREG_RDX] == slot->wait_args[2] && gregs[GREG_R10] == slot->wait_args[3] &&
           gregs[GREG_R8] == slot->wait_args[4] && gregs[GREG_R9] == slot->wait_args[5];
}

/*
 * Return the milliseconds left of a wait for `timeout_ms`. The wait had begun when our signal was sent, some
 * microseconds before at most, since procfs showed the thread running. A wait may end late, but not early. Context:
 * signal.
 */
static i32 time_left_sigsafe(const struct thread_slot *slot, i32 timeout_ms)
{
    u64 now_ns = now_ns_sigsafe(), sent_ns = load_acquire_u64((const volatile u64 *)&slot->signal_ns);
    u64 waited_ms = now_ns > sent_ns ? (now_ns - sent_ns) / 1000000 : 0;
    return waited_ms < (u64)timeout_ms ? timeout_ms - (i32)waited_ms : 0;
}

/*
 * Subtract the time waited from a timeout, where the registers allow it: in libc's own code, which loads them for each
 * call. Other code may rely on them. Calls with an absolute time need nothing, nor do select, pselect6 and ppoll, where
 * the kernel writes back what is left. Relative times in memory stay as they are, since the memory is the target's: such
 * a wait becomes longer by the time from its beginning to our signal. Context: signal.
 */
static void timeout_shorten_sigsafe(const struct agent *a, const struct thread_slot *slot, i64 nr, u64 *gregs,
                                     u64 mask)
{
    i32 number = timeout_register_sigsafe(nr);
    if (gregs[GREG_RIP] < a->libc_start || gregs[GREG_RIP] >= a->libc_end)
        return;
    if (nr == NR_NANOSLEEP && gregs[GREG_RSI])
        gregs[GREG_RDI] = gregs[GREG_RSI];        /* the kernel has just written the remaining time there */
    else if (nr == NR_CLOCK_NANOSLEEP && !(gregs[GREG_RSI] & 1 /* TIMER_ABSTIME */) && gregs[GREG_R10])
        gregs[GREG_RDX] = gregs[GREG_R10];
    /* A signal that was blocked until the call's mask let it in may have been sent long before the call. */
    else if (number >= 0 && (i32)gregs[number] > 0 && slot && !(mask & signal_bit_sigsafe(a->signo)))
        gregs[number] = (u64)(u32)time_left_sigsafe(slot, (i32)gregs[number]);
}

/*
 * Restart a wait that our signal ended with EINTR. `slot` is 0 if the thread has none, `mask` is the mask that the
 * thread has outside of our handler, `cpu_ns` its CPU clock when the handler began. Sets `nr` to the interrupted call,
 * WAIT_UNKNOWN if it cannot be found, NOT_WAITING if there was none. Context: signal.
 */
static u32 eintr_repair_sigsafe(const struct agent *a, const struct thread_slot *slot, u64 *gregs, u64 mask,
                                u64 cpu_ns, i32 *nr)
{
    u64 at = gregs[GREG_RIP] - 2, during;
    i64 number;
    u32 has_mask, is_not_ours;
    *nr = NOT_WAITING;
    if ((i64)gregs[GREG_RAX] != -ERR_EINTR)
        return EINTR_NONE;
    if (!is_syscall_sigsafe(a, gregs[GREG_RIP], at))
        return is_shut_sigsafe(a) ? EINTR_UNREPAIRABLE : EINTR_NONE;
    if (slot && is_recorded_wait_sigsafe(slot, gregs))
        number = slot->wait_sysno;
    else
        number = sysno_in_code_sigsafe(a, gregs, at);
    if (number >= 0 && !is_plausible_sigsafe(number, gregs))
        number = -1;
    if (own_signal_is_due_sigsafe(a, mask) || own_handler_has_run_sigsafe(a, slot, cpu_ns, mask))
        return EINTR_NONE;
    if (number < 0 || number == NR_PAUSE || number == NR_RT_SIGSUSPEND) {
        *nr = number < 0 ? WAIT_UNKNOWN : (i32)number;
        return EINTR_UNREPAIRABLE;
    }
    has_mask = mask_during_call_sigsafe(a, number, gregs, &during);
    is_not_ours = during & signal_bit_sigsafe(a->signo) || !is_restartable_sigsafe(a, number, gregs);
    if (is_shut_sigsafe(a))               /* the checks above may not have been made */
        return EINTR_UNREPAIRABLE;
    if (is_not_ours)
        return EINTR_NONE;
    *nr = (i32)number;
    if (has_mask && is_any_handled_sigsafe(a, mask & ~during))
        return EINTR_UNREPAIRABLE;
    timeout_shorten_sigsafe(a, slot, number, gregs, mask);
    gregs[GREG_RAX] = (u64)number;
    gregs[GREG_RIP] = at;
    return EINTR_REPAIRED;
}
