/*
 * Two threads that compute, while the main thread waits. usage: busy alternate | profiled | blocked | many
 *
 *   alternate    the program has a handler that runs on an alternate stack, for a signal that never comes
 *   profiled     it has one that runs a fifth of the time, by a timer, as profilers within a program have; the two sleep
 *                for a moment each millisecond
 *   blocked      the two block all signals
 *   many         there are a hundred of them
 *
 * The report says how often the timer's handler has run.
 */
#include "target.h"

#include <signal.h>
#include <sys/time.h>

#define THREADS 2
#define MANY 100
#define TIMER_US 1000                     /* the kernel's tick makes that 4 ms */
#define HANDLER_NS 800000

static volatile int stop, naps;
static volatile unsigned long handled;

NOINLINE static uint64_t spin(void)
{
    uint64_t state = 1;
    while (!stop) {
        SPIN(state, 1000000, 6364136223846793005ULL);
        if (naps)
            usleep(1);
    }
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

NOINLINE static void on_timer(int number)
{
    uint64_t until_ns = target_now_ns() + HANDLER_NS;
    (void)number;
    while (target_now_ns() < until_ns) {
    }
    __atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
}

int main(int argc, char **argv)
{
    static char names[THREADS][16] = {"busy 0", "busy 1"};
    pthread_t threads[MANY];
    int count = argc > 1 && strcmp(argv[1], "many") == 0 ? MANY : THREADS;
    sigset_t all, before;
    int is_blocked = argc > 1 && strcmp(argv[1], "blocked") == 0;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    int is_profiled = argc > 1 && strcmp(argv[1], "profiled") == 0;
    struct sigaction on_tick = {.sa_handler = on_timer, .sa_flags = SA_ONSTACK | SA_RESTART};
    struct itimerval timer = {{0, TIMER_US}, {0, TIMER_US}};
    naps = is_profiled;
    if (is_profiled)
        sigaction(SIGPROF, &on_tick, NULL);
    else if (!is_blocked)
        sigaction(SIGUSR1, &action, NULL);
    sigfillset(&all);
    sigemptyset(&before);
    pthread_sigmask(is_blocked ? SIG_SETMASK : SIG_BLOCK, is_blocked ? &all : &before, &before);
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, work, names[i % THREADS]))
            return 1;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (is_profiled)
        setitimer(ITIMER_PROF, &timer, NULL);
    target_ready("");
    target_wait_for_stop();
    stop = 1;
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    printf("handled=%lu\n", handled);
    return 0;
}
