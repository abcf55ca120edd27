/*
 * The main thread waits without an end in a call that a tracer's stop ends with EINTR, signal(7).
 * usage: endless epoll_wait | epoll_pwait | epoll_pwait2 | semop | sigwait | signalled
 *
 * signalled: epoll_wait, which only SIGUSR1 ends: an EINTR of its own.
 * The report is "NAME returns=N eintr=N".
 */
#include "target.h"

#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/sem.h>

static const char *name;
static pthread_t main_thread;
static int semaphore;

static void handle(int number)
{
    (void)number;
}

/* When standard input ends, so does the wait. */
static void *end_wait(void *argument)
{
    struct sembuf up = {.sem_num = 0, .sem_op = 1, .sem_flg = 0};
    target_wait_for_stop();
    if (strcmp(name, "semop") == 0)
        semop(semaphore, &up, 1);
    else
        pthread_kill(main_thread, SIGUSR1);
    return argument;
}

static long wait_once(int epoll, const sigset_t *signals)
{
    struct epoll_event event;
    struct sembuf down = {.sem_num = 0, .sem_op = -1, .sem_flg = 0};
    if (strcmp(name, "epoll_pwait") == 0)
        return epoll_pwait(epoll, &event, 1, -1, NULL);
    if (strcmp(name, "epoll_pwait2") == 0)
        return syscall(SYS_epoll_pwait2, epoll, &event, 1, NULL, NULL, 0);
    if (strcmp(name, "semop") == 0)
        return semop(semaphore, &down, 1);
    if (strcmp(name, "sigwait") == 0)
        return sigwaitinfo(signals, NULL);
    return epoll_wait(epoll, &event, 1, -1);
}

int main(int count, char **arguments)
{
    unsigned returns = 0, eintr = 0;
    sigset_t signals;
    pthread_t thread;
    if (count != 2)
        return 2;
    name = arguments[1];
    main_thread = pthread_self();
    int epoll = epoll_create1(0);
    struct epoll_event input = {.events = EPOLLIN};
    signal(SIGUSR1, handle);
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    if (strcmp(name, "signalled") != 0) {
        sigprocmask(SIG_BLOCK, &signals, NULL);
        semaphore = semget(IPC_PRIVATE, 1, 0600);
        if (strncmp(name, "epoll", 5) == 0)
            epoll_ctl(epoll, EPOLL_CTL_ADD, 0, &input);
        else
            pthread_create(&thread, NULL, end_wait, NULL);
    }
    target_ready("");
    while (!returns) {
        if (wait_once(epoll, &signals) >= 0)
            returns++;
        else if (errno == EINTR)
            eintr++;
        else
            return 3;
        returns += strcmp(name, "signalled") == 0;
    }
    semctl(semaphore, 0, IPC_RMID);
    printf("%s returns=%u eintr=%u\n", name, returns, eintr);
    return 0;
}
