/*
 * The signal handler, which runs on the target's own threads. It unwinds the stack of the interrupted thread into that
 * thread's slot. It takes no lock, calls no libc, touches no thread-local storage, does not change errno (raw system
 * calls do not set it) and uses little stack, since it may run on an alternate stack of a few kilobytes.
 *
 * A child of fork inherits the disposition, `struct agent` and this code, and nothing else of ours (agent_pages). In a
 * child, no signal is ours, and the first one restores the disposition.
 */

#define IGNORED_REPAIRS_MAX 8             /* restarts in a row at one place: the wait lasts at most that many times
                                           * as long */

/*
 * Return whether the thread is in fork, vfork or clone. Signals that arrive faster than a big process forks would make
 * the kernel restart the call each time: pc is back on the instruction, and rax holds the number. Context: signal.
 */
static u32 is_fork_sigsafe(const struct agent *a, const u64 *gregs)
{
    u64 nr = gregs[GREG_RAX];
    return (nr == NR_FORK || nr == NR_VFORK || nr == NR_CLONE || nr == NR_CLONE3) &&
           is_syscall_sigsafe(a, gregs[GREG_RIP], gregs[GREG_RIP]);
}

/*
 * Find which wait the signal met: one that it interrupted and that the kernel restarts, one that had just ended, or
 * none. Sets waited_in and woken of the slot. After a syscall instruction, rcx holds the address where it returns
 * (Intel SDM volume 2, SYSCALL). Nearly everywhere else it does not, so the code need not be read. Context: signal.
 */
static void describe_wait_sigsafe(const struct agent *a, struct thread_slot *slot, const u64 *gregs)
{
    u64 pc = gregs[GREG_RIP];
    if (gregs[GREG_RCX] == pc + 2 && gregs[GREG_RAX] < SYSCALL_NUMBERS && is_syscall_sigsafe(a, pc, pc))
        slot->waited_in = (i32)gregs[GREG_RAX];   /* the kernel restarts it */
    if (gregs[GREG_RCX] == pc && slot->sent_off_cpu && is_syscall_sigsafe(a, pc, pc - 2))
        slot->woken = is_sleep_sigsafe(sysno_in_code_sigsafe(a, gregs, pc - 2));
}

static void count_repair_sigsafe(struct thread_slot *slot, u32 result)
{
    slot->eintr_repaired += result == EINTR_REPAIRED;
    slot->eintr_unrepairable += result == EINTR_UNREPAIRABLE;
}

/* Context: signal. */
static void answer_stack_sigsafe(struct agent *a, struct thread_slot *slot, const u64 *gregs)
{
    struct unwinder u;
    stack_begin_sigsafe(a, slot, gregs, slot->frames, &u);
    slot->managed_verdict = stack_take_sigsafe(&u, slot->managed, u.thread_pointer, 0, gregs);
    slot->marks = (slot->managed ? slot->managed->marks : 0) | held_lock_sigsafe(a, slot) << HELD_LOCK_SHIFT;
    slot->thread_pointer_seen = u.thread_pointer;
    slot->frame_count = u.frame_count;
    slot->verdict = u.verdict;
    slot->fault_pc = u.fault_pc;
}

/* Answer the sampler's signal: take the stack, find the wait, restart an interrupted call. `is_crowded`: there is no room
 * for that. Context: signal. */
static void answer_sigsafe(struct agent *a, struct thread_slot *slot, u64 *gregs, u64 mask, u32 is_crowded)
{
    u32 is_skipped = is_crowded || is_shut_sigsafe(a);
    slot->signals_crowded += is_crowded;
    slot->near_fork = !is_skipped && is_fork_sigsafe(a, gregs);
    slot->woken = 0;
    slot->waited_in = NOT_WAITING;
    if (slot->near_fork || is_skipped) {
        slot->verdict = VERDICT_RETRY;
        slot->frame_count = 0;
        slot->fault_pc = 0;
        slot->eintr_unrepairable += is_skipped && (i64)gregs[GREG_RAX] == -ERR_EINTR;
        return;
    }
    if ((i64)gregs[GREG_RAX] == -ERR_EINTR) {
        u64 cpu_ns = (u64)clock_ns_sigsafe(THREAD_CPU_CLOCK_OWN);
        answer_stack_sigsafe(a, slot, gregs);
        count_repair_sigsafe(slot, eintr_repair_sigsafe(a, slot, gregs, mask, cpu_ns, &slot->waited_in));
    } else {
        answer_stack_sigsafe(a, slot, gregs);
        describe_wait_sigsafe(a, slot, gregs);
    }
}

#define TOOK_LONG_NS 100000ULL            /* a handler takes longer only with thousands of frames */

