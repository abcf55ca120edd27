/*
 * A thread that another one suspends and resumes by signals, all the time, as collectors of garbage do (D, Boehm, Mono):
 * the handler of the first signal waits in sigsuspend(2) for the second one, which is let in nowhere else. If a second one
 * is lost, the program waits for ever. usage: suspended
 *
 * Report: how often, up to now also for each line on standard input.
 */
#include "target.h"

#include <semaphore.h>
#include <signal.h>

static sem_t suspended;
static pthread_t first;
static volatile int stop;
static volatile unsigned long times;

static void on_suspend(int number)
{
    sigset_t others;
    (void)number;
    sigfillset(&others);
    sigdelset(&others, SIGUSR2);
    sem_post(&suspended);
    sigsuspend(&others);
}

static void on_resume(int number)
{
    (void)number;
}

static void *collect(void *unused)
{
    while (!stop) {
        pthread_kill(first, SIGUSR1);
        while (sem_wait(&suspended))
            ;
        pthread_kill(first, SIGUSR2);
        times++;
    }
    return unused;
}

int main(void)
{
    struct sigaction action = {.sa_flags = SA_RESTART};
    pthread_t thread;
    char line[256];
    first = pthread_self();
    sem_init(&suspended, 0, 0);
    sigfillset(&action.sa_mask);
    action.sa_handler = on_suspend;
    sigaction(SIGUSR1, &action, NULL);
    action.sa_handler = on_resume;
    sigaction(SIGUSR2, &action, NULL);
    target_ready("");
    pthread_create(&thread, NULL, collect, NULL);
    while (fgets(line, sizeof line, stdin) && line[0] != 'q') {
        printf("suspended %lu times\n", times);
        fflush(stdout);
    }
    stop = 1;
    pthread_join(thread, NULL);
    printf("suspended %lu times\n", times);
    return 0;
}
