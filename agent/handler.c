/*
 * What runs on the target's own threads: the signal handler. It walks the stack of the thread it interrupts into that
 * thread's slot and answers. It takes no lock, calls no libc, touches no thread-local storage, leaves errno alone (raw
 * system calls have none) and keeps its stack small, since it may run on an alternate stack of a few kilobytes.
 */

/* Are there two readable bytes of code at `runtime_addr`, and are they a syscall instruction? Context: signal. */
static u32 is_syscall_sigsafe(const struct agent *a, u64 runtime_addr)
{
    const struct code_range *range = code_range_sigsafe(a->map, runtime_addr);
    const u8 *code = (const u8 *)runtime_addr;
    return range && runtime_addr + 2 <= range->end && code[0] == 0x0f && code[1] == 0x05;
}

/*
 * Is the thread in the middle of fork, vfork or clone? Signals that come faster than a big process forks would make the
 * kernel start the call again and again: it has put pc back on the instruction and the number into rax.
 * Context: signal.
 */
static u32 is_fork_sigsafe(const struct agent *a, const u64 *gregs)
{
    u64 nr = gregs[GREG_RAX];
    return (nr == NR_FORK || nr == NR_VFORK || nr == NR_CLONE || nr == NR_CLONE3) &&
           is_syscall_sigsafe(a, gregs[GREG_RIP]);
}

/* Waits that can be started again with the same arguments. Not among them: calls that exist to be interrupted (pause,
 * sigsuspend, sigtimedwait), and those that are half done when they return EINTR (close, connect). Context: signal. */
static u32 is_restartable_sigsafe(i64 nr)
{
    switch (nr) {
    case 0: case 7: case 23: case 35: case 43: case 45: case 47: case 65: case 69: case 70: case 202: case 208: case 220:
    case 230: case 232: case 270: case 271: case 281: case 288: case 299: case 441:
        /* read poll select nanosleep accept recvfrom recvmsg semop msgsnd msgrcv futex io_getevents semtimedop
         * clock_nanosleep epoll_wait pselect6 ppoll epoll_pwait accept4 recvmmsg epoll_pwait2 */
        return 1;
    default:
        return 0;
    }
}

/* Waits that use no CPU time to speak of: what was used came before. Context: signal. */
static u32 is_sleep_sigsafe(i64 nr)
{
    return nr == 35 || nr == 230 || nr == NR_FUTEX || nr == 7 || nr == 23 || nr == 270 || nr == 271;
    /* nanosleep clock_nanosleep futex poll select pselect6 ppoll */
}

static u32 is_recorded_wait_sigsafe(const struct thread_slot *slot, const u64 *gregs)
{
    return gregs[GREG_RIP] == slot->wait_pc && gregs[GREG_RSP] == slot->wait_sp && gregs[GREG_RDI] == slot->wait_args[0] &&
           gregs[GREG_RSI] == slot->wait_args[1] && gregs[GREG_RDX] == slot->wait_args[2] &&
           gregs[GREG_R10] == slot->wait_args[3] && gregs[GREG_R8] == slot->wait_args[4] &&
           gregs[GREG_R9] == slot->wait_args[5];
}

/*
 * The number of the call whose syscall instruction is at `at`, told from the code before it; -1 when that is not one of
 * the shapes in which glibc 2.31 to 2.41 makes its waits:
 *     mov $NR,%eax  |  xor %eax,%eax (read)
 *     and in between, where the call can be cancelled, one or two arguments that come back from the stack:
 *     mov n(%rsp),%edi (epoll_pwait, pselect, recvmmsg, msgrcv)  |  mov n(%rsp),%rdx; mov n(%rsp),%rsi (recvfrom)
 * Context: signal.
 */
static i64 sysno_in_code_sigsafe(const struct agent *a, u64 at)
{
    const u8 *code = (const u8 *)at, *number;
    const struct code_range *range = code_range_sigsafe(a->map, at);
    if (!range || at - range->start < 15)
        return -1;
    if (code[-2] == 0x31 && code[-1] == 0xc0)
        return 0;
    number = code - 4;
    if (code[-5] != 0xb8 && code[-4] == 0x8b && code[-3] == 0x7c && code[-2] == 0x24)
        number = code - 8;
    else if (code[-5] == 0x48 && code[-4] == 0x8b && code[-3] == 0x74 && code[-2] == 0x24 && code[-10] == 0x48 &&
             code[-9] == 0x8b && code[-8] == 0x54 && code[-7] == 0x24)
        number = code - 14;
    if (number[-1] != 0xb8)
        return -1;
    return (i64)(number[0] | (u32)number[1] << 8 | (u32)number[2] << 16 | (u32)number[3] << 24);
}

