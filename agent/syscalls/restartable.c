/*
 * Properties of each system call that returns EINTR after a signal handler in spite of SA_RESTART (signal(7)): whether
 * our signal can have ended it, and how to restart it. All of this may run in the handler: no libc, no locks, no
 * allocation; the target's memory is read through the kernel.
 *
 * Never restarted, so not listed: pause and rt_sigsuspend, which exist to be ended by a signal; close, which has taken
 * effect; calls that the kernel restarts by itself, where an EINTR is caused by a handler of the target's own.
 */

enum {
    NR_WRITE = 1, NR_POLL = 7, NR_READV = 19, NR_WRITEV = 20, NR_SELECT = 23, NR_NANOSLEEP = 35,
    NR_ACCEPT = 43, NR_RECVFROM = 45, NR_SENDMSG = 46, NR_SEMOP = 65, NR_MSGSND = 69,
    NR_MSGRCV = 70, NR_RT_SIGPENDING = 127, NR_RT_SIGTIMEDWAIT = 128, NR_IO_GETEVENTS = 208, NR_SEMTIMEDOP = 220,
    NR_EPOLL_WAIT = 232, NR_PSELECT6 = 270, NR_PPOLL = 271, NR_EPOLL_PWAIT = 281, NR_ACCEPT4 = 288, NR_RECVMMSG = 299,
    NR_SENDMMSG = 307, NR_IO_PGETEVENTS = 333, NR_IO_URING_ENTER = 426, NR_EPOLL_PWAIT2 = 441,
};

#define SOL_SOCKET_LEVEL 1
#define SO_RCVTIMEO_NAME 20
#define SO_SNDTIMEO_NAME 21
#define FUTEX_COMMAND_MASK 127            /* without FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME */
#define FUTEX_WAIT_COMMAND 0
#define FUTEX_WAIT_BITSET_COMMAND 9
#define IO_URING_EXT_ARG 8                /* io_uring_enter(2): IORING_ENTER_EXT_ARG */

/* Return whether the socket has a timeout. Without one the kernel restarts the call itself (net/core/sock.h,
 * sock_intr_errno). Context: signal. */
static u32 has_socket_timeout_sigsafe(const struct agent *a, u64 fd, u64 option)
{
    u64 timeout[2] = {0, 0};
    u32 bytes = sizeof timeout;
    i64 error = permitted_call_sigsafe(a, NR_GETSOCKOPT, fd, SOL_SOCKET_LEVEL, option, (u64)timeout, (u64)&bytes);
    return error == 0 && (timeout[0] || timeout[1]);
}

/* Return whether the call has a signal mask that holds only while it lasts. Sets `during`, 0 if it has none. Context:
 * signal. */
static u32 mask_during_call_sigsafe(const struct agent *a, i64 nr, const u64 *gregs, u64 *during)
{
    u64 pointer = 0;
    switch (nr) {
    case NR_PPOLL:
        pointer = gregs[GREG_R10];
        break;
    case NR_EPOLL_PWAIT: case NR_EPOLL_PWAIT2:
        pointer = gregs[GREG_R8];
        break;
    case NR_PSELECT6: case NR_IO_PGETEVENTS:                  /* a pointer to {mask, size} */
        pointer = word_of_target_sigsafe(a, gregs[GREG_R9]);
        break;
    case NR_IO_URING_ENTER:
        pointer = gregs[GREG_R10] & IO_URING_EXT_ARG ? word_of_target_sigsafe(a, gregs[GREG_R8]) : gregs[GREG_R8];
        break;
    default:
        break;
    }
    *during = word_of_target_sigsafe(a, pointer);
    return pointer != 0;
}

/*
 * Return whether call `nr` with these arguments can be restarted without effect on the program. 0 if the kernel
 * restarts the call by itself: then an EINTR is not ours. Context: signal.
 */
static u32 is_restartable_sigsafe(const struct agent *a, i64 nr, const u64 *gregs)
{
    u64 command;
    switch (nr) {
    case NR_POLL: case NR_SELECT: case NR_NANOSLEEP: case NR_SEMOP: case NR_MSGSND: case NR_MSGRCV:
    case NR_IO_GETEVENTS: case NR_SEMTIMEDOP: case NR_CLOCK_NANOSLEEP: case NR_EPOLL_WAIT: case NR_PSELECT6:
    case NR_PPOLL: case NR_EPOLL_PWAIT: case NR_IO_PGETEVENTS: case NR_IO_URING_ENTER: case NR_EPOLL_PWAIT2:
    case NR_RT_SIGTIMEDWAIT:              /* signals that it waits for stay pending until it is called again */
        return 1;
    case NR_FUTEX:                        /* without a timeout the kernel restarts it: kernel/futex/waitwake.c */
        command = gregs[GREG_RSI] & FUTEX_COMMAND_MASK;
        return gregs[GREG_R10] != 0 && (command == FUTEX_WAIT_COMMAND || command == FUTEX_WAIT_BITSET_COMMAND);
    case NR_READ: case NR_READV: case NR_RECVFROM: case NR_RECVMSG: case NR_RECVMMSG: case NR_ACCEPT: case NR_ACCEPT4:
        return has_socket_timeout_sigsafe(a, gregs[GREG_RDI], SO_RCVTIMEO_NAME);
    case NR_WRITE: case NR_WRITEV: case NR_SENDTO: case NR_SENDMSG: case NR_SENDMMSG:
    case NR_CONNECT:                      /* continues the same attempt, as after the kernel's own restart */
        return has_socket_timeout_sigsafe(a, gregs[GREG_RDI], SO_SNDTIMEO_NAME);
    default:
        return 0;
    }
}

/* Return whether these arguments are valid for call `nr`. This also checks a number found in code. Context: signal. */
static u32 is_plausible_sigsafe(i64 nr, const u64 *gregs)
{
    u64 first = gregs[GREG_RDI], second = gregs[GREG_RSI], third = gregs[GREG_RDX];
    switch (nr) {
    case NR_FUTEX:
        return first > 4095 && !(first & 3) && (second >> 32 == 0 || second >> 31 == 0x1ffffffffULL);
    case NR_POLL: case NR_PPOLL:
        return (u32)second < (1U << 20) && (first > 4095 || (u32)second == 0);
    case NR_SELECT: case NR_PSELECT6:
        return (u32)first < (1U << 20);
    case NR_NANOSLEEP:
        return first > 4095;
    case NR_CLOCK_NANOSLEEP:
        return third > 4095;
    case NR_EPOLL_WAIT: case NR_EPOLL_PWAIT: case NR_EPOLL_PWAIT2:
        return (u32)first < (1U << 20) && second > 4095 && (u32)third < (1U << 20);
    case NR_RT_SIGTIMEDWAIT:
        return first > 4095 && gregs[GREG_R10] == 8;
    default:
        return 1;                         /* socket calls are checked by the timeout, which only sockets have */
    }
}

/* Return the register that holds a call's timeout in milliseconds, -1 if none does. */
static i32 timeout_register_sigsafe(i64 nr)
{
    return nr == NR_POLL ? GREG_RDX : nr == NR_EPOLL_WAIT || nr == NR_EPOLL_PWAIT ? GREG_R10 : -1;
}

/* Return whether a wait uses almost no CPU time: CPU time was then used before it. Context: signal. */
static u32 is_sleep_sigsafe(i64 nr)
{
    return nr == NR_NANOSLEEP || nr == NR_CLOCK_NANOSLEEP || nr == NR_FUTEX || nr == NR_POLL || nr == NR_SELECT ||
           nr == NR_PSELECT6 || nr == NR_PPOLL;
}
