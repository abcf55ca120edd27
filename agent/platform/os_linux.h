/*
 * Linux for the agent: raw system calls (no libc, no errno, so they may be used in the handler and on any thread),
 * their numbers, and the kernel's structures by offset. x86-64.
 *
 * A raw call returns the kernel's own result: values from -4095 to -1 are -errno. No call here is restarted on EINTR
 * unless said otherwise.
 */
#ifndef FLAMETAP_OS_LINUX_H
#define FLAMETAP_OS_LINUX_H

enum {
    NR_READ = 0, NR_CLOSE = 3, NR_FSTAT = 5, NR_MMAP = 9, NR_MPROTECT = 10, NR_MUNMAP = 11, NR_RT_SIGACTION = 13,
    NR_RT_SIGPROCMASK = 14, NR_IOCTL = 16, NR_PREAD64 = 17, NR_MADVISE = 28, NR_PAUSE = 34, NR_GETPID = 39,
    NR_SOCKET = 41, NR_CONNECT = 42, NR_SENDTO = 44, NR_RECVMSG = 47, NR_SHUTDOWN = 48, NR_SOCKETPAIR = 53,
    NR_GETSOCKOPT = 55, NR_CLONE = 56, NR_EXIT = 60, NR_FORK = 57, NR_VFORK = 58, NR_FCNTL = 72, NR_FTRUNCATE = 77, NR_RT_SIGQUEUEINFO = 129, NR_RT_SIGSUSPEND = 130,
    NR_KILL = 62, NR_UNAME = 63, NR_PRCTL = 157, NR_GETTID = 186, NR_FUTEX = 202, NR_GETDENTS64 = 217, NR_RESTART_SYSCALL = 219,
    NR_TIMER_CREATE = 222, NR_TIMER_SETTIME = 223,
    NR_TIMER_DELETE = 226, NR_CLOCK_GETTIME = 228, NR_CLOCK_GETRES = 229, NR_CLOCK_NANOSLEEP = 230, NR_OPENAT = 257, NR_NEWFSTATAT = 262, NR_GET_ROBUST_LIST = 274,
    NR_RT_TGSIGQUEUEINFO = 297, NR_PRLIMIT64 = 302, NR_PROCESS_VM_READV = 310, NR_MEMFD_CREATE = 319, NR_CLONE3 = 435,
    NR_SCHED_SETATTR = 314, NR_SCHED_GETATTR = 315, NR_CLOSE_RANGE = 436,
};

enum { PR_GET_SECCOMP_OPTION = 21 };

enum { ERR_ESRCH = 3, ERR_EINTR = 4, ERR_ENOMEM = 12, ERR_EACCES = 13, ERR_EINVAL = 22, ERR_ECANCELED = 125 };

static i64 sys_call6(i64 nr, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f)
{
    i64 result;
    register u64 r10 __asm__("r10") = d;
    register u64 r8 __asm__("r8") = e;
    register u64 r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

static i64 sys_call3(i64 nr, u64 a, u64 b, u64 c)
{
    i64 result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(nr), "D"(a), "S"(b), "d"(c)
                     : "rcx", "r11", "memory");
    return result;
}

struct timespec64 {
    i64 sec;
    i64 nsec;
};

struct io_vector {
    u64 base;
    u64 bytes;
};

#define CLOCK_MONOTONIC_ID 1
#define THREAD_CPU_CLOCK_OWN 3            /* CLOCK_THREAD_CPUTIME_ID */
/* The clock of one thread: kernel include/linux/posix-timers_types.h, CPUCLOCK_PERTHREAD | CPUCLOCK_SCHED. */
#define THREAD_CPU_CLOCK(tid) ((i32)((~(u32)(tid)) << 3) | 6)

/* Return the time of `clock` in nanoseconds, or a negative errno. */
static i64 clock_ns_sigsafe(i32 clock)
{
    struct timespec64 now;
    i64 error = sys_call3(NR_CLOCK_GETTIME, (u64)(i64)clock, (u64)&now, 0);
    return error < 0 ? error : now.sec * 1000000000LL + now.nsec;
}

static u64 now_ns_sigsafe(void)
{
    return (u64)clock_ns_sigsafe(CLOCK_MONOTONIC_ID);
}

#define MOMENT_TICKS_MAX 20000            /* some microseconds */
#define MOMENT_TRIES 4

/* One moment by CLOCK_MONOTONIC and by the time stamp counter. */
struct moment {
    u64 ns;
    u64 tsc;
};

/* Read both clocks. Again if this thread lost its CPU between the readings. */
static void moment_read(struct moment *moment)
{
    u64 before, after;
    u32 tries = 0;
    do {
        before = read_tsc_sigsafe();
        moment->ns = now_ns_sigsafe();
        after = read_tsc_sigsafe();
    } while (after - before > MOMENT_TICKS_MAX && ++tries < MOMENT_TRIES);
    moment->tsc = before + (after - before) / 2;
}

