/*
 * main → thread: eight threads on two CPUs, always busy: work() for some 3 ms, then a look at the thread's own CPU clock,
 * a system call of less than a microsecond in which the kernel likes to end a turn. By CPU time all is work().
 */
#include "target.h"

#include <sched.h>

static volatile int stop;
static volatile uint64_t sink;

NOINLINE static void work(uint64_t iterations)
{
    uint64_t state = sink;
    SPIN(state, iterations, 6364136223846793005ULL);
    sink = state;
}

static void *thread(void *unused)
{
    struct timespec used;
    while (!stop) {
        work(3000000);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    }
    return unused;
}

int main(void)
{
    pthread_t threads[8];
    cpu_set_t all, two;
    sched_getaffinity(0, sizeof all, &all);
    CPU_ZERO(&two);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&two) < 2; cpu++)
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &two);
    sched_setaffinity(0, sizeof two, &two);
    for (int i = 0; i < 8; i++)
        if (pthread_create(&threads[i], NULL, thread, NULL) != 0)
            return 1;
    target_ready("");
    target_wait_for_stop();
    stop = 1;
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    puts("done");
    return 0;
}