/*
 * Return the CPU time of a handler that took so long that it may have waited for a CPU, else 0. A thread whose time
 * slice is over loses its CPU at the end of the system call that reads its CPU clock; that wait is not our cost.
 * Context: signal.
 */
static u64 computed_ns_sigsafe(const struct agent *a, const struct sample *sample)
{
    if (sample->took_tsc * a->ns_per_tsc_20 >> 20 < TOOK_LONG_NS || is_shut_sigsafe(a))
        return 0;
    return (u64)clock_ns_sigsafe(THREAD_CPU_CLOCK_OWN) - sample->cpu_ns;
}

/* Take no sample of a thread whose alternate stack has no room for that now: the sampler sets its timer again. The CPU
 * time goes to the next sample. Context: signal. */
static void timer_pass_over_sigsafe(struct agent *a, struct thread_slot *slot, const u64 *gregs)
{
    if (load_acquire_u32(&slot->timer_is_set)) {
        store_release_u32(&slot->timer_is_set, 0);
        clock_want_sigsafe(a, slot, 0);
        slot->signals_crowded++;
    }
    slot->eintr_unrepairable += (i64)gregs[GREG_RAX] == -ERR_EINTR;
}

/*
 * Handle an expired timer: set it again, and put one sample into the thread's ring. If the ring is full, the CPU time
 * goes to the next sample. An EINTR here is not ours (cpu_timers.c). Context: signal.
 */
static void timer_sample_sigsafe(struct agent *a, struct thread_slot *slot, const u64 *gregs, const u8 *context, u64 started)
{
    struct sample *sample = sample_begin_sigsafe(slot);
    struct unwinder u;
    stack_begin_sigsafe(a, slot, gregs, sample ? sample->frames : slot->frames, &u);
    if (!room_lasts_sigsafe(a, slot, &u, gregs[GREG_RSP])) {
        store_release_u32(&slot->timer_is_set, 0);
        clock_want_sigsafe(a, slot, 0);
    } else if (cpu_timer_set_next_sigsafe(a, slot) == -ERR_EACCES)
        return;                           /* a seccomp filter was installed */
    if (!sample) {
        slot->samples_missed++;
        return;
    }
    sample->cpu_ns = (u64)clock_ns_sigsafe(THREAD_CPU_CLOCK_OWN);
    sample->managed_verdict = (u8)stack_take_sigsafe(&u, slot->managed, u.thread_pointer, 0, gregs);
    sample->marks = slot->managed ? (u8)slot->managed->marks : 0;
    sample->held_lock = held_lock_sigsafe(a, slot);
    sample->verdict = (u16)u.verdict;
    sample->frame_count = u.frame_count;
    sample->began_tsc = started;
    sample->fault_pc = u.fault_pc;
    sample->sp = gregs[GREG_RSP];
    sample->thread_pointer = u.thread_pointer;
    sample->alternate_start = *(const u64 *)(context + UCONTEXT_STACK_START);
    sample->alternate_bytes = *(const u64 *)(context + UCONTEXT_STACK_BYTES);
    sample->took_tsc = read_tsc_sigsafe() - started;
    sample->took_cpu_ns = computed_ns_sigsafe(a, sample);
    sample_end_sigsafe(slot, sample);
}

/*
 * Restart io_uring_enter, the only call that does task work while it waits (io_uring.c, io_run_task_work): our timer's
 * signal is raised there and ends the wait. Context: signal.
 */
static void uring_wait_repair_sigsafe(struct agent *a, struct thread_slot *slot, u64 *gregs, u64 mask)
{
    u64 at = gregs[GREG_RIP] - 2;
    i64 number;
    i32 nr;
    if ((i64)gregs[GREG_RAX] != -ERR_EINTR || !is_syscall_sigsafe(a, gregs[GREG_RIP], at))
        return;
    number = is_recorded_wait_sigsafe(slot, gregs) ? slot->wait_sysno : sysno_in_code_sigsafe(a, gregs, at);
    if (number != NR_IO_URING_ENTER)
        return;
    slot->sent_on_cpu = 0;                /* the time of sending is unknown */
    count_repair_sigsafe(slot, eintr_repair_sigsafe(a, slot, gregs, mask, 0, &nr));
}

/* Handle the timer's signal. It may arrive late, when samples of this thread are no longer wanted. Context: signal. */
static void handle_timer_sigsafe(struct agent *a, struct thread_slot *slot, u64 *gregs, const u8 *context, u64 started)
{
    store_release_u32(&slot->is_taking, 1);
    if (load_acquire_u32(&slot->timer_is_set))
        timer_sample_sigsafe(a, slot, gregs, context, started);
    uring_wait_repair_sigsafe(a, slot, gregs, *(const u64 *)(context + UCONTEXT_SIGMASK));
    store_release_u32(&slot->is_taking, 0);
}

/* Handle the signal of the thread's precise clock. It may arrive in a system call and end a wait, and after the clock was
 * given up. Context: signal. */
