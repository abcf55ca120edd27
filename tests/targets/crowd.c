/*
 * A crowd that sleeps, in a program that gave up its user: its own procfs files are closed to it. usage: crowd THREADS
 *
 * Each thread has the stack start_thread → sleeper → sleep_for_good → epoll_wait. The wait lasts longer than any test
 * and ends early only by a signal. The report has one line "returns N eintr N": how many waits have ended, and how many
 * of them with EINTR.
 */
#include "target.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#define NOBODY 65534
#define STACK_BYTES 65536
#define FOR_GOOD_MS 3600000

static int epoll_fd;
static unsigned asleep, returns, eintr;

/* Not inlined, and not left by a jump: it is to be seen on the stack. */
NOINLINE static int sleep_for_good(void)
{
    struct epoll_event event;
    int result = epoll_wait(epoll_fd, &event, 1, FOR_GOOD_MS);
    __asm__ volatile("" : "+r"(result));
    return result;
}

static void *sleeper(void *unused)
{
    (void)unused;
    __atomic_add_fetch(&asleep, 1, __ATOMIC_RELAXED);
    for (;;) {
        if (sleep_for_good() < 0 && errno == EINTR)
            __atomic_add_fetch(&eintr, 1, __ATOMIC_RELAXED);
        __atomic_add_fetch(&returns, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

int main(int count, char **arguments)
{
    unsigned threads = count > 1 ? (unsigned)atoi(arguments[1]) : 1;
    struct rlimit files = {2048, 2048}; /* of which the agent keeps one open for each thread */
    pthread_attr_t small;
    setrlimit(RLIMIT_NOFILE, &files);
    if (setgid(NOBODY) != 0 || setuid(NOBODY) != 0 || prctl(PR_GET_DUMPABLE) == 1) {
        perror("crowd: still root");
        return 1;
    }
    epoll_fd = epoll_create1(0);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK_BYTES);
    for (unsigned i = 0; i < threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &small, sleeper, NULL) != 0) {
            perror("crowd: pthread_create");
            return 1;
        }
    }
    while (__atomic_load_n(&asleep, __ATOMIC_RELAXED) < threads)
        usleep(1000);
    target_ready("");
    target_wait_for_stop();
    printf("returns %u eintr %u\n", returns, eintr);
    fflush(stdout);
    _exit(0); /* the threads never end by themselves */
}
