/*
 * System calls that a seccomp filter may kill the process for: those of profilers and debuggers, which sandboxed
 * programs do not make. A filter can be installed at any moment, on all threads at once (SECCOMP_FILTER_FLAG_TSYNC,
 * seccomp(2)). So right before each of these calls we check for a filter, by a call that sandboxes usually allow
 * (prctl, 0.1 us). A window of some 50 ns remains, on the way from the kernel's answer back into the kernel. A thread
 * may also lose its CPU there, and then the answer is old: the check is repeated.
 *
 * Threads that had filters at the attach do not check: the host has found out what those allow, and may have found that
 * they do not allow prctl. Our threads have the filters of the main thread; if only other threads have filters, the
 * handler checks on no thread (`handlers_ask`), and relies on the sampler's check.
 */

#define ANSWER_TICKS_MAX 3000             /* TSC ticks: a microsecond, ten times as long as the check takes */
#define QUESTIONS_MAX 4                   /* if each check takes longer, the last answer is used */

/* Return whether this thread has a filter. Context: signal. */
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

/* Return whether a filter was installed since the attach; in the handler, on its own thread. Context: signal. */
static u32 is_shut_sigsafe(const struct agent *a)
{
    return a->is_sandboxed || (a->handlers_ask && filter_has_come_sigsafe());
}

/* Make the call, or return -EACCES if a filter was installed. Context: signal. */
static i64 permitted_call_sigsafe(const struct agent *a, i64 nr, u64 a1, u64 a2, u64 a3, u64 a4, u64 a5)
{
    return is_shut_sigsafe(a) ? -ERR_EACCES : sys_call6(nr, a1, a2, a3, a4, a5, 0);
}

/* The same on a thread of ours; without a check if `a` is 0. */
static i64 permitted_call(const struct agent *a, i64 nr, u64 a1, u64 a2, u64 a3, u64 a4, u64 a5)
{
    if (a && (a->is_sandboxed || (a->asks && filter_has_come_sigsafe())))
        return -ERR_EACCES;
    return sys_call6(nr, a1, a2, a3, a4, a5, 0);
}

/* Copy from our own address space; an unmapped address is an error and not a fault. Returns the bytes copied, or
 * -errno. process_vm_readv(2). Context: signal; not in a child of fork. */
static i64 read_memory_sigsafe(const struct agent *a, u64 runtime_addr, void *to, u64 bytes)
{
    struct io_vector local = {(u64)to, bytes}, remote = {runtime_addr, bytes};
    return permitted_call_sigsafe(a, NR_PROCESS_VM_READV, a->pid, (u64)&local, 1, (u64)&remote, 1);
}

/* The same, also valid in a child of fork. Context: signal. */
static i64 read_own_memory_sigsafe(const struct agent *a, u64 runtime_addr, void *to, u64 bytes)
{
    struct io_vector local = {(u64)to, bytes}, remote = {runtime_addr, bytes};
    u64 pid = (u64)sys_call3(NR_GETPID, 0, 0, 0);
    return permitted_call_sigsafe(a, NR_PROCESS_VM_READV, pid, (u64)&local, 1, (u64)&remote, 1);
}

/* The same on a thread of ours. */
static i64 read_memory(const struct agent *a, u64 runtime_addr, void *to, u64 bytes)
{
    struct io_vector local = {(u64)to, bytes}, remote = {runtime_addr, bytes};
    return permitted_call(a, NR_PROCESS_VM_READV, a->pid, (u64)&local, 1, (u64)&remote, 1);
}

/* Call openat(2) with O_CLOEXEC and `flags`. */
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

/* Read the next entries of a directory, struct linux_dirent64: ino u64, off u64, reclen u16, type u8, name.
 * getdents(2) */
static i64 read_entries(const struct agent *a, i32 fd, void *to, u64 bytes)
{
    return permitted_call(a, NR_GETDENTS64, (u64)fd, (u64)to, bytes, 0, 0);
}

/*
 * Return whether a thread may get a signal now. `*cpu_ns` is set to its CPU clock right before: the CPU time up to the
 * handler shows whether the signal was delivered at once (eintr_restart.c), so neither may be old when the signal is
 * sent.
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

/* Fill the siginfo of our signal, which carries `value`. */
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

/* Send our signal to one thread, right after may_signal. rt_tgsigqueueinfo(2). Returns 0 or -errno. */
static i32 send_signal(const struct agent *a, u32 tid, const struct signal_info *info)
{
    return (i32)sys_call6(NR_RT_TGSIGQUEUEINFO, a->pid, tid, (u64)a->signo, (u64)info, 0, 0);
}