static void handle_clock_sigsafe(struct agent *a, struct thread_slot *slot, u64 *gregs, const u8 *context, u64 started)
{
    i32 nr;
    store_release_u32(&slot->is_taking, 1);
    if (load_acquire_u32(&slot->timer_is_set) && load_acquire_u32(&slot->has_clock) && !is_shut_sigsafe(a))
        timer_sample_sigsafe(a, slot, gregs, context, started);
    slot->sent_on_cpu = 0;                /* it was raised while the thread ran, which has not waited since */
    slot->signal_ns = SENT_JUST_NOW;
    count_repair_sigsafe(slot, eintr_repair_sigsafe(a, slot, gregs, *(const u64 *)(context + UCONTEXT_SIGMASK), 0, &nr));
    store_release_u32(&slot->is_taking, 0);
}

/* Return the slot that our signal carries; 0 if the signal is not ours. A timer's signal that points to a slot is ours:
 * a child of fork has no timers. Context: signal. */
static struct thread_slot *slot_of_signal_sigsafe(const struct agent *a, const void *info)
{
    struct thread_slot *slot = *(struct thread_slot *const *)((const u8 *)info + SIGINFO_VALUE);
    u64 distance = (u64)slot - (u64)a->slots;
    i32 code = *(const i32 *)((const u8 *)info + SIGINFO_CODE);
    u32 is_sent = code == SIGINFO_CODE_QUEUE && *(const u32 *)((const u8 *)info + SIGINFO_PID) == a->pid;
    if ((!is_sent && code != SIGINFO_CODE_TIMER) || (u64)slot < (u64)a->slots || distance % sizeof *slot ||
        distance / sizeof *slot >= MAX_THREADS)
        return (struct thread_slot *)0;
    return slot;
}

/* Return the slot of the running thread; 0 if it has none. Context: signal; not in a child of fork. */
static struct thread_slot *slot_of_thread_sigsafe(const struct agent *a)
{
    u32 tid = (u32)sys_call3(NR_GETTID, 0, 0, 0), i;
    for (i = 0; i < a->slot_count; i++)
        if (a->slots[i].tid == tid)
            return &a->slots[i];
    return (struct thread_slot *)0;
}

/* Return the slot of the running thread if the signal may be that of its clock, also one that was given up just now;
 * else 0. A child of fork has none. Context: signal. */
static struct thread_slot *slot_of_clock_sigsafe(const struct agent *a, const void *info)
{
    struct thread_slot *slot;
    if (*(const i32 *)((const u8 *)info + SIGINFO_CODE) != SIGINFO_CODE_KERNEL || !a->had_clocks ||
        (u32)sys_call3(NR_GETPID, 0, 0, 0) != a->pid)
        return (struct thread_slot *)0;
    slot = slot_of_thread_sigsafe(a);
    return slot && load_acquire_u32(&slot->had_clock) ? slot : (struct thread_slot *)0;
}

/* In a child of fork, restore the target's disposition, so that no further signal calls us. Context: signal. */
static void disposition_return_sigsafe(const struct agent *a, i32 signo)
{
    struct kernel_sigaction now;
    if (kernel_sigaction_get(signo, &now) == 0 && now.handler == (u64)a->gate)
        kernel_sigaction_set(signo, old_action_sigsafe(a));
}

/*
 * Restart a wait that a signal ignored by the target has ended: without us the signal would not have ended it. The
 * start of the wait is unknown, so signals that arrive faster than it times out would extend it for ever. It is
 * restarted only IGNORED_REPAIRS_MAX times, and never where that might lose a signal of the target's own
 * (eintr_restart.c). Context: signal.
 */
static void ignored_signal_sigsafe(const struct agent *a, struct thread_slot *slot, u64 *gregs, u64 mask, u32 is_crowded)
{
    i32 nr;
    u32 result;
    if ((i64)gregs[GREG_RAX] != -ERR_EINTR)
        return;
    if (is_crowded || (slot && slot->ignored_pc == gregs[GREG_RIP] && slot->ignored_repairs >= IGNORED_REPAIRS_MAX)) {
        if (!slot)
            return;
        slot->ignored_pc = 0;
        slot->eintr_unrepairable++;
        return;
    }
    result = eintr_repair_sigsafe(a, (struct thread_slot *)0, gregs, mask, 0, &nr);
    if (slot) {
        u64 pc = gregs[GREG_RIP] + (result == EINTR_REPAIRED ? 2 : 0);
        slot->ignored_repairs = slot->ignored_pc == pc ? slot->ignored_repairs + 1 : 1;
        slot->ignored_pc = pc;
        count_repair_sigsafe(slot, result);
    }
}

