/*
 * Every wait that a signal handler can end with EINTR, each with a thread of its own that does nothing else, and the
 * books it keeps: what each wait returned, and which EINTRs the program's own signals have caused.
 *
 * A wait ends by its timeout after some milliseconds, or because the waker thread has something for it. The handlers of
 * the program's own signals look at the interrupted context: is it behind a syscall instruction with -EINTR in rax,
 * then this wait has to return EINTR. So every EINTR that comes without is somebody else's (`eintr`), and every one that
 * does not come was swallowed (`lost`).
 */
#ifndef WAITS_H
#define WAITS_H

#include "target.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <mqueue.h>
#include <semaphore.h>
#include <signal.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/ucontext.h>
#include <sys/uio.h>
#include <sys/un.h>

#define WAIT_MS 3
#define WAIT_NS (WAIT_MS * 1000000L)
#define WAKE_INTERVAL_NS 3000000L
#define SLEEP_NS(ns)                                                \
    do {                                                            \
        struct timespec sleep_ = {0, ns};                           \
        clock_nanosleep(CLOCK_MONOTONIC, 0, &sleep_, NULL);         \
    } while (0)

enum wait_kind {
    TIMED = 0,                /* must not return before WAIT_NS */
    COARSE = 1,               /* its timeout is counted in ticks of the kernel, or it is woken */
    LOOPS = 2,                /* the C library begins it again by itself */
    ENDED_BY_SIGNALS = 3,     /* returns EINTR by its nature */
};

struct wait {
    const char *name;
    long (*enter)(void);
    int expected_errno;       /* 0: returns something that is not -1 */
    enum wait_kind kind;
    volatile int tid;
    volatile unsigned long returns, own, eintr, lost, wrong, early;
    volatile uint64_t overrun_ns;
    volatile sig_atomic_t is_ended_by_own;
    volatile int last_wrong;
};

static __thread struct wait *current_wait;
static volatile int waits_end;

static int silent_pair[2], full_pair[2], silent_pipe[2], epoll_fd, listener, full_listener, uring_fd = -1;
static struct sockaddr_un full_address;
static sem_t semaphore;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition;
static volatile int futex_word, futex_woken;
static int semaphores, incoming, outgoing;
static mqd_t queue;
static aio_context_t aio;
static char bytes[65536];

static struct timespec after(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    now.tv_nsec += WAIT_NS;
    if (now.tv_nsec >= 1000000000L) {
        now.tv_sec++;
        now.tv_nsec -= 1000000000L;
    }
    return now;
}

/* A mask for the time of the call, which is the one in force anyway. */
static void mask_of_call(sigset_t *mask)
{
    pthread_sigmask(SIG_SETMASK, NULL, mask);
}

