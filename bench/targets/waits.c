/*
 * Threads that repeatedly wait for a few milliseconds, and count the waits that ended with EINTR. Built as a shared
 * library, so that a Python process can load it and every profiler can sample it: waits.py.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>

#define PERIOD_MS 5
#define KINDS 5
#define STEPS_BETWEEN 10000 /* about 15 µs of work after each wait */

struct counts {
    volatile uint64_t returns;
    volatile uint64_t eintr;
    char fill[48]; /* a cache line each */
};

static struct counts counts[KINDS * 1024];
static int silent_pair[2];

static int wait_once(int kind, int epoll_fd, sem_t *semaphore)
{
    struct timespec period = {0, PERIOD_MS * 1000000L};
    if (kind == 0) {
        struct pollfd input = {.fd = silent_pair[0], .events = POLLIN, .revents = 0};
        return poll(&input, 1, PERIOD_MS);
    }
    if (kind == 1) {
        struct epoll_event event;
        return epoll_wait(epoll_fd, &event, 1, PERIOD_MS);
    }
    if (kind == 2) {
        struct timeval timeout = {0, PERIOD_MS * 1000L};
        fd_set set;
        FD_ZERO(&set);
        FD_SET(silent_pair[0], &set);
        return select(silent_pair[0] + 1, &set, NULL, NULL, &timeout);
    }
    if (kind == 3)
        return nanosleep(&period, NULL);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += period.tv_nsec;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec++;
    }
    return sem_timedwait(semaphore, &until);
}

static void *wait_for_ever(void *argument)
{
    int number = (int)(intptr_t)argument;
    struct counts *mine = &counts[number];
    struct epoll_event event = {.events = EPOLLIN, .data = {.u64 = 0}};
    int epoll_fd = epoll_create1(0);
    sem_t semaphore;
    volatile uint64_t sink;
    sem_init(&semaphore, 0, 0);
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, silent_pair[0], &event);
    for (;;) {
        uint64_t value = 1;
        if (wait_once(number % KINDS, epoll_fd, &semaphore) < 0 && errno == EINTR)
            mine->eintr++;
        mine->returns++;
        for (int i = 0; i < STEPS_BETWEEN; i++)
            value = value * 6364136223846793005ULL + 1442695040888963407ULL;
        sink = value;
    }
    (void)sink;
    return NULL;
}

/* Start `count` threads, waits of all kinds in turn; returns 0 on success. */
int waits_start(int count)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 << 10);
    if (count > KINDS * 1024 || socketpair(AF_UNIX, SOCK_STREAM, 0, silent_pair) != 0)
        return -1;
    for (int i = 0; i < count; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, wait_for_ever, (void *)(intptr_t)i) != 0)
            return -1;
    }
    return 0;
}

/* Return the waits of one kind that returned (what == 0) or failed with EINTR (1), since the start. */
uint64_t waits_count(int kind, int what)
{
    uint64_t total = 0;
    for (int i = kind; i < KINDS * 1024; i += KINDS)
        total += what ? counts[i].eintr : counts[i].returns;
    return total;
}
