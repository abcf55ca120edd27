/*
 * Threads that compute and get signals at all times, also while they are in the stub of an attach
 * (agent/arch/x86_64/stub.S), which must then wait for the handler. usage: reentered
 *
 * One thread sends SIGUSR1 to three others, again and again. The handler returns at once, but where it interrupted code
 * of the vDSO's last KB, which is no function's: there it computes for MET_NS of its CPU time. The report says how often
 * that was, up to now also for each line on standard input, and counts wrong results.
 */
#include "target.h"

#include <signal.h>
#include <sys/auxv.h>
#include <ucontext.h>

#define THREADS 3
#define MET_NS 3000000ULL
#define TAIL_BYTES 1024
#define PAUSE_ROUNDS 20000

static volatile unsigned met;
static unsigned wrong;
static volatile int stop;
static pthread_t threads[THREADS];
static uintptr_t tail_end;

static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    uintptr_t pc = (uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    (void)number;
    (void)info;
    if (pc < tail_end - TAIL_BYTES || pc >= tail_end)
        return;
    __atomic_add_fetch(&met, 1, __ATOMIC_RELAXED);
    for (uint64_t end_ns = cpu_ns() + MET_NS; cpu_ns() < end_ns;)
        ;
}

static void *compute(void *unused)
{
    (void)unused;
    while (!stop) {
        uint64_t sum = 1;
        SPIN(sum, 100000, 6364136223846793005ULL);
        static volatile uint64_t expected;
        if (!expected)
            expected = sum;
        if (sum != expected)
            __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void *send(void *unused)
{
    (void)unused;
    for (unsigned turn = 0; !stop; turn++) {
        uint64_t pause = turn;
        pthread_kill(threads[turn % THREADS], SIGUSR1);
        SPIN(pause, PAUSE_ROUNDS, 6364136223846793005ULL);
        __asm__ volatile("" : : "r"(pause));
    }
    return NULL;
}

/* The end of the vDSO, as /proc/self/maps has it. */
static uintptr_t vdso_end(void)
{
    unsigned long start, end = 0;
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, "[vdso]") && sscanf(line, "%lx-%lx", &start, &end) == 2)
            break;
    if (maps)
        fclose(maps);
    return end;
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    pthread_t sender;
    char byte;
    tail_end = vdso_end();
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, compute, NULL);
    pthread_create(&sender, NULL, send, NULL);
    target_ready("");
    while (read(0, &byte, 1) > 0) {
        printf("met %u\n", met);
        fflush(stdout);
    }
    stop = 1;
    pthread_join(sender, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("wrong %u\n", wrong);
    return 0;
}