#define WAIT(name) NOINLINE static long enter_##name(void)
#define TIMESPEC(name) struct timespec name = {0, WAIT_NS}
#define INPUT(name) struct pollfd name = {.fd = silent_pair[0], .events = POLLIN, .revents = 0}
#define INPUT_SET(name) fd_set name; FD_ZERO(&name); FD_SET(silent_pair[0], &name)
#define MESSAGE(name) struct iovec name##_part = {bytes, sizeof bytes}; \
    struct msghdr name = {.msg_iov = &name##_part, .msg_iovlen = 1}
/* Keeps a call from becoming a jump. */
#define RESULT(call) long result = (call); __asm__ volatile("" : "+r"(result)); return result

WAIT(poll) { INPUT(input); RESULT(poll(&input, 1, WAIT_MS)); }
WAIT(raw_poll) { INPUT(input); RESULT(syscall(SYS_poll, &input, 1, WAIT_MS)); }
WAIT(ppoll) { INPUT(input); TIMESPEC(time); RESULT(ppoll(&input, 1, &time, NULL)); }
WAIT(ppoll_mask)
{
    INPUT(input);
    TIMESPEC(time);
    sigset_t mask;
    mask_of_call(&mask);
    RESULT(ppoll(&input, 1, &time, &mask));
}
WAIT(raw_ppoll) { INPUT(input); TIMESPEC(time); RESULT(syscall(SYS_ppoll, &input, 1, &time, NULL, 8)); }
WAIT(select)
{
    INPUT_SET(set);
    struct timeval time = {0, WAIT_NS / 1000};
    RESULT(select(silent_pair[0] + 1, &set, NULL, NULL, &time));
}
WAIT(raw_select)
{
    INPUT_SET(set);
    struct timeval time = {0, WAIT_NS / 1000};
    RESULT(syscall(SYS_select, silent_pair[0] + 1, &set, NULL, NULL, &time));
}
WAIT(pselect)
{
    INPUT_SET(set);
    TIMESPEC(time);
    sigset_t mask;
    mask_of_call(&mask);
    RESULT(pselect(silent_pair[0] + 1, &set, NULL, NULL, &time, &mask));
}
WAIT(raw_pselect6)
{
    INPUT_SET(set);
    TIMESPEC(time);
    RESULT(syscall(SYS_pselect6, silent_pair[0] + 1, &set, NULL, NULL, &time, NULL));
}
WAIT(epoll_wait) { struct epoll_event event; RESULT(epoll_wait(epoll_fd, &event, 1, WAIT_MS)); }
WAIT(raw_epoll_wait) { struct epoll_event event; RESULT(syscall(SYS_epoll_wait, epoll_fd, &event, 1, WAIT_MS)); }
WAIT(epoll_pwait)
{
    struct epoll_event event;
    sigset_t mask;
    mask_of_call(&mask);
    RESULT(epoll_pwait(epoll_fd, &event, 1, WAIT_MS, &mask));
}
WAIT(raw_epoll_pwait)
{
    struct epoll_event event;
    RESULT(syscall(SYS_epoll_pwait, epoll_fd, &event, 1, WAIT_MS, NULL, 8));
}
WAIT(raw_epoll_pwait2)
{
    struct epoll_event event;
    TIMESPEC(time);
    RESULT(syscall(SYS_epoll_pwait2, epoll_fd, &event, 1, &time, NULL, 8));
}
WAIT(nanosleep) { TIMESPEC(time); struct timespec left; RESULT(nanosleep(&time, &left)); }
WAIT(usleep) { RESULT(usleep(WAIT_NS / 1000)); }
WAIT(raw_nanosleep) { TIMESPEC(time); RESULT(syscall(SYS_nanosleep, &time, NULL)); }
/* clock_nanosleep(2) returns the error itself. */
WAIT(clock_nanosleep)
{
    TIMESPEC(time);
    int error = clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
    errno = error;
    RESULT(error ? -1 : 0);
}
WAIT(clock_nanosleep_until)
{
    struct timespec time = after(CLOCK_MONOTONIC);
    int error = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
    errno = error;
    RESULT(error ? -1 : 0);
}
WAIT(raw_clock_nanosleep) { TIMESPEC(time); RESULT(syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &time, NULL)); }
WAIT(raw_futex) { TIMESPEC(time); RESULT(syscall(SYS_futex, &futex_word, FUTEX_WAIT_PRIVATE, 0, &time, NULL, 0)); }
WAIT(raw_futex_until)
{
    struct timespec time = after(CLOCK_MONOTONIC);
    RESULT(syscall(SYS_futex, &futex_word, FUTEX_WAIT_BITSET_PRIVATE, 0, &time, NULL, -1));
}
WAIT(raw_futex_forever)
{
    int seen = futex_woken;
    long result = syscall(SYS_futex, &futex_woken, FUTEX_WAIT, seen, NULL, NULL, 0);
    return result == -1 && errno == EAGAIN ? 0 : result; /* the waker was faster */
}
WAIT(raw_futex_waitv)
{
    struct timespec time = after(CLOCK_MONOTONIC);
    struct { uint64_t value, address; uint32_t flags, reserved; } waiter = {0, (uintptr_t)&futex_word, 2 | 128, 0};
    RESULT(syscall(449, &waiter, 1, 0, &time, CLOCK_MONOTONIC));
}
WAIT(sem_timedwait) { struct timespec time = after(CLOCK_REALTIME); RESULT(sem_timedwait(&semaphore, &time)); }
WAIT(pthread_cond_timedwait)
{
    struct timespec time = after(CLOCK_REALTIME);
    pthread_mutex_lock(&mutex);
    int error = pthread_cond_timedwait(&condition, &mutex, &time);
    pthread_mutex_unlock(&mutex);
    errno = error;
    RESULT(error ? -1 : 0);
}
WAIT(recv) { RESULT(recv(silent_pair[1], bytes, 1, 0)); }
WAIT(raw_recvfrom) { RESULT(syscall(SYS_recvfrom, silent_pair[1], bytes, 1, 0, NULL, NULL)); }
WAIT(recvmsg) { MESSAGE(message); RESULT(recvmsg(silent_pair[1], &message, 0)); }
WAIT(recvmmsg)
{
    MESSAGE(message);
    struct mmsghdr many = {.msg_hdr = message};
    RESULT(recvmmsg(silent_pair[1], &many, 1, 0, NULL));
}
WAIT(read_socket) { RESULT(read(silent_pair[1], bytes, 1)); }
WAIT(readv_socket) { struct iovec part = {bytes, 1}; RESULT(readv(silent_pair[1], &part, 1)); }
WAIT(accept) { RESULT(accept(listener, NULL, NULL)); }
WAIT(accept4) { RESULT(accept4(listener, NULL, NULL, SOCK_CLOEXEC)); }
WAIT(send) { RESULT(send(full_pair[0], bytes, sizeof bytes, 0)); }
WAIT(sendmsg) { MESSAGE(message); RESULT(sendmsg(full_pair[0], &message, 0)); }
WAIT(sendmmsg)
{
    MESSAGE(message);
    struct mmsghdr many = {.msg_hdr = message};
    RESULT(sendmmsg(full_pair[0], &many, 1, 0));
}
WAIT(write_socket) { RESULT(write(full_pair[0], bytes, sizeof bytes)); }
WAIT(writev_socket) { struct iovec part = {bytes, sizeof bytes}; RESULT(writev(full_pair[0], &part, 1)); }
WAIT(connect)
{
    struct timeval time = {0, WAIT_NS / 1000};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
    long result = connect(fd, (struct sockaddr *)&full_address, sizeof full_address);
    int error = errno;
    close(fd);
    errno = error;
    return result;
}
WAIT(read_pipe) { RESULT(read(silent_pipe[0], bytes, 1)); }
WAIT(sigtimedwait)
{
    sigset_t set;
    TIMESPEC(time);
    sigemptyset(&set);
    sigaddset(&set, SIGRTMAX);
    RESULT(sigtimedwait(&set, NULL, &time));
}
WAIT(raw_rt_sigtimedwait)
{
    sigset_t set;
    TIMESPEC(time);
    sigemptyset(&set);
    sigaddset(&set, SIGRTMAX);
    RESULT(syscall(SYS_rt_sigtimedwait, &set, NULL, &time, 8));
}
WAIT(semop) { struct sembuf down = {0, -1, 0}; RESULT(semop(semaphores, &down, 1)); }
WAIT(semtimedop) { struct sembuf down = {1, -1, 0}; TIMESPEC(time); RESULT(semtimedop(semaphores, &down, 1, &time)); }
WAIT(msgrcv) { struct { long type; char text[8]; } message; RESULT(msgrcv(incoming, &message, 8, 0, 0)); }
WAIT(msgsnd)
{
    struct { long type;
    char text[8192];
    } message = {.type = 1};
    RESULT(msgsnd(outgoing, &message, 8192, 0));
}
WAIT(mq_timedreceive)
{
    struct timespec time = after(CLOCK_REALTIME);
    char text[8];
    RESULT(mq_timedreceive(queue, text, sizeof text, NULL, &time));
}
WAIT(raw_io_getevents)
{
    struct io_event event;
    TIMESPEC(time);
    RESULT(syscall(SYS_io_getevents, aio, 1, 1, &event, &time));
}
WAIT(raw_io_uring_enter)
{
    struct __kernel_timespec time = {0, WAIT_NS};
    struct io_uring_getevents_arg argument = {.ts = (uintptr_t)&time};
    RESULT(syscall(SYS_io_uring_enter, uring_fd, 0, 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &argument,
                   sizeof argument));
}
/* As glibc does it since 2.41: all calls that can be cancelled share one syscall instruction. */
__asm__(".text\n.type shared_syscall,@function\nshared_syscall:\n.cfi_startproc\n"
        "mov %rdi,%r11\nmov %rsi,%rax\nmov %rdx,%rdi\nmov %rcx,%rsi\nmov %r8,%rdx\nmov %r9,%r10\n"
        "mov 8(%rsp),%r8\nmov 16(%rsp),%r9\nmov %r11,8(%rsp)\nsyscall\nret\n.cfi_endproc\n"
        ".size shared_syscall,.-shared_syscall\n");
