/*
 * The disposition of our signal: choose the signal, install our handler, notice a handler that the target installs,
 * restore the target's disposition. Sampler thread only.
 *
 * The kernel gets the address of a gate, a few instructions in a page of their own that jump to the handler. A target
 * that installs its own handler after the attach gets the gate's address as the old one, and may call it or restore it
 * long after the detach. The gate then stays mapped, closed, and returns at once.
 */

#define GATE_BYTES 8192                   /* a page of code, and one with the address that it jumps to */
#define GATE_CODE_BYTES 4096
#define GATE_RESTORER 64                  /* where the restorer lies in the code */
#define FLAG_RESTORER 0x04000000ULL       /* sigaction(2) */
#define TAKEOVERS_MAX 16
#define DISPOSITIONS_INTERVAL_NS 250000000ULL
#define DISPOSITIONS_SOON_NS 1000000ULL   /* before a thread's first signal */

/* Return whether the main thread blocks this signal. Then its threads probably do, too (PostgreSQL reads SIGURG from a
 * signalfd). */
static u32 signal_is_blocked(struct agent *a, i32 signo)
{
    a->signo = signo;
    return thread_blocks_signal(a, a->pid);
}

/*
 * Choose the signal. Its default action must be to ignore it, so that a late one does no harm, even after exec or when
 * a thread unblocks it after the detach (a real-time signal would kill). SIGURG or SIGWINCH, whichever has no handler
 * and is not blocked; if both are blocked, whichever has no handler, since that one may be let in (admission.c);
 * if both have one, SIGWINCH, passing on signals that are not ours: Go handles all signals, and often sends itself
 * SIGURG.
 */
static void signal_choose(struct agent *a)
{
    static const i32 candidates[2] = {SIGNO_URG, SIGNO_WINCH};
    struct kernel_sigaction action;
    u32 i, blocked = 0;
    kernel_sigaction_get(SIGNO_URG, &action);
    a->alternate_is_for_ours = action.handler > SIGNAL_IGNORE && (action.flags & FLAG_ONSTACK) != 0;
    for (i = 0; i < 2; i++) {
        u32 is_blocked = signal_is_blocked(a, candidates[i]);
        blocked += is_blocked;
        if (kernel_sigaction_get(candidates[i], &a->old_actions[0]) == 0 && a->old_actions[0].handler <= SIGNAL_IGNORE &&
            !is_blocked)
            return;
    }
    for (i = 0; i < 2 && blocked == 2; i++) {
        a->signo = candidates[i];
        if (kernel_sigaction_get(candidates[i], &a->old_actions[0]) == 0 && a->old_actions[0].handler <= SIGNAL_IGNORE)
            return;
    }
    a->signo = SIGNO_WINCH;
    kernel_sigaction_get(SIGNO_WINCH, &a->old_actions[0]);
}

/* mov target(%rip),%rax; test %rax,%rax; je 1f; jmp *%rax; 1: ret. Keeps the argument registers. */
static const u8 gate_code[15] = {0x48, 0x8b, 0x05, 0xf9, 0x0f, 0, 0, 0x48, 0x85, 0xc0, 0x74, 0x02, 0xff, 0xe0, 0xc3};
/* What a handler returns to: mov $15,%rax; syscall (rt_sigreturn), as debuggers know it. A thread has the handler's mask
 * until then, which drain.c waits for, and where the gate stays, so does this. */
static const u8 gate_restorer[9] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};

/* Take the pages into which the host has written the code, or make some. */
static u32 gate_new(struct agent *a)
{
    u8 *gate = (u8 *)BOOT->gate;
    if (gate) {
        BOOT->gate = 0;
        *(u64 *)(gate + GATE_CODE_BYTES) = (u64)handle_signal_sigsafe;
        a->gate = gate;
        return 1;
    }
    gate = pages_new(GATE_BYTES);
    if (!gate)
        return 0;
    bytes_copy(gate, gate_code, sizeof gate_code);
    bytes_copy(gate + GATE_RESTORER, gate_restorer, sizeof gate_restorer);
    *(u64 *)(gate + GATE_CODE_BYTES) = (u64)handle_signal_sigsafe;
    if (sys_call3(NR_MPROTECT, (u64)gate, GATE_CODE_BYTES, 5 /* PROT_READ|PROT_EXEC */) < 0) {
        pages_free(gate, GATE_BYTES);
        return 0;
    }
    a->gate = gate;
    return 1;
}

