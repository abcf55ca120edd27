/*
 * Signal storms of the target's own while its threads wait. usage: storms alrm | prof | queue | chld | io
 *
 * alrm    setitimer: SIGALRM every 100 µs to whichever thread takes it
 * prof    setitimer: SIGPROF every millisecond of CPU time
 * queue   SIGRTMIN with numbers, queued by one thread for another: none may be lost, all in order
 * chld    children that end at once
 * io      SIGIO from a pipe
 *
 * A waiting thread (poll with 3 ms, no SA_RESTART) counts how often it got EINTR, its handlers count how often they
 * ran. An EINTR that came without one of its handlers having run is `foreign`: somebody else's signal. A handler that
 * finds the wait rewound to its beginning (rax = the call's number, pc on the `syscall` instruction) counts it as
 * `swallowed`: the wait had begun, and its EINTR will never come.
 */
#include "target.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/ucontext.h>
#include <sys/wait.h>

static volatile sig_atomic_t handled, strange, out_of_order, swallowed;
static volatile sig_atomic_t last_value;
static volatile int stop;
static pthread_t waiter;
static unsigned eintr, foreign, waits;

static void on_signal(int number, siginfo_t *info, void *context)
{
    const greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    handled++;
    swallowed += registers[REG_RAX] == SYS_poll && memcmp((void *)registers[REG_RIP], "\x0f\x05", 2) == 0;
    if (number == SIGRTMIN) {
        if (info->si_code != SI_QUEUE || info->si_pid != getpid())
            strange++;
        else if (info->si_value.sival_int != last_value + 1)
            out_of_order++;
        last_value = info->si_value.sival_int;
    }
}

/* The thread all signals go to: waits, and asks after each EINTR whether a handler of its own ran meanwhile. */
static void *wait_and_count(void *argument)
{
    sigset_t all;
    struct pollfd nothing = {.fd = -1, .events = 0, .revents = 0};
    sigemptyset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    while (!stop) {
        int before = handled;
        int result = poll(&nothing, 1, 3);
        waits++;
        if (result < 0 && errno == EINTR) {
            eintr++;
            foreign += handled == before;
        }
    }
    return argument;
}

static void handle(int number)
{
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    sigaction(number, &action, NULL);
}

static unsigned queue_numbers(void)
{
    unsigned sent = 0;
    union sigval value;
    while (!target_asked_to_stop()) {
        for (int i = 0; i < 50; i++) {
            value.sival_int = (int)sent + 1;
            if (pthread_sigqueue(waiter, SIGRTMIN, value) == 0)
                sent++;
            usleep(100);
        }
    }
    return sent;
}

static unsigned bear_children(void)
{
    volatile unsigned born = 0;
    int status;
    while (!target_asked_to_stop()) {
        pid_t child = vfork();
        if (child == 0)
            _exit(3);
        if (child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 3)
            born = born + 1;
        else
            strange++;
    }
    return born;
}

static unsigned write_to_pipe(void)
{
    int ends[2];
    unsigned written = 0;
    char byte = 0;
    if (pipe(ends) < 0)
        exit(1);
    fcntl(ends[0], F_SETOWN, getpid());
    fcntl(ends[0], F_SETFL, O_ASYNC | O_NONBLOCK);
    while (!target_asked_to_stop()) {
        for (int i = 0; i < 100; i++) {
            written += write(ends[1], &byte, 1) == 1;
            if (read(ends[0], &byte, 1) != 1)
                strange++;
            usleep(100);
        }
    }
    return written;
}

int main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "alrm";
    struct itimerval fast = {{0, 100}, {0, 100}}, slow = {{0, 1000}, {0, 1000}}, off = {{0, 0}, {0, 0}};
    unsigned sent = 1;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    handle(SIGALRM);
    handle(SIGPROF);
    handle(SIGRTMIN);
    handle(SIGCHLD);
    handle(SIGIO);
    pthread_create(&waiter, NULL, wait_and_count, NULL);
    if (strcmp(what, "alrm") == 0)
        setitimer(ITIMER_REAL, &fast, NULL);
    if (strcmp(what, "prof") == 0)
        setitimer(ITIMER_PROF, &slow, NULL);
    target_ready("");
    if (strcmp(what, "queue") == 0) {
        sent = queue_numbers();
    } else if (strcmp(what, "chld") == 0) {
        sent = bear_children();
    } else if (strcmp(what, "io") == 0) {
        sent = write_to_pipe();
    } else {
        volatile uint64_t sink = 1;
        while (!target_asked_to_stop()) {
            uint64_t state = sink;
            SPIN(state, 1000000, 6364136223846793005ULL);
            sink = state;
        }
    }
    setitimer(ITIMER_REAL, &off, NULL);
    setitimer(ITIMER_PROF, &off, NULL);
    usleep(20000);
    stop = 1;
    pthread_join(waiter, NULL);
    printf("sent %u handled %d eintr %u foreign %u strange %d disorder %d swallowed %d\n", sent, (int)handled, eintr,
           foreign, (int)strange, (int)out_of_order, (int)swallowed);
    return 0;
}
