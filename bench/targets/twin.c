/*
 * The program that is measured: THREADS threads, each busy at the end of a chain of DEPTH calls, counting rounds of a
 * fixed amount of work. Prints "ready"; for every line on its standard input it prints "ROUNDS CPU_NS", both since the
 * start and summed over its threads, so that rounds per second of CPU time can be compared between a profiled process
 * and its unprofiled twin.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#define DEPTH 15           /* frames, as in a usual program */
#define STEPS_A_ROUND 2000 /* about 2 µs: samples are spread over most places */
#define MAX_THREADS 256

static _Atomic uint64_t rounds[MAX_THREADS * 8]; /* one cache line each */
static pthread_t threads[MAX_THREADS];
static _Atomic int stop;

__attribute__((noinline)) static uint64_t work(uint64_t value) {
    for (int i = 0; i < STEPS_A_ROUND; i++)
        value = value * 6364136223846793005ULL + 1442695040888963407ULL;
    return value;
}

__attribute__((noinline)) static uint64_t descend(int depth, _Atomic uint64_t *count) {
    uint64_t value = 1;
    if (depth > 0) {
        value = descend(depth - 1, count);
        __asm__ volatile("" : "+r"(value)); /* neither a tail call nor, as "+ 1" would be, a loop */
        return value;
    }
    for (uint64_t done = 1; !atomic_load_explicit(&stop, memory_order_relaxed); done++) {
        value = work(value);
        __asm__ volatile("" : "+r"(value)); /* keeps the compiler from removing the work */
        atomic_store_explicit(count, done, memory_order_relaxed);
    }
    return value;
}

static void *run(void *count) {
    descend(DEPTH, count);
    return NULL;
}

int main(int argc, char **argv) {
    int thread_count = argc > 1 ? atoi(argv[1]) : 1;
    char line[64];

    if (thread_count < 1 || thread_count > MAX_THREADS)
        return 2;
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    for (int i = 0; i < thread_count; i++)
        if (pthread_create(&threads[i], NULL, run, &rounds[i * 8]) != 0)
            return 1;
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        uint64_t total = 0, cpu_ns = 0;
        for (int i = 0; i < thread_count; i++) {
            clockid_t clock;
            struct timespec used;
            pthread_getcpuclockid(threads[i], &clock);
            clock_gettime(clock, &used);
            total += rounds[i * 8];
            cpu_ns += (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
        }
        printf("%llu %llu\n", (unsigned long long)total, (unsigned long long)cpu_ns);
        fflush(stdout);
    }
    stop = 1;
    for (int i = 0; i < thread_count; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