long shared_syscall(volatile int *cancelled, long number, long a, long b, long c, long d, long e, long f);

NOINLINE static long cancellable(long a, long b, long c, long d, long e, long f, long number)
{
    volatile int cancelled = 0;
    long result = shared_syscall(&cancelled, number, a, b, c, d, e, f);
    if (result < 0) {
        errno = (int)-result;
        result = -1;
    }
    return result;
}

WAIT(shared_poll) { INPUT(input); RESULT(cancellable((long)&input, 1, WAIT_MS, 0, 0, 0, SYS_poll)); }
WAIT(shared_epoll_wait)
{
    struct epoll_event event;
    RESULT(cancellable(epoll_fd, (long)&event, 1, WAIT_MS, 0, 0, SYS_epoll_wait));
}
/* Code like a JIT's, at the very beginning of its page, with nothing mapped before. */
static long (*poll_at_edge)(struct pollfd *, unsigned long, int);

static void edge_open(void)
{
    static const unsigned char code[] = {0xb8, SYS_poll, 0, 0, 0, 0x0f, 0x05, 0xc3}; /* mov $7,%eax; syscall; ret */
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(pages, 4096);
    memcpy(pages + 4096, code, sizeof code);
    mprotect(pages + 4096, 4096, PROT_READ | PROT_EXEC);
    poll_at_edge = (long (*)(struct pollfd *, unsigned long, int))(uintptr_t)(pages + 4096);
}

