/*
 * One thread for each way to wait. usage: parked long | short [dropped]
 *
 * long:  waits that do not end while a test runs.
 * short: waits that time out every few milliseconds, for ever; the thread then does a little work.
 * dropped: as user 65534, which it became after its start as root: its own procfs files are closed to it.
 *
 * Each thread is called after its wait and has the stack start_thread → park → park_in_WAIT → the C library. It counts
 * how often the wait returned, and how often with EINTR. "ready" is followed by WAIT=TID for each thread; the report
 * has one line "WAIT returns=N eintr=N" each.
 */
#include "target.h"

#include <errno.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>

static int is_short;
static volatile int futex_word;
static sem_t semaphore;
static int silent_pair[2]; /* nobody ever writes to it */
static int epoll_fd;
static int listener;

static uint64_t period_ns(void)
{
    return is_short ? 3000000ULL : 3600000000000ULL;
}

static int period_ms(void)
{
    return (int)(period_ns() / 1000000ULL);
}

static struct timespec period(void)
{
    uint64_t ns = period_ns();
    struct timespec result = {(time_t)(ns / 1000000000ULL), (long)(ns % 1000000000ULL)};
    return result;
}

/* Each returns what the wait returned, -1 with errno set when it failed. AFTER_THE_CALL keeps the call from becoming a
 * jump, which would leave no frame of ours on the stack. */
#define AFTER_THE_CALL(result) __asm__ volatile("" : "+r"(result))

NOINLINE static int park_in_epoll_wait(void)
{
    struct epoll_event event;
    int result = epoll_wait(epoll_fd, &event, 1, period_ms());
    AFTER_THE_CALL(result);
    return result;
}

NOINLINE static int park_in_poll(void)
{
    struct pollfd input = {.fd = silent_pair[0], .events = POLLIN, .revents = 0};
    int result = poll(&input, 1, period_ms());
    AFTER_THE_CALL(result);
    return result;
}

NOINLINE static int park_in_select(void)
{
    struct timespec left = period();
    struct timeval timeout = {left.tv_sec, left.tv_nsec / 1000};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(silent_pair[0], &set);
    int result = select(silent_pair[0] + 1, &set, NULL, NULL, &timeout);
    AFTER_THE_CALL(result);
    return result;
}

NOINLINE static int park_in_nanosleep(void)
{
    struct timespec left = period();
    int result = nanosleep(&left, NULL);
    AFTER_THE_CALL(result);
    return result;
}

NOINLINE static int park_in_futex(void)
{
    struct timespec left = period();
    register struct timespec *timeout __asm__("r10") = &left;
    int result;
    /* As glibc's own locks do it. syscall(3) would do, too, but loses the number of the call on the way: a profiler that
     * has never seen this wait before cannot tell what it was. */
    __asm__ volatile("mov %[number], %%eax\n\tsyscall"
                     : "=&a"(result)
                     : [number] "i"(SYS_futex), "D"(&futex_word), "S"(FUTEX_WAIT_PRIVATE), "d"(0), "r"(timeout)
                     : "rcx", "r11", "memory");
    if (result < 0) {
        errno = -result;
        result = -1;
    }
    AFTER_THE_CALL(result);
    return result;
}

NOINLINE static int park_in_sem_timedwait(void)
{
    struct timespec until, left = period();
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += left.tv_sec + (until.tv_nsec + left.tv_nsec) / 1000000000;
    until.tv_nsec = (until.tv_nsec + left.tv_nsec) % 1000000000;
    int result = sem_timedwait(&semaphore, &until);
    AFTER_THE_CALL(result);
    return result;
}

NOINLINE static int park_in_accept(void)
{
    int result = accept(listener, NULL, NULL);
    AFTER_THE_CALL(result);
    return result;
}

/* The next three are told apart by how glibc makes the call: an argument comes back from the stack in between. */

NOINLINE static int park_in_epoll_pwait(void)
{
    struct epoll_event event;
    int result = epoll_pwait(epoll_fd, &event, 1, period_ms(), NULL);
    AFTER_THE_CALL(result);
    return result;
}