/*
 * A thread that began to wait after procfs showed it running takes our signal inside the wait: find out which wait
 * that is, and start it again. The kernel itself restarts some (SA_RESTART): pc is back on the instruction and rax has
 * the number. Most return EINTR all the same (signal(7)), with the number gone from rax; it is known when the
 * registers are those of the wait that procfs showed last, or from the code. Then rax = NR, and pc goes back by the
 * two bytes of `syscall`. A wait that had ended by itself is told, too. Sets waited_in, woken and eintr of the slot.
 * Context: signal.
 */
static void restart_wait_sigsafe(const struct agent *a, struct thread_slot *slot, u64 *gregs)
{
    u64 at = gregs[GREG_RIP] - 2;
    i64 nr;
    slot->eintr = 0;
    slot->woken = 0;
    slot->waited_in = NOT_WAITING;
    if (gregs[GREG_RAX] < 1024 && is_syscall_sigsafe(a, gregs[GREG_RIP])) {
        slot->waited_in = (i32)gregs[GREG_RAX];
        return;
    }
    if ((i64)gregs[GREG_RAX] != -ERR_EINTR) {
        slot->woken = slot->sent_off_cpu && is_syscall_sigsafe(a, at) && is_sleep_sigsafe(sysno_in_code_sigsafe(a, at));
        return;
    }
    if (!is_syscall_sigsafe(a, at))
        return;
    if (slot->wait_sysno >= 0 && is_recorded_wait_sigsafe(slot, gregs))
        nr = slot->wait_sysno;
    else
        nr = sysno_in_code_sigsafe(a, at);
    slot->waited_in = nr >= 0 ? (i32)nr : WAIT_UNKNOWN;
    if (!is_restartable_sigsafe(nr)) {
        slot->eintr = 2;
        return;
    }
    gregs[GREG_RAX] = (u64)nr;
    gregs[GREG_RIP] = at;
    slot->eintr = 1;
}

/* Not sent by us: do what the target would have done. Context: signal. */
static void chain_sigsafe(const struct agent *a, i32 signo, void *info, void *context)
{
    u64 handler = a->old_action.handler;
    if (handler == SIGNAL_DEFAULT || handler == SIGNAL_IGNORE)
        return;
    if (a->old_action.flags & FLAG_SIGINFO)
        ((void (*)(i32, void *, void *))handler)(signo, info, context);
    else
        ((void (*)(i32))handler)(signo);
}

/* The handler. Context: signal; all signals blocked; may not: allocate, lock, call libc, use thread-local storage. */
static void handle_signal_sigsafe(i32 signo, void *info, void *context)
{
    u64 started = read_tsc_sigsafe();
    struct agent *a = agent_cell;
    u64 *gregs = (u64 *)((u8 *)context + UCONTEXT_GREGS);
    struct thread_slot *slot;
    u64 distance;

    if (!a)
        return;
    slot = *(struct thread_slot **)((u8 *)info + SIGINFO_VALUE);
    distance = (u64)slot - (u64)a->slots;
    if (*(i32 *)((u8 *)info + SIGINFO_CODE) != SIGINFO_CODE_QUEUE || *(u32 *)((u8 *)info + SIGINFO_PID) != a->pid ||
        (u64)slot < (u64)a->slots || distance % sizeof *slot || distance / sizeof *slot >= MAX_THREADS) {
        chain_sigsafe(a, signo, info, context);
        return;
    }
    if (load_acquire_u32(&slot->signal_state) != SIGNAL_SENT)
        return;
    store_release_u32(&slot->signal_state, SIGNAL_HANDLING);
    slot->sp_seen = gregs[GREG_RSP];
    slot->alternate_start = *(u64 *)((u8 *)context + UCONTEXT_STACK_START);
    slot->alternate_bytes = *(u64 *)((u8 *)context + UCONTEXT_STACK_BYTES);
    slot->near_fork = is_fork_sigsafe(a, gregs);
    if (slot->near_fork) {
        slot->verdict = VERDICT_RETRY;
        slot->frame_count = 0;
        slot->fault_pc = 0;
        slot->eintr = 0;
    } else {
        take_stack_sigsafe(a, slot, gregs);
        restart_wait_sigsafe(a, slot, gregs);
    }
    slot->handler_tsc = read_tsc_sigsafe() - started;
    store_release_u32(&slot->signal_state, SIGNAL_ANSWERED);
}