/* Sleep until CLOCK_MONOTONIC reaches `deadline_ns`; a signal meanwhile (setuid's broadcast) does not end the sleep. */
static void sleep_until_ns(u64 deadline_ns)
{
    struct timespec64 until;
    until.sec = (i64)(deadline_ns / 1000000000ULL);
    until.nsec = (i64)(deadline_ns % 1000000000ULL);
    while (sys_call6(NR_CLOCK_NANOSLEEP, CLOCK_MONOTONIC_ID, 1, (u64)&until, 0, 0, 0) == -ERR_EINTR) {
    }
}

/* Return whether this thread has a seccomp filter. prctl(2). Context: signal. */
static u32 is_filtered_sigsafe(void)
{
    return sys_call6(NR_PRCTL, PR_GET_SECCOMP_OPTION, 0, 0, 0, 0, 0) != 0;
}

/*
 * Return whether the eight bytes at `runtime_addr` can be read now. rt_sigprocmask reads the new mask before it rejects
 * the invalid `how`, so it changes nothing and returns EFAULT or EINVAL (rt_sigprocmask(2), kernel/signal.c). 0.12 us.
 */
static u32 memory_is_readable_sigsafe(u64 runtime_addr)
{
    return sys_call6(NR_RT_SIGPROCMASK, 0x7fffffff, runtime_addr, 0, 8, 0, 0) == -ERR_EINVAL;
}

/* Map zeroed private pages, which use memory only once touched. Returns 0 if there is no memory. */
static void *pages_new(u64 bytes)
{
    /* PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS|MAP_NORESERVE */
    i64 result = sys_call6(NR_MMAP, 0, bytes, 3, 0x4022, (u64)-1, 0);
    return result < 0 && result > -4096 ? (void *)0 : (void *)result;
}

static void pages_free(void *start, u64 bytes)
{
    if (start)
        sys_call3(NR_MUNMAP, (u64)start, bytes, 0);
}

/* Keep these pages out of children of fork: forking costs less, and a child cannot touch them. madvise(2),
 * MADV_DONTFORK */
static void pages_keep_from_children(void *start, u64 bytes)
{
    sys_call3(NR_MADVISE, (u64)start, bytes, 10);
}

/* Return a soft resource limit of the process; the maximum if it cannot be read. prlimit(2) */
static u64 resource_limit(u32 resource)
{
    u64 limit[2];
    i64 error = sys_call6(NR_PRLIMIT64, 0, resource, 0, (u64)limit, 0, 0);
    return error < 0 ? ~0ULL : limit[0];
}

static void close_fd(i32 fd)
{
    if (fd >= 0)
        sys_call3(NR_CLOSE, (u64)fd, 0, 0);
}

/* The kernel's own struct sigaction (not libc's). */
struct kernel_sigaction {
    u64 handler;
    u64 flags;
    u64 restorer;
    u64 mask;
};

static i64 kernel_sigaction_get(i32 signo, struct kernel_sigaction *old)
{
    return sys_call6(NR_RT_SIGACTION, (u64)signo, 0, (u64)old, 8, 0, 0);
}

static i64 kernel_sigaction_set(i32 signo, const struct kernel_sigaction *action)
{
    return sys_call6(NR_RT_SIGACTION, (u64)signo, (u64)action, 0, 8, 0, 0);
}

#define SIGNAL_DEFAULT 0ULL
#define SIGNAL_IGNORE 1ULL
#define FLAG_SIGINFO 4ULL
#define FLAG_RESTART 0x10000000ULL
#define FLAG_ONSTACK 0x08000000ULL
#define SIGNO_URG 23
#define SIGNO_WINCH 28

/* siginfo_t and ucontext_t by offset: System V ABI AMD64, kernel arch/x86/include/uapi/asm/{siginfo,sigcontext}.h */
#define SIGINFO_SIGNO 0
#define SIGINFO_CODE 8
#define SIGINFO_PID 16
#define SIGINFO_VALUE 24
#define SIGINFO_BYTES 128
#define SIGINFO_CODE_QUEUE (-1)
#define SIGINFO_CODE_TIMER (-2)
#define SIGINFO_CODE_TKILL (-6)
#define SIGINFO_CODE_KERNEL 0x80
#define UCONTEXT_STACK_START 16           /* uc_stack: ss_sp … */
#define UCONTEXT_STACK_BYTES 32           /* … and ss_size */
#define UCONTEXT_GREGS 40
#define UCONTEXT_SIGMASK 296
enum { GREG_R8 = 0, GREG_R9 = 1, GREG_R10 = 2, GREG_R11 = 3, GREG_R15 = 7, GREG_RDI = 8, GREG_RSI = 9, GREG_RBP = 10,
       GREG_RDX = 12, GREG_RAX = 13, GREG_RCX = 14, GREG_RSP = 15, GREG_RIP = 16 };

#endif
