/*
 * Files of procfs that only the host may open. The files of a process that changed its user belong to root (nginx,
 * memcached, mariadbd; PR_SET_DUMPABLE(2const)). /proc/PID/task/TID/syscall, which shows where a sleeping thread's
 * stack is, is then closed to the process itself. Reading an open one is allowed: a thread may do that for each thread
 * of its own process (ptrace_may_access in kernel/ptrace.c). So the agent asks the host to open it and receives a
 * descriptor: over a pair of sockets, with one message per thread each way. unix(7), SCM_RIGHTS. Clocks (perf_clocks.c),
 * changes of masks (admission.c) and what is known of alternate stacks (alternate_stack.c) come the same way, without a
 * descriptor.
 *
 * Sampler thread only; both ends are in its own descriptor table, until the host has taken its end. A host that cannot take
 * it (pidfd_getfd(2) reads a thread's own table since Linux 6.9) has the agent connect to a socket instead.
 */

#define SOCKET_PACKETS 0x80805            /* SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, socket(2) */
#define ADDRESS_BYTES_MAX 110              /* struct sockaddr_un, unix(7) */
#define NO_SIGPIPE 0x4000                 /* MSG_NOSIGNAL, send(2) */
#define ANSWERS_A_TICK 64
#define ALTERNATE_ASKS_MAX 64             /* for one thread */

struct request {
    u32 tid;
    u32 signo;                            /* for a clock, as all below; 0: the request is for the file */
    u64 table_addr;                       /* of clock_table; 0 in the answer: refused */
    u64 cookie;                           /* in the answer to ASK_STACK: start of the stack */
    u64 period_ns;                        /* mean interval between two samples; in the answer to ASK_STACK: bytes of the stack */
    u64 clock;                            /* enum clock_kind; CLOCK_NONE: to let our signal in; ASK_STACK */
};

#define ASK_STACK 8                       /* the request is for the thread's alternate stack */
#define STACK_REFUSED 1                   /* cookie of a refusal: it can never be had */

enum file_asked { NOT_ASKED = 0, ASKED = 1, ANSWERED = 2 };

/* struct msghdr, recvmsg(2); struct cmsghdr with one descriptor, cmsg(3) */
struct message {
    u64 name;
    u64 name_bytes;
    struct io_vector *parts;
    u64 part_count;
    void *control;
    u64 control_bytes;
    u64 flags;
};

struct control_message {
    u64 bytes;
    i32 level;                            /* SOL_SOCKET: 1 */
    i32 type;                             /* SCM_RIGHTS: 1 */
    i32 fd;
    i32 reserved;
};

/* Create the sockets. */
static void hostfiles_prepare(struct agent *a)
{
    i32 own = task_file_open(a, (u32)sys_call3(NR_GETTID, 0, 0, 0), "syscall"), ends[2];
    close_fd(own);
    a->host_lends_files = own == -ERR_EACCES;
    if (permitted_call(a, NR_SOCKETPAIR, 1 /* AF_UNIX */, SOCKET_PACKETS, 0, (u64)ends, 0) < 0)
        return;
    a->host_fd = ends[0];
    a->host_end_fd = ends[1];
}

/* Connect to the host's socket, in place of the pair. Returns 0 or -errno. */
static i32 hostfiles_connect(struct agent *a, const void *address, u64 address_bytes)
{
    i64 fd, result = -ERR_EINVAL;
    if (address_bytes > ADDRESS_BYTES_MAX)
        return (i32)result;
    fd = permitted_call(a, NR_SOCKET, 1 /* AF_UNIX */, SOCKET_PACKETS, 0, 0, 0);
    if (fd < 0)
        return (i32)fd;
    result = permitted_call(a, NR_CONNECT, (u64)fd, (u64)address, address_bytes, 0, 0);
    if (result < 0) {
        close_fd((i32)fd);
        return (i32)result;
    }
    close_fd(a->host_fd);
    close_fd(a->host_end_fd);
    a->host_fd = (i32)fd;
    a->host_end_fd = -1;
    return 0;
}

/* Return 0 if the socket is full or closed: the next look tries again. */
static u32 host_ask(const struct agent *a, const struct request *request)
{
    return a->host_fd >= 0 && permitted_call(a, NR_SENDTO, (u64)a->host_fd, (u64)request, sizeof *request, NO_SIGPIPE, 0) > 0;
}

