/*
 * A program that changes its mind about SIGURG and SIGWINCH, the signals a profiler would use. It is busy, and does
 * what each line on its standard input says; it answers with the same word, or with counts.
 *
 * handle | ignore | default    sets that disposition for both
 * chain                        handlers that call what was there before, as libraries do
 * send                         500 of each to itself, one after the other: "send urg N winch N foreign N"
 * block                        the main thread blocks both, or no longer
 * toggle                       a thread that blocks both, works, unblocks them, works, and so on
 * signalfd | sigwait           a thread that reads both that way, while the main thread blocks them, and how many each
 *                              `send` brought
 * what                         the dispositions: "what default|ignored|mine|other …"
 *
 * `foreign` counts signals that arrived in one of its own ways and that it had not sent.
 */
#include "target.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/signalfd.h>

#define SENT 500

static atomic_int seen_urg, seen_winch, seen_foreign;
static struct sigaction old_urg, old_winch;
static sigset_t both;
static atomic_int is_read_by_thread; /* 1 signalfd, 2 sigwait */

static void count(int number, int code, int pid)
{
    if ((code != SI_TKILL && code != SI_USER) || pid != getpid())
        seen_foreign++;
    else if (number == SIGURG)
        seen_urg++;
    else
        seen_winch++;
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    (void)context;
    count(number, info->si_code, info->si_pid);
}

static void on_signal_chained(int number, siginfo_t *info, void *context)
{
    const struct sigaction *old = number == SIGURG ? &old_urg : &old_winch;
    /* What was sent to whoever came before us is theirs. */
    if (info->si_code == SI_TKILL)
        count(number, info->si_code, info->si_pid);
    if (old->sa_flags & SA_SIGINFO)
        old->sa_sigaction(number, info, context);
    else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN)
        old->sa_handler(number);
}

static void dispose(void (*action)(int, siginfo_t *, void *), void (*plain)(int))
{
    struct sigaction new = {.sa_flags = action ? SA_SIGINFO | SA_RESTART : 0}, old;
    if (action)
        new.sa_sigaction = action;
    else
        new.sa_handler = plain;
    sigaction(SIGURG, &new, &old);
    if (action == on_signal_chained)
        old_urg = old;
    sigaction(SIGWINCH, &new, &old);
    if (action == on_signal_chained)
        old_winch = old;
}

static const char *disposition(int number)
{
    struct sigaction now;
    sigaction(number, NULL, &now);
    if (now.sa_flags & SA_SIGINFO)
        return now.sa_sigaction == on_signal || now.sa_sigaction == on_signal_chained ? "mine" : "other";
    return now.sa_handler == SIG_DFL ? "default" : now.sa_handler == SIG_IGN ? "ignored" : "other";
}

NOINLINE static void work(uint64_t iterations)
{
    volatile uint64_t sink = 1;
    uint64_t state = sink;
    SPIN(state, iterations, 6364136223846793005ULL);
    sink = state;
}

static void *toggle(void *argument)
{
    for (;;) {
        pthread_sigmask(SIG_BLOCK, &both, NULL);
        work(300000);
        pthread_sigmask(SIG_UNBLOCK, &both, NULL);
        work(300000);
    }
    return argument;
}

static void *read_signals(void *argument)
{
    int fd = signalfd(-1, &both, 0);
    if (is_read_by_thread == 1) {
        struct signalfd_siginfo info;
        while (read(fd, &info, sizeof info) == sizeof info)
            count((int)info.ssi_signo, info.ssi_code, (int)info.ssi_pid);
    } else {
        siginfo_t info;
        for (;;) {
            int number = sigwaitinfo(&both, &info);
            if (number > 0)
                count(number, info.si_code, info.si_pid);
        }
    }
    return argument;
}

/* Sends one after the other, waiting for each where it is known to arrive: equal signals that are pending are one. */
static void send_all(int is_caught)
{
    int before_urg = seen_urg, before_winch = seen_winch;
    for (int i = 0; i < SENT; i++) {
        const int numbers[2] = {SIGURG, SIGWINCH};
        for (int j = 0; j < 2; j++) {
            int before = seen_urg + seen_winch;
            if (is_read_by_thread)
                kill(getpid(), numbers[j]);
            else
                syscall(SYS_tgkill, getpid(), target_tid(), numbers[j]);
            for (int patience = 0; is_caught && seen_urg + seen_winch == before && patience < 2000; patience++)
                usleep(1000);
        }
        work(20000);
    }
    printf("send urg %d winch %d foreign %d\n", seen_urg - before_urg, seen_winch - before_winch, (int)seen_foreign);
}

static void start(void *(*run)(void *))
{
    pthread_t thread;
    pthread_create(&thread, NULL, run, NULL);
    pthread_detach(thread);
}

static void obey(const char *line)
{
    static int is_caught, is_blocked;
    if (strcmp(line, "send") == 0) {
        send_all(is_caught);
        return;
    }
    if (strcmp(line, "what") == 0) {
        printf("what %s %s\n", disposition(SIGURG), disposition(SIGWINCH));
        return;
    }
    if (strcmp(line, "handle") == 0) {
        dispose(on_signal, NULL);
        is_caught = 1;
    } else if (strcmp(line, "chain") == 0) {
        dispose(on_signal_chained, NULL);
        is_caught = 1;
    } else if (strcmp(line, "ignore") == 0) {
        dispose(NULL, SIG_IGN);
        is_caught = 0;
    } else if (strcmp(line, "default") == 0) {
        dispose(NULL, SIG_DFL);
        is_caught = 0;
    } else if (strcmp(line, "block") == 0) {
        is_blocked = !is_blocked;
        pthread_sigmask(is_blocked ? SIG_BLOCK : SIG_UNBLOCK, &both, NULL);
    } else if (strcmp(line, "toggle") == 0) {
        start(toggle);
    } else {
        pthread_sigmask(SIG_BLOCK, &both, NULL);
        is_read_by_thread = strcmp(line, "signalfd") == 0 ? 1 : 2;
        is_caught = 1;
        start(read_signals);
    }
    printf("%s\n", line);
}

int main(void)
{
    char line[64];
    size_t held = 0;
    sigemptyset(&both);
    sigaddset(&both, SIGURG);
    sigaddset(&both, SIGWINCH);
    target_ready("");
    for (;;) {
        struct pollfd input = {.fd = 0, .events = POLLIN, .revents = 0};
        work(1000000);
        if (poll(&input, 1, 0) != 1)
            continue;
        if (read(0, line + held, 1) != 1)
            break;
        if (line[held] == '\n') {
            line[held] = 0;
            held = 0;
            obey(line);
            fflush(stdout);
        } else if (held < sizeof line - 2) {
            held++;
        }
    }
    printf("foreign %d\n", (int)seen_foreign);
    return 0;
}