NOINLINE static int park_in_pselect(void)
{
    struct timespec left = period();
    fd_set set;
    FD_ZERO(&set);
    FD_SET(silent_pair[0], &set);
    int result = pselect(silent_pair[0] + 1, &set, NULL, NULL, &left, NULL);
    AFTER_THE_CALL(result);
    return result;
}

NOINLINE static int park_in_recv(void)
{
    char byte;
    int result = (int)recv(silent_pair[1], &byte, 1, 0);
    AFTER_THE_CALL(result);
    return result;
}

NOINLINE static int park_in_read(void)
{
    char byte;
    int result = (int)read(silent_pair[1], &byte, 1);
    AFTER_THE_CALL(result);
    return result;
}

struct wait {
    const char *name;
    int (*park)(void);
    volatile int tid;
    volatile unsigned long returns;
    volatile unsigned long eintr;
};

static struct wait waits[] = {
    {"epoll_wait", park_in_epoll_wait, 0, 0, 0},
    {"poll", park_in_poll, 0, 0, 0},
    {"select", park_in_select, 0, 0, 0},
    {"nanosleep", park_in_nanosleep, 0, 0, 0},
    {"futex", park_in_futex, 0, 0, 0},
    {"sem_timedwait", park_in_sem_timedwait, 0, 0, 0},
    {"accept", park_in_accept, 0, 0, 0},
    {"read", park_in_read, 0, 0, 0},
    {"epoll_pwait", park_in_epoll_pwait, 0, 0, 0},
    {"pselect", park_in_pselect, 0, 0, 0},
    {"recv", park_in_recv, 0, 0, 0},
};
#define WAIT_COUNT (sizeof waits / sizeof waits[0])

NOINLINE static void *park(void *argument)
{
    struct wait *wait = argument;
    volatile uint64_t sink = 1;
    pthread_setname_np(pthread_self(), wait->name);
    wait->tid = target_tid();
    for (;;) {
        int failed = wait->park() < 0;
        if (failed && errno == EINTR)
            wait->eintr++;
        wait->returns++;
        uint64_t state = sink;
        SPIN(state, 50000, 6364136223846793005ULL);
        sink = state;
    }
    return NULL;
}

static void open_waits(void)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.u64 = 0}};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    sem_init(&semaphore, 0, 0);
    socketpair(AF_UNIX, SOCK_STREAM, 0, silent_pair);
    epoll_fd = epoll_create1(0);
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, silent_pair[0], &event);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 1) != 0) {
        perror("parked: listen");
        exit(1);
    }
    if (is_short) { /* accept and read have no timeout argument: their sockets carry it */
        struct timespec left = period();
        struct timeval timeout = {left.tv_sec, left.tv_nsec / 1000};
        setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
        setsockopt(silent_pair[1], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    }
}

int main(int count, char **arguments)
{
    char facts[512] = "";
    size_t used = 0;
    int is_dropped = count == 3 && strcmp(arguments[2], "dropped") == 0;
    if (count < 2 || count > 2 + is_dropped || (strcmp(arguments[1], "long") != 0 && strcmp(arguments[1], "short") != 0)) {
        fputs("usage: parked long|short [dropped]\n", stderr);
        return 2;
    }
    if (is_dropped && (setgid(65534) != 0 || setuid(65534) != 0)) {
        perror("parked: setuid");
        return 1;
    }
    is_short = strcmp(arguments[1], "short") == 0;
    open_waits();
    for (size_t i = 0; i < WAIT_COUNT; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, park, &waits[i]);
        while (waits[i].tid == 0)
            usleep(1000);
        used += (size_t)snprintf(facts + used, sizeof facts - used, "%s=%d ", waits[i].name, waits[i].tid);
    }
    usleep(50000); /* all of them have reached their wait */
    target_ready(facts);
    target_wait_for_stop();
    for (size_t i = 0; i < WAIT_COUNT; i++)
        printf("%s returns=%lu eintr=%lu\n", waits[i].name, waits[i].returns, waits[i].eintr);
    fflush(stdout);
    _exit(0); /* the threads never end by themselves */
}
