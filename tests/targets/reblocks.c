/*
 * A worker that blocks all signals anew for each of its short jobs, as clamd's do: "long_job" takes three times as long
 * as "short_job". If somebody else changes its mask, the next job changes it back.
 */
#include "target.h"

#include <signal.h>

static volatile uint64_t sink;

NOINLINE static void job(uint64_t iterations)
{
    uint64_t state = sink | 1;
    SPIN(state, iterations, 6364136223846793005ULL);
    sink = state;
}

NOINLINE static void long_job(void)
{
    job(3000000);
    sink += 1;
}

NOINLINE static void short_job(void)
{
    job(1000000);
    sink += 2;
}

static void *work(void *unused)
{
    sigset_t all;
    (void)unused;
    sigfillset(&all);
    for (;;) {
        pthread_sigmask(SIG_SETMASK, &all, NULL);
        long_job();
        short_job();
        usleep(300);
    }
    return NULL;
}

int main(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, NULL))
        return 2;
    target_ready("");
    target_wait_for_stop();
    return 0;
}
