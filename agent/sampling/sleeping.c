/*
 * Stacks of threads asleep in the kernel, read through procfs without waking them. Sampler thread only.
 *
 * /proc/PID/task/TID/syscall (proc(5)) shows the system call, its arguments, sp and pc. The stack is copied and unwound
 * from those alone. If the thread's CPU clock is the same before and after, it did not run meanwhile.
 */

#define MOSTLY_RAN 4                      /* a fourth of the time, in case other threads compete for the CPUs */

enum parked_result { PARKED_RUNNING = 0, PARKED_SEEN = 1, PARKED_TORN = 2, PARKED_GONE = 3, PARKED_RETRY = 4, PARKED_HIDDEN = 5 };

struct wait_record {
    i64 sysno;                            /* -1: asleep outside of a system call */
    u64 args[6];
    u64 sp;
    u64 pc;
};

static i64 syscall_file_read(const struct agent *a, const struct thread_slot *slot, char *text, u32 capacity)
{
    if (slot->syscall_fd >= 0) {
        i64 got = read_at(a, slot->syscall_fd, text, capacity - 1, 0);
        text[got > 0 ? got : 0] = 0;
        return got;
    }
    return task_file_read(a, slot->tid, "syscall", text, capacity);
}

/* Return the number of a restarted wait. A wait that a stop interrupted continues as restart_syscall
 * (restart_syscall(2)); its real number is in the code, as `mov $NR,%eax; syscall` (b8 imm32 0f 05). */
static i64 restarted_sysno(struct agent *a, u64 pc)
{
    u8 code[7];
    if (read_memory(a, pc - 7, code, 7) != 7 || code[0] != 0xb8 || code[5] != 0x0f || code[6] != 0x05)
        return NR_RESTART_SYSCALL;
    return (i64)(code[1] | (u32)code[2] << 8 | (u32)code[3] << 16 | (u32)code[4] << 24);
}

static u64 parse_hex_word(const char **at, const char *end)
{
    while (*at < end && **at == ' ')
        (*at)++;
    if (*at + 1 < end && (*at)[0] == '0' && (*at)[1] == 'x')
        *at += 2;
    return parse_number(at, end, 16);
}

/* Parse "NR 0xA0 … 0xA5 0xSP 0xPC", "-1 0xSP 0xPC" or "running". Returns 0 if the thread is running. */
static u32 wait_record_parse(const char *text, i64 bytes, struct wait_record *wait)
{
    const char *at = text, *end = text + bytes;
    u32 i;
    if (bytes < 4 || text[0] == 'r')
        return 0;
    if (text[0] == '-') {
        at += 2;
        wait->sysno = -1;
    } else {
        wait->sysno = (i64)parse_number(&at, end, 10);
        for (i = 0; i < 6; i++)
            wait->args[i] = parse_hex_word(&at, end);
    }
    wait->sp = parse_hex_word(&at, end);
    wait->pc = parse_hex_word(&at, end);
    return wait->sp != 0 && wait->pc != 0;
}

/* Unwind the stack of a sleeping thread. Its rbp is not in procfs. Returns enum managed_verdict. */
static u32 unwind_parked(struct agent *a, struct unwinder *u, const struct thread_slot *slot, const struct wait_record *wait)
{
    u->agent = a;
    u->map = a->map;
    u->pc = wait->pc;
    u->sp = wait->sp;
    u->bp = 0;
    u->bp_known = 0;
    u->gregs = (const u64 *)0;
    u->frames = a->parked_frames;
    u->copy = a->stack_copy;
    u->copy_bytes = STACK_COPY_BYTES;
    u->in_handler = 0;
    u->java_thread = slot->java_thread;
    u->java_tid = slot->tid;
    u->own_start = u->own_end = 0;
    return stack_take_sigsafe(u, a->parked_walk, slot->thread_pointer_seen, slot->tid,
                              (const u64 *)0);
}

/* Return whether the thread has used much of the time since the last check. Without procfs, nothing else shows a thread
 * that waits for a CPU. */
static u32 mostly_ran(struct thread_slot *slot, u64 cpu_ns)
{
    u64 now_ns = now_ns_sigsafe();
    u64 used_ns = cpu_ns - slot->asked_cpu_ns, since_ns = now_ns - slot->asked_ns;
    slot->asked_cpu_ns = cpu_ns;
    slot->asked_ns = now_ns;
    return used_ns * MOSTLY_RAN >= since_ns;
}

/*
 * Handle an unreadable `syscall` file: the thread has ended, or procfs is closed to us since the process changed its
 * uid or root. A sleeping thread is not woken by a signal; its stack is then unknown.
 */
static u32 parked_without_file(struct agent *a, struct thread_slot *slot, u64 cpu_ns, i64 error)
{
    struct thread_signals signals;
    i64 clock_ns = clock_ns_sigsafe(THREAD_CPU_CLOCK(slot->tid));
    if (clock_ns < 0)
        return PARKED_GONE;
    if (error == -ERR_ESRCH && slot->syscall_fd >= 0) {
        close_fd(slot->syscall_fd);       /* of an earlier thread with this tid */
        slot->syscall_fd = -1;
        slot->is_file_asked = NOT_ASKED;
    }
    hostfile_ask(a, slot);
    if ((u64)clock_ns != cpu_ns)
        return PARKED_RUNNING;
    if (thread_signals_read(a, slot->tid, &signals))
        return signals.state == 'R' ? PARKED_RUNNING : PARKED_HIDDEN;
    return mostly_ran(slot, cpu_ns) ? PARKED_RUNNING : PARKED_HIDDEN;
}

/* Read where a thread waits. Returns 1; 0 if it is running; or -errno. */
static i64 wait_read(const struct agent *a, const struct thread_slot *slot, struct wait_record *wait)
{
    char text[256];
    i64 got = syscall_file_read(a, slot, text, sizeof text);
    return got < 0 ? got : (i64)wait_record_parse(text, got, wait);
}

/*
 * Take the stack of a sleeping thread into `u`. `cpu_ns` is its CPU clock, read just before. Returns enum
 * parked_result.
 */
static u32 parked_take(struct agent *a, struct thread_slot *slot, u64 cpu_ns, struct wait_record *wait,
                       struct unwinder *u)
{
    i64 is_waiting = wait_read(a, slot, wait);
    u32 i;
    if (is_waiting < 0)
        return parked_without_file(a, slot, cpu_ns, is_waiting);
    if (!is_waiting)
        return PARKED_RUNNING;
    if (wait->sysno == NR_RESTART_SYSCALL)
        wait->sysno = restarted_sysno(a, wait->pc);
    slot->managed_verdict = unwind_parked(a, u, slot, wait);
    slot->marks = a->parked_walk ? a->parked_walk->marks : 0;
    if (wait->sysno == NR_FUTEX && is_in_lock(a, wait->args[0]))
        slot->marks = MARK_LOCK_AWAITED;
    if (clock_ns_sigsafe(THREAD_CPU_CLOCK(slot->tid)) != (i64)cpu_ns) {
        count_up(a, COUNTER_PARKED_TORN, 1);
        return PARKED_TORN;
    }
    if (u->verdict == VERDICT_RETRY)
        return PARKED_RETRY;
    count_up(a, COUNTER_PARKED_READS, 1);
    slot->wait_sysno = wait->sysno;
    slot->wait_sp = wait->sp;
    slot->wait_pc = wait->pc;
    for (i = 0; i < 6; i++)
        slot->wait_args[i] = wait->args[i];
    return PARKED_SEEN;
}