/*
 * Handle a signal that is not ours: do what the target would have done. A signal without its siginfo (si_code SI_USER,
 * pid 0) is what the kernel delivers for ours at the limit of queued signals (RLIMIT_SIGPENDING). Returns the slot that
 * such a signal is for. Context: signal.
 */
static struct thread_slot *foreign_signal_sigsafe(struct agent *a, i32 signo, void *info, void *context, u64 mask,
                                                  u32 is_crowded)
{
    u32 is_child = (u32)sys_call3(NR_GETPID, 0, 0, 0) != a->pid;
    struct thread_slot *slot = is_child ? (struct thread_slot *)0 : slot_of_thread_sigsafe(a);
    const struct kernel_sigaction *old = old_action_sigsafe(a);
    u64 handler = old->handler;
    if (*(i32 *)((u8 *)info + SIGINFO_CODE) == 0 && *(u32 *)((u8 *)info + SIGINFO_PID) == 0 && slot &&
        load_acquire_u32(&slot->signal_state) == SIGNAL_SENT) {
        slot->came_bare = 1;
        return slot;
    }
    if (is_child)
        disposition_return_sigsafe(a, signo);
    if (handler == SIGNAL_DEFAULT || handler == SIGNAL_IGNORE) {
        ignored_signal_sigsafe(a, slot, (u64 *)((u8 *)context + UCONTEXT_GREGS), mask, is_crowded);
        if (slot)
            admission_return_sigsafe(a, slot, signo, info, context);
    } else if (old->flags & FLAG_SIGINFO)
        ((void (*)(i32, void *, void *))handler)(signo, info, context);
    else
        ((void (*)(i32))handler)(signo);
    return (struct thread_slot *)0;
}

/* Return whether a handler of the target's, which our signal interrupted on an alternate stack, has left too little of it
 * for our callees. Context: signal. */
static u32 is_crowded_sigsafe(const u8 *context)
{
    u64 left = (u64)&context - *(const u64 *)(context + UCONTEXT_STACK_START);
    return left < *(const u64 *)(context + UCONTEXT_STACK_BYTES) && left < CALLEES_STACK_BYTES;
}

/* The signal handler. Context: signal; blocks all signals except those that the target ignores; may not: allocate,
 * lock, call libc, use thread-local storage. */
static void handle_signal_sigsafe(i32 signo, void *info, void *context)
{
    u64 started = read_tsc_sigsafe();
    struct agent *a = agent_cell;
    u64 *gregs = (u64 *)((u8 *)context + UCONTEXT_GREGS);
    u64 mask = *(u64 *)((u8 *)context + UCONTEXT_SIGMASK);
    struct thread_slot *slot;
    u32 is_crowded = is_crowded_sigsafe(context);
    i32 nr;

    if (!a)
        return;
    slot = slot_of_clock_sigsafe(a, info);
    if (slot) {
        if (a->keys_are_used)
            keys_open_sigsafe();
        if (is_crowded)
            timer_pass_over_sigsafe(a, slot, gregs);
        else
            handle_clock_sigsafe(a, slot, gregs, context, started);
        return;
    }
    slot = slot_of_signal_sigsafe(a, info);
    if (!slot) {
        slot = foreign_signal_sigsafe(a, signo, info, context, mask, is_crowded);
        if (!slot)
            return;
    }
    if (a->keys_are_used)
        keys_open_sigsafe();
    if (*(const i32 *)((const u8 *)info + SIGINFO_CODE) == SIGINFO_CODE_TIMER) {
        if (is_crowded)
            timer_pass_over_sigsafe(a, slot, gregs);
        else
            handle_timer_sigsafe(a, slot, gregs, context, started);
        return;
    }
    if (load_acquire_u32(&slot->signal_state) != SIGNAL_SENT) {
        /* It was blocked until we stopped waiting for it: take no sample. It may still have ended a wait. */
        if ((i64)gregs[GREG_RAX] == -ERR_EINTR)
            count_repair_sigsafe(slot, is_crowded ? EINTR_UNREPAIRABLE
                                                  : eintr_repair_sigsafe(a, slot, gregs, mask, slot->signal_cpu_ns, &nr));
        return;
    }
    store_release_u32(&slot->signal_state, SIGNAL_HANDLING);
    if (slot->sent_off_cpu)
        slot->taken_ns = now_ns_sigsafe();
    slot->sp_seen = gregs[GREG_RSP];
    slot->alternate_start = *(u64 *)((u8 *)context + UCONTEXT_STACK_START);
    slot->alternate_bytes = *(u64 *)((u8 *)context + UCONTEXT_STACK_BYTES);
    answer_sigsafe(a, slot, gregs, mask, is_crowded);
    slot->began_tsc = started;
    slot->handler_tsc = read_tsc_sigsafe() - started;
    store_release_u32(&slot->signal_state, SIGNAL_ANSWERED);
}