WAIT(edge_poll)
{
    INPUT(input);
    long result = poll_at_edge(&input, 1, WAIT_MS);
    if (result < 0) {
        errno = (int)-result;
        result = -1;
    }
    return result;
}

WAIT(pause) { RESULT(pause()); }
WAIT(sigsuspend) { sigset_t mask; mask_of_call(&mask); RESULT(sigsuspend(&mask)); }

#define W(name, expected, kind) {#name, enter_##name, expected, kind, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
static struct wait waits[] = {
    W(poll, 0, TIMED), W(raw_poll, 0, TIMED), W(ppoll, 0, TIMED), W(ppoll_mask, 0, TIMED), W(raw_ppoll, 0, TIMED),
    W(select, 0, TIMED), W(raw_select, 0, TIMED), W(pselect, 0, TIMED), W(raw_pselect6, 0, TIMED),
    W(epoll_wait, 0, TIMED), W(raw_epoll_wait, 0, TIMED), W(epoll_pwait, 0, TIMED), W(raw_epoll_pwait, 0, TIMED),
    W(raw_epoll_pwait2, 0, TIMED), W(nanosleep, 0, TIMED), W(usleep, 0, TIMED), W(raw_nanosleep, 0, TIMED),
    W(clock_nanosleep, 0, TIMED), W(clock_nanosleep_until, 0, TIMED), W(raw_clock_nanosleep, 0, TIMED),
    W(raw_futex, ETIMEDOUT, TIMED), W(raw_futex_until, ETIMEDOUT, TIMED), W(raw_futex_forever, 0, COARSE),
    W(raw_futex_waitv, ETIMEDOUT, TIMED), W(sem_timedwait, ETIMEDOUT, COARSE),
    W(pthread_cond_timedwait, ETIMEDOUT, LOOPS),
    W(recv, EAGAIN, COARSE), W(raw_recvfrom, EAGAIN, COARSE), W(recvmsg, EAGAIN, COARSE), W(recvmmsg, EAGAIN, COARSE),
    W(read_socket, EAGAIN, COARSE), W(readv_socket, EAGAIN, COARSE), W(accept, EAGAIN, COARSE),
    W(accept4, EAGAIN, COARSE),
    W(send, EAGAIN, COARSE), W(sendmsg, EAGAIN, COARSE), W(sendmmsg, EAGAIN, COARSE), W(write_socket, EAGAIN, COARSE),
    W(writev_socket, EAGAIN, COARSE), W(connect, EAGAIN, COARSE), W(read_pipe, 0, COARSE),
    W(sigtimedwait, EAGAIN, TIMED), W(raw_rt_sigtimedwait, EAGAIN, TIMED), W(semop, 0, COARSE),
    W(semtimedop, EAGAIN, COARSE), W(msgrcv, 0, COARSE), W(msgsnd, 0, COARSE), W(mq_timedreceive, ETIMEDOUT, COARSE),
    W(edge_poll, 0, TIMED), W(shared_poll, 0, TIMED), W(shared_epoll_wait, 0, TIMED), W(raw_io_getevents, 0, TIMED),
    W(raw_io_uring_enter, ETIME, TIMED), W(pause, EINTR, ENDED_BY_SIGNALS),
    W(sigsuspend, EINTR, ENDED_BY_SIGNALS),
};
#define WAIT_COUNT (sizeof waits / sizeof waits[0])

