/*
 * The direct way in, the host's part that must be quick: one thread of the target is stopped, sent to the stub
 * (arch/x86_64/stub.S), and let go. This runs in the host, which calls it out of the file of machine code
 * (profiler/inject/direct/divert.py), on a thread that traces nothing else: some 60 us between stop and release.
 *
 * The thread's state is read before anything is written. Until its registers are set it is as it was, whatever becomes of
 * the host; from then on it runs the stub, which needs nobody. ptrace(2)
 */
enum {
    NR_WAIT4 = 61, NR_PTRACE = 101, NR_PWRITE64 = 18,
    PTRACE_POKEDATA = 5, PTRACE_DETACH = 17, PTRACE_GETREGSET = 0x4204, PTRACE_SETREGSET = 0x4205, PTRACE_SEIZE = 0x4206,
    PTRACE_INTERRUPT = 0x4207, PTRACE_PEEKSIGINFO = 0x4209, PTRACE_GETSIGMASK = 0x420a, PTRACE_RSEQ_CONFIGURATION = 0x420f,
};
#define NT_PRSTATUS 1
#define WAIT_NOHANG_ALL 0x40000001        /* WNOHANG | __WALL */
#define STOP_BY_INTERRUPT 0x80057fU       /* status of waitpid: SIGTRAP and PTRACE_EVENT_STOP */
#define CODE_SEGMENT_64 0x33
#define LOOKS_WITHOUT_NAP 64
#define NAP_NS 20000
#define PENDING_MOST 16
#define CALL_BYTES 2                      /* of a system call's instruction; the stub has two entries, so far apart */
#define RESTART_SYS (-512LL)              /* results of an interrupted call: <linux/errno.h>, known to the kernel alone */
#define RESTART_NO_INTR (-513LL)
#define RESTART_NO_HAND (-514LL)
#define RESTART_BLOCK (-516LL)

enum divert_result {
    DIVERT_DONE = 0,
    DIVERT_GONE = 1,                      /* the thread has ended, or cannot be traced: `error` */
    DIVERT_NOT_NOW = 2,                   /* it could be harmed at this moment */
    DIVERT_LATE = 3,                      /* it has not stopped; it is released when the calling thread ends */
    DIVERT_NO_WRITE = 4,                  /* the stub could not be written: `error` */
    DIVERT_NEVER = 5,                     /* it runs 32-bit code */
};

struct divert {
    i32 tid;
    i32 memory_fd;                        /* /proc/PID/mem */
    u64 stub_addr;                        /* runtime_addr in the target */
    u8 *stub;                             /* the host's copy, filled in but for the thread's state */
    u64 stub_bytes;
    u64 state_offset;                     /* of `mask` in it */
    const u32 *eintr_calls;               /* numbers of calls that a stop ends with EINTR, and that may begin again */
    u64 eintr_call_count;
    u64 wait_ns;                          /* how long it may take to stop */
    i32 error;                            /* errno */
    i32 left_ms;                          /* how long its wait still lasts, if that is one of epoll; -1: as it was to last */
    u64 stopped_ns;                       /* how long it was stopped since we have noticed */
    u64 thread_pointer;                   /* its base of fs */
};

struct user_registers {                   /* struct user_regs_struct, <sys/user.h> */
    u64 r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi, orig_rax, rip, cs, flags, rsp, ss, fs_base,
        gs_base, ds, es, fs, gs;
};

static i64 trace_call(i64 request, i32 tid, u64 where, u64 data)
{
    return sys_call6(NR_PTRACE, (u64)request, (u64)tid, where, data, 0, 0);
}

/* Wait for the thread to stop. Returns its status, 0 if it does not in time, -errno if it has ended. */
static i64 stop_wait(i32 tid, u64 wait_ns)
{
    struct timespec64 nap = {0, NAP_NS};
    u64 end_ns = now_ns_sigsafe() + wait_ns;
    u32 looks, status = 0;
    i64 found = 0;
    for (looks = 0; !(found = sys_call6(NR_WAIT4, (u64)tid, (u64)&status, WAIT_NOHANG_ALL, 0, 0, 0)); looks++) {
        if (looks < LOOKS_WITHOUT_NAP)
            continue;
        if (now_ns_sigsafe() > end_ns)
            return 0;
        sys_call6(NR_NANOSLEEP, (u64)&nap, 0, 0, 0, 0, 0);
    }
    return found < 0 ? found : (status & 0xff) == 0x7f ? (i64)status : -ERR_ESRCH;
}

/* Return whether a signal waits that the thread, or its process, is about to take. */
static u32 signal_is_due(i32 tid, u64 mask)
{
    u8 found[PENDING_MOST][SIGINFO_BYTES];
    u32 of_process;
    for (of_process = 0; of_process < 2; of_process++) {
        struct {
            u64 offset;
            u32 flags;
            i32 count;
        } wanted = {0, of_process, PENDING_MOST};
        i64 count = trace_call(PTRACE_PEEKSIGINFO, tid, (u64)&wanted, (u64)found), i;
        for (i = 0; i < count; i++) {
            u32 signo = *(const u32 *)(found[i] + SIGINFO_SIGNO);
            if (signo && signo <= 64 && !(mask >> (signo - 1) & 1))
                return 1;
        }
        if (count == PENDING_MOST)
            return 1;                     /* there may be others */
    }
    return 0;
}

/* Return whether the thread is in a restartable sequence, which must not be left by another way; not known before Linux
 * 5.13. rseq(2) */
