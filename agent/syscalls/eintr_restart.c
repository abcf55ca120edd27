/*
 * A thread that began to wait after procfs showed it running takes our signal inside the wait: begin the wait again, so
 * that nobody sees it was ended. Everything here may run in the handler: no libc, no locks, no allocation.
 *
 * What the kernel does (arch/x86/kernel/signal.c, handle_signal): calls that end with ERESTARTSYS or ERESTARTNOINTR are
 * begun again by itself (SA_RESTART): pc is back on the instruction, rax has the number. All others return EINTR: pc is
 * behind the instruction, rax is -EINTR, the number is gone. It is known when the registers are those of the wait that
 * procfs showed last, or from the code. Then rax = number, and pc goes back by the two bytes of `syscall`.
 *
 * Whose EINTR is it? Not ours, and left alone, when
 *   the kernel would have begun the call again after a handler with SA_RESTART          is_restartable_sigsafe
 *   our signal was blocked during the call (the mask of ppoll and its like)             mask_during_call_sigsafe
 *   a signal of the target's own is due: it is delivered when ours returns              own_signal_is_due_sigsafe
 *   a handler of the target's that blocks ours has run meanwhile                        own_handler_has_run_sigsafe
 * It may be anybody's, and is left, too, where the call lets in signals of the target's that the thread blocks
 * otherwise (ppoll and its like with a mask): that is sigsuspend with more to wait for. A handler of the target's may
 * have returned in the microsecond in which ours was sent, and whoever waits so counts on being woken by it, however it
 * falls.
 *
 * A signal of a lower number sent to the thread itself is delivered first, and its handler interrupted by ours before
 * its first instruction: then no EINTR is to be seen here.
 *
 * What nobody can tell, because the kernel leaves no trace of it: a handler of the target's that has returned between
 * our signal's being sent and taken, in the microsecond of its sigreturn or, where it blocks ours, while it ran. Any
 * other wait goes on then: to the target it is as if its signal had come just before, which it must reckon with. The
 * sampler makes this rare: it sends no signal to a thread that such a handler is about to run on.
 */

enum eintr_result {
    EINTR_NONE = 0,                       /* no call was interrupted with EINTR, or not by us */
    EINTR_REPAIRED = 1,
    EINTR_UNREPAIRABLE = 2,
};

/* CPU time between the sending of our signal and its handler, if it was not blocked: 3 to 5 us; more where a virtual
 * machine's host takes the CPU away, which counts as CPU time: over 100 us in 1 of 200. To take that for a handler of
 * the target's is an EINTR of our making; to miss a handler shorter than this, one of its own that comes too early. */
#define DELIVERY_CPU_NS 1000000ULL

static u64 signal_bit_sigsafe(i32 signo)
{
    return 1ULL << (signo - 1);
}

/* Has the target a handler for any of `signals`? Context: signal. */
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

/* Is a signal pending that a handler of the target's will take as soon as ours returns and `mask` is back in force? It
 * would have ended the wait, too. Context: signal. */
static u32 own_signal_is_due_sigsafe(const struct agent *a, u64 mask)
{
    u64 pending = 0;
    if (permitted_call_sigsafe(a, NR_RT_SIGPENDING, (u64)&pending, 8, 0, 0, 0) < 0)
        return 0;
    return is_any_handled_sigsafe(a, pending & ~mask);
}

/* Has the thread used more CPU time since our signal was sent than it takes to deliver it? Then it was blocked: by a
 * handler of the target's, which ended the wait, if there is one that can have done so. Context: signal. */
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
 * Milliseconds left of a wait for `timeout_ms`. When our signal was sent the wait had begun already; how long before is
 * not known: since procfs showed the thread running, some microseconds. A wait may end late, but not early.
 * Context: signal.
 */
static i32 time_left_sigsafe(const struct thread_slot *slot, i32 timeout_ms)
{
    u64 now_ns = now_ns_sigsafe(), sent_ns = load_acquire_u64((const volatile u64 *)&slot->signal_ns);
    u64 waited_ms = now_ns > sent_ns ? (now_ns - sent_ns) / 1000000 : 0;
    return waited_ms < (u64)timeout_ms ? timeout_ms - (i32)waited_ms : 0;
}

/*
 * Take off what has been waited, where the registers allow it: in libc's own code, which loads them for each call.
 * Code of others may count on finding them as they were. Calls with an absolute time, and select, pselect6 and ppoll,
 * where the kernel writes back what is left, need nothing. The rest (relative times in memory that is not ours to
 * change) wait longer by the time from the beginning of the wait to our signal. Context: signal.
 */
static void timeout_shorten_sigsafe(const struct agent *a, const struct thread_slot *slot, i64 nr, u64 *gregs,
                                     u64 mask)
{
    i32 number = timeout_register_sigsafe(nr);
    if (gregs[GREG_RIP] < a->libc_start || gregs[GREG_RIP] >= a->libc_end)
        return;
    if (nr == NR_NANOSLEEP && gregs[GREG_RSI])
        gregs[GREG_RDI] = gregs[GREG_RSI];        /* the kernel has just written there what is left */
    else if (nr == NR_CLOCK_NANOSLEEP && !(gregs[GREG_RSI] & 1 /* TIMER_ABSTIME */) && gregs[GREG_R10])
        gregs[GREG_RDX] = gregs[GREG_R10];
    /* A signal that was blocked until the call, and let in by its mask, was sent long before it began. */
    else if (number >= 0 && (i32)gregs[number] > 0 && slot && !(mask & signal_bit_sigsafe(a->signo)))
        gregs[number] = (u64)(u32)time_left_sigsafe(slot, (i32)gregs[number]);
}

/*
 * If our signal ended a wait with EINTR, begin it again. `slot` is 0 when the thread has none, `mask` is what the
 * thread blocks outside our handler, `cpu_ns` its CPU clock when the handler began. Sets `nr` to the call that was
 * interrupted, WAIT_UNKNOWN if that cannot be told, NOT_WAITING if there was none. Context: signal.
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
    if (is_shut_sigsafe(a))               /* what was asked above may not have been answered */
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
