/*
 * Workers that block all signals and compute, as servers have; the main thread blocks SIGURG and SIGWINCH. "ready" is
 * followed by first=TID second=TID. Answers each line:
 *
 * listen   a thread reads both from a signalfd from now on: "listen"
 * send     100 of each signal to the process, one after the other: "send urg N winch N", as many as were read
 * direct   one SIGURG to the first worker: "direct"
 * own      the workers let in SIGUSR1 from now on: "own"
 * sleep    the workers stop computing and wait for the end: "sleep"
 */
#include "target.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/signalfd.h>

#define SENT 100

static atomic_int seen_urg, seen_winch, wants_own, have_own, must_sleep, asleep;
static int tids[2];
static sigset_t both;

NOINLINE static void work(uint64_t iterations)
{
    volatile uint64_t sink = 1;
    uint64_t state = sink;
    SPIN(state, iterations, 6364136223846793005ULL);
    sink = state;
}

static void *compute(void *argument)
{
    int *tid = argument;
    int has_own = 0;
    sigset_t mask;
    sigfillset(&mask);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    *(volatile int *)tid = target_tid();
    while (!must_sleep) {
        work(200000);
        if (wants_own && !has_own) {
            sigdelset(&mask, SIGUSR1);
            pthread_sigmask(SIG_SETMASK, &mask, NULL);
            has_own = 1;
            have_own++;
        }
    }
    asleep++;
    for (;;)
        pause();
    return NULL;
}

static void *read_signals(void *argument)
{
    struct signalfd_siginfo info;
    while (read(*(int *)argument, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGURG)
            seen_urg++;
        else
            seen_winch++;
    }
    return NULL;
}

static void send_all(void)
{
    const int numbers[2] = {SIGURG, SIGWINCH};
    for (int i = 0; i < SENT * 2; i++) {
        int before = seen_urg + seen_winch;
        kill(getpid(), numbers[i % 2]);
        for (int patience = 0; seen_urg + seen_winch == before && patience < 5000; patience++)
            usleep(1000);
    }
    printf("send urg %d winch %d\n", (int)seen_urg, (int)seen_winch);
}

int main(void)
{
    char line[64], facts[128];
    static int fd;
    pthread_t thread;
    sigemptyset(&both);
    sigaddset(&both, SIGURG);
    sigaddset(&both, SIGWINCH);
    pthread_sigmask(SIG_BLOCK, &both, NULL);
    for (int i = 0; i < 2; i++) {
        pthread_create(&thread, NULL, compute, &tids[i]);
        while (!*(volatile int *)&tids[i])
            usleep(1000);
    }
    snprintf(facts, sizeof facts, " first=%d second=%d", tids[0], tids[1]);
    target_ready(facts);
    while (fgets(line, sizeof line, stdin)) {
        if (strcmp(line, "listen\n") == 0) {
            fd = signalfd(-1, &both, 0);
            pthread_create(&thread, NULL, read_signals, &fd);
            puts("listen");
        } else if (strcmp(line, "send\n") == 0) {
            send_all();
        } else if (strcmp(line, "direct\n") == 0) {
            syscall(SYS_tgkill, getpid(), tids[0], SIGURG);
            puts("direct");
        } else if (strcmp(line, "own\n") == 0) {
            for (wants_own = 1; have_own < 2;)
                usleep(1000);
            puts("own");
        } else {
            for (must_sleep = 1; asleep < 2;)
                usleep(1000);
            puts("sleep");
        }
        fflush(stdout);
    }
    return 0;
}