static u32 is_in_sequence(const struct divert *d)
{
    u64 found[3] = {0, 0, 0}, descriptor = 1;     /* struct ptrace_rseq_configuration: address first */
    if (trace_call(PTRACE_RSEQ_CONFIGURATION, d->tid, sizeof found, (u64)found) <= 0 || !found[0])
        return 0;
    sys_call6(NR_PREAD64, (u64)d->memory_fd, (u64)&descriptor, 8, found[0] + 8, 0, 0);
    return descriptor != 0;
}

/* Return with which result the kernel would begin the call again that the stop has interrupted; 0 if it has interrupted
 * none, or one that has ended. */
static i64 call_result(const struct divert *d, const struct user_registers *r)
{
    i64 result = (i64)r->rax;
    u64 i;
    if ((i64)r->orig_rax < 0)
        return 0;
    if (result == RESTART_BLOCK || result == RESTART_SYS || result == RESTART_NO_INTR || result == RESTART_NO_HAND)
        return result;
    for (i = 0; result == -ERR_EINTR && i < d->eintr_call_count; i++)
        if (d->eintr_calls[i] == r->orig_rax)
            return RESTART_NO_HAND;
    return 0;
}

/* Fill in what the thread goes on with: the registers that the kernel gives it if no handler runs, and where it would be
 * after one. */
static void state_fill(const struct divert *d, const struct user_registers *r, i64 call, u64 mask)
{
    u64 call_end = r->rip, rip = call ? call_end - CALL_BYTES : call_end;
    u64 rax = call == RESTART_BLOCK ? NR_RESTART_SYSCALL : call ? r->orig_rax : r->rax;
    u32 is_shortened = call && d->left_ms >= 0 && (r->orig_rax == NR_EPOLL_WAIT || r->orig_rax == NR_EPOLL_PWAIT) &&
                       (i32)r->r10 > d->left_ms;
    u64 r10 = is_shortened ? (u64)(u32)d->left_ms : r->r10;   /* the fourth argument is the timeout; nothing reads it later */
    const u64 state[] = {mask, r->flags, rip, r->rsp, rax, r->rcx, r->rdx, r->rsi, r->rdi, r->r8, r->r9, r10, r->r11, call_end};
    memcpy(d->stub + d->state_offset, state, sizeof state);
}

/* Write the stub into the target; by ptrace where the kernel has /proc/PID/mem refuse it (proc_mem.force_override), but not
 * into another program: the file is of the memory that the process had when it was opened. Returns 0 or -errno. */
static i64 stub_write(const struct divert *d)
{
    u64 at;
    i64 written = sys_call6(NR_PWRITE64, (u64)d->memory_fd, (u64)d->stub, d->stub_bytes, d->stub_addr, 0, 0), error = 0;
    if (written == (i64)d->stub_bytes)
        return 0;
    if (written >= 0)
        return -ERR_ESRCH;
    for (at = 0; at < d->stub_bytes && !error; at += 8)
        error = trace_call(PTRACE_POKEDATA, d->tid, d->stub_addr + at, *(const u64 *)(d->stub + at));
    return error;
}

/* The thread is stopped. Returns enum divert_result. */
static i32 stopped_divert(struct divert *d)
{
    struct user_registers registers;
    struct io_vector vector = {(u64)&registers, sizeof registers};
    u64 mask = 0;
    i64 error, call;
    if (trace_call(PTRACE_GETREGSET, d->tid, NT_PRSTATUS, (u64)&vector) < 0 || vector.bytes != sizeof registers ||
        registers.cs != CODE_SEGMENT_64)
        return DIVERT_NEVER;
    if (trace_call(PTRACE_GETSIGMASK, d->tid, sizeof mask, (u64)&mask) < 0 || signal_is_due(d->tid, mask) || is_in_sequence(d))
        return DIVERT_NOT_NOW;
    call = call_result(d, &registers);
    state_fill(d, &registers, call, mask);
    error = stub_write(d);
    if (error) {
        d->error = (i32)-error;
        return DIVERT_NO_WRITE;
    }
    d->thread_pointer = registers.fs_base;
    /* The kernel goes on as after any stop. It takes the bytes of a call away to begin it again; after a handler for which the
     * call has ended it does not. A signal that came since the look above may have one. */
    registers.rip = d->stub_addr + (call ? CALL_BYTES : 0);
    if (call)
        registers.rax = (u64)call;
    else
        registers.orig_rax = ~0ULL;       /* in no call that the kernel would begin again */
    vector.base = (u64)&registers;
    return trace_call(PTRACE_SETREGSET, d->tid, NT_PRSTATUS, (u64)&vector) < 0 ? DIVERT_NOT_NOW : DIVERT_DONE;
}

/* Send a thread to the stub. Returns enum divert_result; only after DIVERT_DONE has anything of the thread changed. Context:
 * the host, on a thread of its own. */
int host_divert(struct divert *d)
{
    u64 began_ns;
    i64 status, error = trace_call(PTRACE_SEIZE, d->tid, 0, 0);
    i32 result = DIVERT_NOT_NOW;
    d->error = (i32)-error;
    if (error < 0)
        return DIVERT_GONE;
    trace_call(PTRACE_INTERRUPT, d->tid, 0, 0);
    status = stop_wait(d->tid, d->wait_ns);
    began_ns = now_ns_sigsafe();
    if (status == 0)
        return DIVERT_LATE;
    if (status < 0) {
        d->error = (i32)-status;
        return DIVERT_GONE;
    }
    if (status == STOP_BY_INTERRUPT)
        result = stopped_divert(d);
    /* One that is about to take a signal gets it; one whose process is stopped stays so. */
    trace_call(PTRACE_DETACH, d->tid, 0, status >> 16 ? 0 : (u64)(status >> 8 & 0xff));
    d->stopped_ns = now_ns_sigsafe() - began_ns;
    return result;
}
