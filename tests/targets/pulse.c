/*
 * Threads that compute 8 ms (of CPU time) and then wait in epoll_wait, for 4 ms, over and over. usage: pulse THREADS
 *
 * A signal or a stop ends such a wait with EINTR, and nothing begins it again. The report has one line "waits N eintr N".
 */
#include "target.h"

#include <errno.h>
#include <sys/epoll.h>

#define THREADS_MAX 8
#define COMPUTE_NS 8000000ULL
#define WAIT_MS 4

static volatile int stop;
static int epoll_fd;
static unsigned waits, eintr;

static uint64_t used_ns(void)
{
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000000000ULL + (uint64_t)used.tv_nsec;
}

NOINLINE static void compute(void)
{
    uint64_t state = 1, end_ns = used_ns() + COMPUTE_NS;
    while (used_ns() < end_ns)
        SPIN(state, 100000 + (state & 1), 6364136223846793005ULL);
}

static void *pulse(void *unused)
{
    struct epoll_event event;
    (void)unused;
    while (!stop) {
        compute();
        if (epoll_wait(epoll_fd, &event, 1, WAIT_MS) < 0 && errno == EINTR)
            __atomic_add_fetch(&eintr, 1, __ATOMIC_RELAXED);
        __atomic_add_fetch(&waits, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

int main(int count, char **arguments)
{
    int threads = count > 1 ? atoi(arguments[1]) : 1;
    pthread_t started[THREADS_MAX];
    epoll_fd = epoll_create1(0);
    for (int i = 0; i < threads; i++)
        pthread_create(&started[i], NULL, pulse, NULL);
    while (!__atomic_load_n(&waits, __ATOMIC_RELAXED))
        usleep(1000);
    target_ready("");
    target_wait_for_stop();
    stop = 1;
    for (int i = 0; i < threads; i++)
        pthread_join(started[i], NULL);
    printf("waits %u eintr %u\n", waits, eintr);
    return 0;
}
