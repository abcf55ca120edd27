/*
 * Threads that wake, work for a moment and sleep again, so that most of their CPU time falls between the ticks of a
 * profiler; one that never sleeps; one that never sleeps and blocks every signal. "ready" is followed by NAME=TID.
 */
#include "target.h"

#include <signal.h>

static volatile int stop;

struct shape {
    const char *name;
    uint64_t iterations; /* about a nanosecond each */
    long sleep_ns;       /* 0: never sleeps */
    int blocks_signals;
    volatile int tid;
};

static struct shape shapes[] = {
    {"short-often", 100000, 1000000, 0, 0},
    {"short-rare", 100000, 10000000, 0, 0},
    {"long-rare", 3000000, 10000000, 0, 0},
    {"steady", 1000000, 0, 0, 0},
    {"masked", 1000000, 0, 1, 0},
};
#define SHAPE_COUNT (sizeof shapes / sizeof shapes[0])

NOINLINE static uint64_t burst(uint64_t state, uint64_t iterations)
{
    SPIN(state, iterations, 6364136223846793005ULL);
    return state;
}

NOINLINE static void *live(void *argument)
{
    struct shape *shape = argument;
    struct timespec pause = {0, shape->sleep_ns};
    volatile uint64_t sink = 1;
    pthread_setname_np(pthread_self(), shape->name);
    if (shape->blocks_signals) {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, NULL);
    }
    shape->tid = target_tid();
    while (!stop) {
        sink = burst(sink, shape->iterations);
        if (shape->sleep_ns)
            nanosleep(&pause, NULL);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[SHAPE_COUNT];
    char facts[512] = "";
    size_t used = 0;
    for (size_t i = 0; i < SHAPE_COUNT; i++) {
        pthread_create(&threads[i], NULL, live, &shapes[i]);
        while (shapes[i].tid == 0)
            usleep(1000);
        used += (size_t)snprintf(facts + used, sizeof facts - used, "%s=%d ", shapes[i].name, shapes[i].tid);
    }
    target_ready(facts);
    target_wait_for_stop();
    stop = 1;
    for (size_t i = 0; i < SHAPE_COUNT; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