static void die(const char *what)
{
    perror(what);
    exit(3);
}

static void waits_open(void)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.u64 = 0}};
    struct timeval time = {0, WAIT_NS / 1000};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct mq_attr attributes = {.mq_maxmsg = 1, .mq_msgsize = 8};
    char name[32];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, silent_pair) || socketpair(AF_UNIX, SOCK_STREAM, 0, full_pair) ||
        pipe(silent_pipe))
        die("waits: sockets");
    setsockopt(silent_pair[1], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    while (send(full_pair[0], bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
    setsockopt(full_pair[0], SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
    epoll_fd = epoll_create1(0);
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, silent_pair[0], &event);
    listener = socket(AF_UNIX, SOCK_STREAM, 0);
    full_listener = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "flametap-waits-%d", getpid());
    full_address = address;
    full_address.sun_path[1] = 'F';
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 1) ||
        bind(full_listener, (struct sockaddr *)&full_address, sizeof full_address) || listen(full_listener, 0))
        die("waits: listen");
    setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    for (int i = 0, fd; i < 4; i++) { /* nobody accepts: the next one has to wait */
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (connect(fd, (struct sockaddr *)&full_address, sizeof full_address))
            break;
    }
    edge_open();
    sem_init(&semaphore, 0, 0);
    pthread_cond_init(&condition, NULL);
    semaphores = semget(IPC_PRIVATE, 2, 0600);
    incoming = msgget(IPC_PRIVATE, 0600);
    outgoing = msgget(IPC_PRIVATE, 0600);
    snprintf(name, sizeof name, "/flametap-waits-%d", getpid());
    queue = mq_open(name, O_RDONLY | O_CREAT, 0600, &attributes);
    mq_unlink(name);
    if (semaphores < 0 || incoming < 0 || outgoing < 0 || queue < 0)
        die("waits: ipc");
    if (syscall(SYS_io_setup, 4, &aio))
        die("waits: io_setup");
    struct io_uring_params parameters = {.flags = 0};
    uring_fd = (int)syscall(SYS_io_uring_setup, 4, &parameters); /* not allowed everywhere */
    if (uring_fd >= 0 && !(parameters.features & IORING_FEAT_EXT_ARG)) {
        close(uring_fd); /* before 5.11: a wait has no timeout */
        uring_fd = -1;
    }
}

static void waits_close(void)
{
    semctl(semaphores, 0, IPC_RMID);
    msgctl(incoming, IPC_RMID, NULL);
    msgctl(outgoing, IPC_RMID, NULL);
}

/* Ends the waits that have no timeout, now and then. */
static void *waker(void *argument)
{
    struct { long type; char text[8192]; } message = {.type = 1};
    (void)argument;
    while (!waits_end) {
        struct sembuf up = {0, 1, IPC_NOWAIT};
        semop(semaphores, &up, 1);
        msgsnd(incoming, &message, 8, IPC_NOWAIT);
        while (msgrcv(outgoing, &message, sizeof message.text, 0, IPC_NOWAIT) > 0)
            ;
        futex_woken++;
        syscall(SYS_futex, &futex_woken, FUTEX_WAKE, 100, NULL, NULL, 0);
        if (write(silent_pipe[1], "", 1) < 0)
            break;
        SLEEP_NS(WAKE_INTERVAL_NS);
    }
    return NULL;
}

static void on_own_signal(int number, siginfo_t *info, void *context)
{
    const greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const unsigned char *code = (const unsigned char *)registers[REG_RIP];
    (void)number;
    (void)info;
    if (current_wait && registers[REG_RAX] == -EINTR && code[-2] == 0x0f && code[-1] == 0x05)
        current_wait->is_ended_by_own = 1;
}