/* Request a thread's file, once. */
static void hostfile_ask(const struct agent *a, struct thread_slot *slot)
{
    struct request request = {slot->tid, 0, 0, 0, 0, 0};
    if (a->host_lends_files && !slot->is_file_asked && host_ask(a, &request))
        slot->is_file_asked = ASKED;
}

/* Request a precise clock, or a new period for the one that the thread has. Returns 0 if that was not possible. */
static u32 clock_ask(const struct agent *a, struct thread_slot *slot, u32 kind)
{
    struct request request = {slot->tid, (u32)a->signo, (u64)a->clock_table, a->clock_cookie, a->cpu_period_ns, kind};
    if (!host_ask(a, &request))
        return 0;
    slot->clock_asked = kind;
    slot->clock_period_ns = a->cpu_period_ns;
    slot->clock_looks = 0;
    return 1;
}

/* Ask the host to let our signal into a thread. From now on it may have done so. */
static void admission_ask(const struct agent *a, struct thread_slot *slot)
{
    struct request request = {slot->tid, (u32)a->signo, (u64)a->clock_table, a->clock_cookie, 0, CLOCK_NONE};
    store_release_u32(&slot->is_admitted, 1);
    slot->admission_is_asked = host_ask(a, &request);
    if (!slot->admission_is_asked)
        admission_refused(slot);
}

/* Ask the host for a thread's alternate stack: only the thread itself can tell it, by a system call that the host has it
 * make. */
static void alternate_ask(struct agent *a, struct thread_slot *slot)
{
    struct request request = {slot->tid, (u32)a->signo, (u64)a->clock_table, 0, 0, ASK_STACK};
    slot->alternate_asks += host_ask(a, &request);
}

/* Take the host's answer. */
static void alternate_answered(struct thread_slot *slot, const struct request *answer)
{
    if (!slot->alternate_asks || slot->alternate_is_known)
        return;
    if (!answer->table_addr) {
        if (answer->cookie == STACK_REFUSED)
            slot->alternate_asks = ALTERNATE_ASKS_MAX;
        return;
    }
    slot->alternate_start = answer->cookie;
    slot->alternate_bytes = answer->period_ns;
    slot->alternate_is_told = 1;
}

/* Return whether an answer may still arrive. */
static u32 hostfile_is_coming(const struct agent *a, const struct thread_slot *slot)
{
    return a->host_lends_files && a->host_fd >= 0 && slot->is_file_asked != ANSWERED;
}

/* Give a thread the descriptor that the host has opened, -1 for none. Returns 0 if it has no use for it. */
static u32 hostfile_take(const struct agent *a, struct thread_slot *slot, i32 fd)
{
    slot->is_file_asked = ANSWERED;
    if (fd < 0 || (u64)fd + FDS_SPARE >= a->fd_limit || slot->syscall_fd >= 0)
        return 0;
    slot->syscall_fd = fd;
    return 1;
}

/* Receive the host's answers and the descriptors that it has opened meanwhile. */
static void hostfiles_take(struct agent *a)
{
    u32 i, hint = 0;
    for (i = 0; i < ANSWERS_A_TICK && a->host_fd >= 0; i++) {
        struct request request = {0, 0, 0, 0, 0, 0};
        struct io_vector part = {(u64)&request, sizeof request};
        struct control_message control = {0, 0, 0, -1, 0};
        struct message message = {0, 0, &part, 1, &control, sizeof control, 0};
        struct thread_slot *slot;
        i64 got = permitted_call(a, NR_RECVMSG, (u64)a->host_fd, (u64)&message, 0, 0, 0);
        if (got == 0) {                   /* the host could not receive its end, or has ended */
            close_fd(a->host_fd);
            a->host_fd = -1;
        }
        if (got != sizeof request)
            return;
        if (message.control_bytes < 20 || control.level != 1 || control.type != 1)
            control.fd = -1;
        slot = thread_find(a, request.tid, &hint);
        if (!slot || request.signo || !hostfile_take(a, slot, control.fd))
            close_fd(control.fd);
        if (slot && request.signo && request.clock == ASK_STACK)
            alternate_answered(slot, &request);
        else if (slot && request.signo && request.clock && request.table_addr)
            clock_begin(a, slot, (u32)request.clock);
        else if (slot && request.signo && !request.clock)
            admission_take(a, slot, request.table_addr != 0);
    }
}
