/*
 * A program that lives by faults, as runtimes with null checks and write barriers do: its threads fault and are set
 * right by a handler, while the main thread blocks that very signal. Arguments: the names of the signals to use, of
 * SEGV, BUS, FPE, ILL and TRAP.
 *
 * If the main thread faulted meanwhile (the profiler lets it, to call functions in it), the kernel would reset the
 * handler for the whole process and the next fault would kill it.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "zoo.h"

enum { THREADS = 2, FAULTS = 200, KINDS = 5 };

static const struct {
    const char *name;
    int number;
} kinds[KINDS] = {{"SEGV", SIGSEGV}, {"BUS", SIGBUS}, {"FPE", SIGFPE}, {"ILL", SIGILL}, {"TRAP", SIGTRAP}};

static int is_used[KINDS];
/* Writing to the first is a SIGSEGV, to the second a SIGBUS. */
static volatile char *read_only, *beyond_file;
static volatile int stop;
static __thread sigjmp_buf back;

static void handler(int number)
{
    siglongjmp(back, number);
}

static void fault(int number)
{
    switch (number) {
    case SIGSEGV: *read_only = 1; break;
    case SIGBUS: *beyond_file = 1; break;
    case SIGFPE: __asm__ volatile("xorl %%ecx, %%ecx; xorl %%edx, %%edx; idivl %%ecx" ::: "eax", "ecx", "edx"); break;
    case SIGILL: __asm__ volatile("ud2"); break;
    case SIGTRAP: __asm__ volatile("int3"); break;
    default: abort();
    }
}

static NOINLINE int comes_back(int number)
{
    int caught = sigsetjmp(back, 1);
    if (caught == 0)
        fault(number);
    return caught == number;
}

static void *live_by_faults(void *wrong)
{
    while (!stop)
        for (int kind = 0; kind < KINDS; kind++)
            for (int i = 0; is_used[kind] && i < FAULTS; i++)
                *(long *)wrong += !comes_back(kinds[kind].number);
    return NULL;
}

static int handlers_are_set(void)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct sigaction now;
        sigaction(kinds[kind].number, NULL, &now);
        if (is_used[kind] && now.sa_handler != handler)
            return 0;
    }
    return 1;
}

int main(int argc, char **argv)
{
    sigset_t blocked;
    sigemptyset(&blocked);
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 1; i < argc; i++)
            if (strcmp(argv[i], kinds[kind].name) == 0) {
                struct sigaction action = {.sa_handler = handler};
                sigaction(kinds[kind].number, &action, NULL);
                sigaddset(&blocked, kinds[kind].number);
                is_used[kind] = 1;
            }
    read_only = (volatile char *)mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    beyond_file = (volatile char *)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memfd_create("short", 0), 0);
    pthread_t threads[THREADS];
    long wrongs[THREADS] = {0};
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, live_by_faults, &wrongs[i]);
    pthread_sigmask(SIG_BLOCK, &blocked, NULL);
    if (read_only == MAP_FAILED || beyond_file == MAP_FAILED || zoo_ready())
        return 1;
    long rounds = 0, wrong = 0;
    for (; zoo_goes_on(); rounds++)
        wrong += tree_fell(tree_of(12)) + fib(20) != 8191 + 6765 || !handlers_are_set();
    stop = 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return zoo_report(rounds, wrong + wrongs[0] + wrongs[1]);
}