/*
 * SIGUSR1 lets other signals in while it is handled, SIGUSR2 none; neither restarts a call. SIGALRM goes to the process,
 * and only one thread takes it: of several the kernel would wake one, and let another take the signal, which gives
 * an EINTR without a signal to the first (epoll_wait, recvmmsg, sigtimedwait, io_uring_enter).
 */
static void own_signals_install(void)
{
    sigset_t alarm;
    struct sigaction action = {.sa_flags = SA_SIGINFO};
    action.sa_sigaction = on_own_signal;
    sigemptyset(&action.sa_mask);
    sigaction(SIGUSR1, &action, NULL);
    sigfillset(&action.sa_mask);
    sigaction(SIGUSR2, &action, NULL);
    sigemptyset(&action.sa_mask);
    sigaction(SIGALRM, &action, NULL);
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, NULL);
}

/* Sends the program's own signals: to each thread in turn, and to the process. */
static void *own_signals_send(void *argument)
{
    (void)argument;
    for (unsigned i = 0; !waits_end; i++) {
        syscall(SYS_tgkill, getpid(), waits[i % WAIT_COUNT].tid, i / WAIT_COUNT % 2 ? SIGUSR1 : SIGUSR2);
        if (i % 8 == 0)
            kill(getpid(), SIGALRM);
        SLEEP_NS(200000);
    }
    return NULL;
}

static void *wait_again_and_again(void *argument)
{
    struct wait *wait = argument;
    wait->tid = target_tid();
    pthread_setname_np(pthread_self(), wait->name);
    current_wait = wait;
    if (wait->enter == enter_poll) {
        sigset_t alarm;
        sigemptyset(&alarm);
        sigaddset(&alarm, SIGALRM);
        pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
    }
    while (!waits_end) {
        wait->is_ended_by_own = 0;
        uint64_t began = target_now_ns();
        errno = 0;
        long result = wait->enter();
        int error = result == -1 ? errno : 0;
        uint64_t lasted = target_now_ns() - began;
        if (error == ENOSYS) /* an older kernel */
            break;
        wait->returns++;
        if (wait->kind == ENDED_BY_SIGNALS) {
            wait->eintr += !wait->is_ended_by_own;
            continue;
        }
        if (error == EINTR) {
            if (wait->is_ended_by_own)
                wait->own++;
            else
                wait->eintr++;
            continue;
        }
        wait->lost += wait->is_ended_by_own && wait->kind != LOOPS;
        if (error != wait->expected_errno) {
            wait->wrong++;
            wait->last_wrong = error;
        }
        if (wait->kind == TIMED && lasted < WAIT_NS)
            wait->early++;
        if (wait->kind == TIMED && lasted > WAIT_NS && lasted - WAIT_NS > wait->overrun_ns)
            wait->overrun_ns = lasted - WAIT_NS;
    }
    return NULL;
}

/* Starts all threads; `with_signals` also those that send signals. */
static void waits_begin(int with_signals)
{
    pthread_t thread;
    waits_open();
    if (with_signals)
        own_signals_install();
    for (size_t i = 0; i < WAIT_COUNT; i++) {
        if (waits[i].enter == enter_raw_io_uring_enter && uring_fd < 0)
            continue;
        if (pthread_create(&thread, NULL, wait_again_and_again, &waits[i]))
            die("waits: pthread_create");
        while (waits[i].tid == 0)
            SLEEP_NS(100000);
    }
    pthread_create(&thread, NULL, waker, NULL);
    if (with_signals)
        pthread_create(&thread, NULL, own_signals_send, NULL);
}

static void waits_report(FILE *to)
{
    for (size_t i = 0; i < WAIT_COUNT; i++) {
        struct wait *wait = &waits[i];
        if (wait->tid)
            fprintf(to, "%s returns=%lu own=%lu eintr=%lu lost=%lu wrong=%lu early=%lu overrun_us=%lu errno=%d\n",
                    wait->name, wait->returns, wait->own, wait->eintr, wait->lost, wait->wrong, wait->early,
                    (unsigned long)(wait->overrun_ns / 1000), wait->last_wrong);
    }
    fflush(to);
}

#endif
