/*
 * A program that lives by the signals of its own faults, as managed runtimes do: one thread raises each kind of fault
 * all the time and goes on behind its handler. The main thread blocks signals meanwhile, and waits.
 *
 *   faults block NUMBER...   the main thread blocks these signals
 *   faults ignore NUMBER...  the process ignores these signals, and raises the other faults
 *   faults pending NUMBER... the main thread blocks these signals, and one of each has been sent to it
 *
 * A fault whose handler has been lost ends the process. The report counts rounds in which a handler was not called,
 * dispositions that are not what they were, and signals that were pending and are not any more, or twice.
 */
#include "target.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
#define FAULTS (int)(sizeof faults / sizeof *faults)

static __thread sigjmp_buf back;
static volatile int is_over;
static volatile unsigned rounds, missed, lost, pending;
static volatile int *volatile nowhere;
static int is_ignored[FAULTS];
static char *beyond_the_end; /* of a file: SIGBUS */

static void on_fault(int number)
{
    siglongjmp(back, number);
}

static void raise_fault(int number)
{
    int zero = 0;
    if (number == SIGSEGV)
        *nowhere = 1;
    else if (number == SIGBUS)
        *(volatile char *)beyond_the_end = 1;
    else if (number == SIGFPE)
        __asm__ volatile("idivl %1" : "+a"(zero) : "r"(zero), "d"(0));
    else if (number == SIGILL)
        __asm__ volatile("ud2");
    else if (number == SIGTRAP)
        __asm__ volatile("int3");
    else
        raise(number); /* SIGSYS: without a filter no call raises it */
}

static void *work(void *unused)
{
    (void)unused;
    while (!is_over) {
        for (int i = 0; i < FAULTS; i++) {
            if (is_ignored[i])
                continue;
            int caught = sigsetjmp(back, 1);
            if (!caught) {
                raise_fault(faults[i]);
                missed++;
            } else if (caught != faults[i]) {
                missed++;
            }
        }
        rounds++;
        usleep(500);
    }
    return NULL;
}

static void check_dispositions(void)
{
    for (int i = 0; i < FAULTS; i++) {
        struct sigaction now;
        sigaction(faults[i], NULL, &now);
        lost += now.sa_handler != (is_ignored[i] ? SIG_IGN : on_fault) || !(now.sa_flags & SA_RESTART);
    }
}

int main(int argc, char **argv)
{
    pthread_t worker;
    sigset_t blocked;
    int sent = argc > 1 && !strcmp(argv[1], "pending");
    FILE *empty = tmpfile();
    beyond_the_end = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(empty), 0);
    sigemptyset(&blocked);
    for (int i = 0; i < FAULTS; i++) {
        struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_RESTART};
        for (int k = 2; k < argc; k++) {
            if (atoi(argv[k]) != faults[i])
                continue;
            if (!strcmp(argv[1], "ignore"))
                is_ignored[i] = 1, action.sa_handler = SIG_IGN;
            else
                sigaddset(&blocked, faults[i]);
        }
        sigaction(faults[i], &action, NULL);
    }
    pthread_create(&worker, NULL, work, NULL);
    pthread_sigmask(SIG_BLOCK, &blocked, NULL);
    for (int i = 0; sent && i < FAULTS; i++)
        if (sigismember(&blocked, faults[i]))
            pthread_kill(pthread_self(), faults[i]);
    target_ready("");
    target_wait_for_stop();
    is_over = 1;
    pthread_join(worker, NULL);
    check_dispositions();
    for (;;) {
        struct timespec none = {0, 0};
        if (!sent || sigtimedwait(&blocked, NULL, &none) < 0)
            break;
        pending++;
    }
    printf("rounds %s missed %u lost %u pending %u\n", rounds ? "some" : "none", missed, lost, pending);
    return 0;
}