/*
 * Read the current dispositions of all other signals:
 *   blocking   target handlers that block our signal while they run: an EINTR of theirs must not be taken for ours
 *              (eintr_restart.c)
 *   ignored    signals without a handler that do nothing, above all SIGCHLD. Our handler must not block these: the
 *              kernel drops an ignored signal only where it is not blocked; otherwise it wakes another thread to take
 *              it, whose epoll_wait then fails with EINTR (kernel/signal.c, sig_ignored and complete_signal).
 *   alternate  handlers that run on alternate stacks (alternate_stack.c)
 *   plain      handlers that do not
 */
static void dispositions_read(struct agent *a)
{
    const u64 ignored_by_default = 1ULL << 16 | 1ULL << 17 | 1ULL << 22 | 1ULL << 27; /* CHLD CONT URG WINCH */
    struct kernel_sigaction action;
    u64 blocking = 0, ignored = 0, alternate = 0, plain = 0, brief = SELDOM_SIGNALS;
    i32 signo;
    for (signo = 1; signo <= 64; signo++) {
        u64 bit = 1ULL << (signo - 1);
        if (signo == a->signo || kernel_sigaction_get(signo, &action) < 0)
            continue;
        if (action.handler > SIGNAL_IGNORE && action.mask >> (a->signo - 1) & 1)
            blocking |= bit;
        if (action.handler > SIGNAL_IGNORE && action.flags & FLAG_ONSTACK)
            alternate |= bit;
        else if (action.handler > SIGNAL_IGNORE)
            plain |= bit;
        if (is_interpreters_code(a, action.handler))
            brief |= bit;
        if (action.handler == SIGNAL_IGNORE || (action.handler == SIGNAL_DEFAULT && bit & ignored_by_default))
            ignored |= bit;
    }
    a->blocking_handlers = blocking;
    a->alternate_handlers = alternate & ~FATAL_SIGNALS & ~SIGNALS_OF_LIBC;
    a->frequent_handlers = a->alternate_handlers & ~brief;
    a->handlers_are_plain = (plain & ~FATAL_SIGNALS & ~SIGNALS_OF_LIBC) != 0;
    a->handler_mask = ~ignored;
    a->handler_mask_least &= ~ignored;
}

static u64 handler_flags(const struct agent *a)
{
    return FLAG_SIGINFO | FLAG_RESTART | (a->on_alternate_stack ? FLAG_ONSTACK : 0);
}

static struct kernel_sigaction own_action(const struct agent *a)
{
    struct kernel_sigaction action = {(u64)a->gate, handler_flags(a) | FLAG_RESTORER, (u64)a->gate + GATE_RESTORER,
                                      a->handler_mask};
    return action;
}

/* 0, or an errno. */
static i32 signal_install(struct agent *a)
{
    struct kernel_sigaction action;
    i64 failed;
    if (!gate_new(a))
        return 12;                        /* ENOMEM */
    a->handler_mask_least = ~0ULL;
    dispositions_read(a);
    a->on_alternate_stack = alternate_is_wanted(a);
    action = own_action(a);
    failed = kernel_sigaction_set(a->signo, &action);
    if (failed) {
        pages_free(a->gate, GATE_BYTES);
        a->gate = (u8 *)0;
    }
    return (i32)-failed;
}

/* Return whether our handler is still installed. Checked in each round before a signal is sent; one system call of 0.2
 * us. */
