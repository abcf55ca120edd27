/*
 * The system calls that a seccomp filter may kill the process for: what profilers and debuggers call, and programs in a
 * sandbox do not. A filter can come at any moment, on all threads at once (SECCOMP_FILTER_FLAG_TSYNC, seccomp(2)). So
 * right before each of these calls it is asked whether one has come, by a call that sandboxes mostly let pass (prctl,
 * 0.1 us). What remains is the way from the kernel's answer back into the kernel, some 50 ns. That way back is also where
 * a thread loses its CPU, and the answer is old when it goes on: then it is asked again.
 *
 * Threads that had filters when we came do not ask: the host has found out what they let pass, and the call that asks may
 * be none of it. Those of ours have the filters of the main thread; where only others have any, the handler does not ask
 * on any thread (`handlers_ask`), but takes the sampler's word.
 */

#define ANSWER_TICKS_MAX 3000             /* of the TSC: a microsecond, ten times what an answer takes */
#define QUESTIONS_MAX 4                   /* where each takes longer, there is no better answer */

/* Has this thread a filter? Context: signal. */
static u32 filter_has_come_sigsafe(void)
{
    u32 i;
    for (i = 0; i < QUESTIONS_MAX; i++) {
        u64 asked = read_tsc_sigsafe();
        if (is_filtered_sigsafe())
            return 1;
        if (read_tsc_sigsafe() - asked < ANSWER_TICKS_MAX)
            break;
    }
    return 0;
}

/* Has a filter come since we came? In the handler, for its own thread. Context: signal. */
static u32 is_shut_sigsafe(const struct agent *a)
{
    return a->is_sandboxed || (a->handlers_ask && filter_has_come_sigsafe());
}

/* The call, or -EACCES once there is a filter. Context: signal. */
static i64 permitted_call_sigsafe(const struct agent *a, i64 nr, u64 a1, u64 a2, u64 a3, u64 a4, u64 a5)
{
    return is_shut_sigsafe(a) ? -ERR_EACCES : sys_call6(nr, a1, a2, a3, a4, a5, 0);
}

/* The same for a thread of ours; not asked where `a` is 0. */
static i64 permitted_call(const struct agent *a, i64 nr, u64 a1, u64 a2, u64 a3, u64 a4, u64 a5)
{
    if (a && (a->is_sandboxed || (a->asks && filter_has_come_sigsafe())))
        return -ERR_EACCES;
    return sys_call6(nr, a1, a2, a3, a4, a5, 0);
}

/* Copy from our own address space; an unmapped address is an error and not a fault. Bytes copied, or -errno.
 * process_vm_readv(2). Context: signal; not in a child of fork. */
static i64 read_memory_sigsafe(const struct agent *a, u64 runtime_addr, void *to, u64 bytes)
{
    struct io_vector local = {(u64)to, bytes}, remote = {runtime_addr, bytes};
    return permitted_call_sigsafe(a, NR_PROCESS_VM_READV, a->pid, (u64)&local, 1, (u64)&remote, 1);
}

/* The same, also in a child of fork. Context: signal. */
static i64 read_own_memory_sigsafe(const struct agent *a, u64 runtime_addr, void *to, u64 bytes)
{
    struct io_vector local = {(u64)to, bytes}, remote = {runtime_addr, bytes};
    u64 pid = (u64)sys_call3(NR_GETPID, 0, 0, 0);
    return permitted_call_sigsafe(a, NR_PROCESS_VM_READV, pid, (u64)&local, 1, (u64)&remote, 1);
}

/* The same for a thread of ours. */
static i64 read_memory(const struct agent *a, u64 runtime_addr, void *to, u64 bytes)
{
    struct io_vector local = {(u64)to, bytes}, remote = {runtime_addr, bytes};
    return permitted_call(a, NR_PROCESS_VM_READV, a->pid, (u64)&local, 1, (u64)&remote, 1);
}

/* openat(2) with O_CLOEXEC and `flags`. */
static i32 open_file(const struct agent *a, const char *path, u32 flags)
{
    return (i32)permitted_call(a, NR_OPENAT, (u64)-100 /* AT_FDCWD */, (u64)path, 0x80000 | flags, 0, 0);
}

static i32 open_readonly(const struct agent *a, const char *path)
{
    return open_file(a, path, 0);
}

static i64 read_at(const struct agent *a, i32 fd, void *to, u64 bytes, u64 offset)
{
    return permitted_call(a, NR_PREAD64, (u64)fd, (u64)to, bytes, offset, 0);
}

/* The next entries of a folder, struct linux_dirent64: ino u64, off u64, reclen u16, type u8, name. getdents(2) */
static i64 read_entries(const struct agent *a, i32 fd, void *to, u64 bytes)
{
    return permitted_call(a, NR_GETDENTS64, (u64)fd, (u64)to, bytes, 0, 0);
}

/*
 * Is a thread to get a signal now? `*cpu_ns` is its CPU clock as of right before: what it has used by the time it takes
 * the signal tells whether that came at once (eintr_restart.c), so neither may be old when the signal is sent.
 */
static u32 may_signal(const struct agent *a, u32 tid, u64 *cpu_ns)
{
    u32 i;
    for (i = 0; i < QUESTIONS_MAX; i++) {
        u64 asked = read_tsc_sigsafe();
        *cpu_ns = (u64)clock_ns_sigsafe(THREAD_CPU_CLOCK(tid));
        if (a->is_sandboxed || (a->asks && is_filtered_sigsafe()))
            return 0;
        if (read_tsc_sigsafe() - asked < 2 * ANSWER_TICKS_MAX)
            break;
    }
    return 1;
}

struct signal_info {
    u64 words[SIGINFO_BYTES / 8];
};

/* What a signal of ours carries: `value`. */
static void signal_info_fill(const struct agent *a, struct signal_info *info, void *value)
{
    u8 *bytes = (u8 *)info;
    u32 i;
    for (i = 0; i < SIGINFO_BYTES / 8; i++)
        info->words[i] = 0;
    *(i32 *)(bytes + SIGINFO_SIGNO) = a->signo;
    *(i32 *)(bytes + SIGINFO_CODE) = SIGINFO_CODE_QUEUE;
    *(u32 *)(bytes + SIGINFO_PID) = a->pid;
    *(u64 *)(bytes + SIGINFO_VALUE) = (u64)value;
}

/* Our signal to one thread, right after may_signal. rt_tgsigqueueinfo(2). 0, or -errno. */
static i32 send_signal(const struct agent *a, u32 tid, const struct signal_info *info)
{
    return (i32)sys_call6(NR_RT_TGSIGQUEUEINFO, a->pid, tid, (u64)a->signo, (u64)info, 0, 0);
}
