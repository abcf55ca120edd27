/*
 * A program that lives by signals: it has handlers of its own for SIGURG, SIGPROF and every real-time signal, a
 * profiling timer, and sends SIGURG and SIGRTMAX to itself. It is busy in main → churn_signals. The report says how
 * many it sent and how many its handlers saw: equal, when nobody else sent any and nobody swallowed one.
 */
#include "target.h"

#include <signal.h>
#include <sys/time.h>

static volatile sig_atomic_t seen_urg, seen_rt, seen_prof, seen_foreign;

static void on_signal(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (number == SIGPROF)
        seen_prof++;
    else if (info->si_pid != getpid() || info->si_code != SI_TKILL)
        seen_foreign++;
    else if (number == SIGURG)
        seen_urg++;
    else
        seen_rt++;
}

NOINLINE static unsigned long churn_signals(void)
{
    unsigned long sent = 0;
    volatile uint64_t sink = 1;
    while (!target_asked_to_stop()) {
        for (int i = 0; i < 100; i++) {
            uint64_t state = sink;
            SPIN(state, 100000, 6364136223846793005ULL);
            sink = state;
            syscall(SYS_tgkill, getpid(), target_tid(), SIGURG);
            syscall(SYS_tgkill, getpid(), target_tid(), SIGRTMAX);
            sent++;
        }
    }
    return sent;
}

int main(void)
{
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_RESTART};
    struct itimerval timer = {{0, 5000}, {0, 5000}};
    action.sa_sigaction = on_signal;
    sigemptyset(&action.sa_mask);
    sigaction(SIGURG, &action, NULL);
    sigaction(SIGPROF, &action, NULL);
    sigaction(SIGRTMAX, &action, NULL);
    setitimer(ITIMER_PROF, &timer, NULL);
    target_ready("");
    unsigned long sent = churn_signals();
    printf("sent %lu urg %d rt %d foreign %d prof %s\n", sent, (int)seen_urg, (int)seen_rt, (int)seen_foreign,
           seen_prof > 0 ? "runs" : "dead");
    return 0;
}
