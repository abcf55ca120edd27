/*
 * A program with one thread, and a handler that relies on that: it changes two counters that must be equal. Around its
 * own changes the program blocks the signal, and unblocks it in between, as PostgreSQL and shells do. It sends itself
 * SIGUSR1 (with kill(2), to the process) in the middle of the section and in the middle of the rest.
 *
 * The report counts signals sent and handled, handlers that ran on another thread or inside a section, and sections
 * that found the counters changed under them.
 */
#include "target.h"

#include <signal.h>

static volatile int in_section;
static volatile unsigned handled, on_other_thread, inside, torn;
static volatile unsigned first, second;
static int main_tid;

static void on_signal(int number)
{
    (void)number;
    handled++;
    on_other_thread += target_tid() != main_tid;
    inside += in_section;
    first++;
    second++;
}

NOINLINE static void work(void)
{
    volatile uint64_t sink = 1;
    uint64_t state = sink;
    SPIN(state, 20000, 6364136223846793005ULL);
    sink = state;
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    unsigned sent = 0;
    sigset_t set;
    main_tid = target_tid();
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaction(SIGUSR1, &action, NULL);
    target_ready("");
    while (!target_asked_to_stop()) {
        unsigned before;
        sigprocmask(SIG_BLOCK, &set, NULL);
        in_section = 1;
        before = handled;
        first++;
        kill(getpid(), SIGUSR1);
        sent++;
        work();
        second++;
        torn += handled != before;
        in_section = 0;
        sigprocmask(SIG_UNBLOCK, &set, NULL);
        work();
        kill(getpid(), SIGUSR1);
        sent++;
    }
    printf("lost %d other %u inside %u torn %u unequal %d\n", (int)(sent - handled), on_other_thread, inside, torn, first != second);
    return 0;
}