static u32 signal_is_ours(struct agent *a)
{
    struct kernel_sigaction now;
    u32 is_ours = kernel_sigaction_get(a->signo, &now) == 0 && now.handler == (u64)a->gate;
    a->was_replaced |= !is_ours;
    return is_ours;
}

/*
 * Install our handler over one that the target has installed since: a Go program that was held at its start installs its
 * own afterwards. Theirs gets the signals that are not ours. A target that does so again and again keeps its own. Returns
 * whether ours is installed.
 */
static u32 signal_take_over(struct agent *a)
{
    u32 next = 1 - a->old_action_at, i;
    struct kernel_sigaction *theirs = &a->old_actions[next], ours;
    if (a->takeovers >= TAKEOVERS_MAX || kernel_sigaction_get(a->signo, theirs) < 0 || theirs->handler == (u64)a->gate)
        return 0;
    a->takeovers++;
    store_release_u32(&a->old_action_at, next);
    if (theirs->handler > SIGNAL_IGNORE && theirs->flags & FLAG_ONSTACK) {
        /* Threads that had no alternate stack have got one for it: what is known of their stacks is old. */
        a->alternate_is_for_ours = 1;
        a->has_strays = 0;
        for (i = 0; i < a->slot_count; i++)
            if (!a->slots[i].alternate_bytes) {
                a->slots[i].alternate_is_known = 0;
                a->slots[i].room = ROOM_UNKNOWN;
            }
    }
    if (theirs->handler > SIGNAL_IGNORE) {
        a->host_lends_clocks = 0;         /* perf_clocks.c: not where the target has a handler */
        for (i = 0; i < a->slot_count; i++)
            clock_close(a, &a->slots[i]);
    }
    dispositions_read(a);
    a->on_alternate_stack = alternate_is_wanted(a);
    ours = own_action(a);
    return kernel_sigaction_set(a->signo, &ours) == 0;
}

/* Read the target's other dispositions again if they are older than `interval_ns`, and adapt our handler's flags. */
static void dispositions_keep(struct agent *a, u64 now_ns, u64 interval_ns)
{
    struct kernel_sigaction now;
    u32 i, is_busy = 0;
    if (now_ns - a->dispositions_read_ns < interval_ns)
        return;
    a->dispositions_read_ns = now_ns;
    dispositions_read(a);
    if (kernel_sigaction_get(a->signo, &now) < 0 || now.handler != (u64)a->gate)
        return;
    if (a->on_alternate_stack != alternate_is_wanted(a)) {
        for (i = 0; i < a->slot_count; i++)
            if (signal_is_under_way(&a->slots[i]) || a->slots[i].timer_may_be_set)
                is_busy = 1;
        cpu_timers_stop(a);               /* each is started again if the other stack has room */
        if (is_busy) {
            a->dispositions_read_ns = 0;  /* signals on their way are for the stack of the old flag */
            a->signals_from_ns = now_ns + 1;      /* send no further signal in this round */
            return;
        }
        a->on_alternate_stack = alternate_is_wanted(a);
    }
    if (now.mask == a->handler_mask && !(now.flags & FLAG_ONSTACK) == !a->on_alternate_stack)
        return;
    now.mask = a->handler_mask;
    now.flags = (now.flags & ~FLAG_ONSTACK) | (a->on_alternate_stack ? FLAG_ONSTACK : 0);
    kernel_sigaction_set(a->signo, &now);
}

/* Restore the target's disposition if ours is still installed. The kernel drops a pending signal that is then
 * ignored. */
static void signal_restore(struct agent *a)
{
    if (a->gate && signal_is_ours(a))
        kernel_sigaction_set(a->signo, old_action_sigsafe(a));
}

/* Close the gate. No handler can be running any more. */
static void gate_close(struct agent *a)
{
    if (!a->gate)
        return;
    *(volatile u64 *)(a->gate + GATE_CODE_BYTES) = 0;
    if (!a->was_replaced)
        pages_free(a->gate, GATE_BYTES);
    a->gate = (u8 *)0;
}
