/*
 * Two threads that compute and never sleep, while the main thread waits. usage: busy alternate | blocked
 *
 *   alternate    the program has a handler that runs on an alternate stack, for a signal that never comes
 *   blocked      the two block all signals
 */
#include "target.h"

#include <signal.h>

#define THREADS 2

static volatile int stop;

NOINLINE static uint64_t spin(void)
{
    uint64_t state = 1;
    while (!stop)
        SPIN(state, 1000, 6364136223846793005ULL);
    return state;
}

static void *work(void *name)
{
    pthread_setname_np(pthread_self(), name);
    volatile uint64_t result = spin();
    (void)result;
    return NULL;
}

static void on_signal(int number)
{
    (void)number;
}

int main(int argc, char **argv)
{
    static char names[THREADS][16] = {"busy 0", "busy 1"};
    pthread_t threads[THREADS];
    sigset_t all, before;
    int is_blocked = argc > 1 && strcmp(argv[1], "blocked") == 0;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    if (!is_blocked)
        sigaction(SIGUSR1, &action, NULL);
    sigfillset(&all);
    sigemptyset(&before);
    pthread_sigmask(is_blocked ? SIG_SETMASK : SIG_BLOCK, is_blocked ? &all : &before, &before);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, names[i]))
            return 1;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    target_ready("");
    target_wait_for_stop();
    stop = 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
