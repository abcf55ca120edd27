/*
 * What a program of truth.c knows of itself: the functions it works in, and its workers' books. A worker reads its own
 * CPU clock around each stretch of work and writes down what it took; the main thread adds up.
 *
 * Work is given in microseconds of CPU time, by a calibration at the start. A read of a thread's CPU clock is a system
 * call of 0.2 µs or so: stretches are not shorter than 30 µs.
 */
#ifndef TRUTH_H
#define TRUTH_H

#include "target.h"

#define MAX_WORKERS 200

struct worker {
    /* Written by the worker, read by the main thread, behind each stretch of work. */
    uint64_t a_ns, b_ns, cpu_ns, loops;
    uint64_t value;
    volatile int tid;
    unsigned seed;
} __attribute__((aligned(64)));

struct totals {
    uint64_t a_ns, b_ns, cpu_ns, wait_ns, wall_ns, loops;
};

static struct worker workers[MAX_WORKERS];
static int worker_count;
static uint64_t per_us; /* iterations */

/* What memory holds may have changed: a compiler that knew better could move these calls past the reading of a clock. */
#define NOT_PURE(state) __asm__ volatile("" : "+r"(state) : : "memory")

NOINLINE static uint64_t crunch_a(uint64_t state, uint64_t iterations)
{
    SPIN(state, iterations, 6364136223846793005ULL);
    NOT_PURE(state);
    return state;
}

NOINLINE static uint64_t crunch_b(uint64_t state, uint64_t iterations)
{
    SPIN(state, iterations, 2862933555777941757ULL);
    NOT_PURE(state);
    return state;
}

static uint64_t cpu_ns(void)
{
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000000000ULL + (uint64_t)used.tv_nsec;
}

static void add(uint64_t *sum, uint64_t amount)
{
    __atomic_store_n(sum, *sum + amount, __ATOMIC_RELAXED);
}

static void do_a(struct worker *self, uint64_t us)
{
    uint64_t begin = cpu_ns(), end;
    self->value = crunch_a(self->value, us * per_us);
    end = cpu_ns();
    add(&self->a_ns, end - begin);
    add(&self->loops, 1);
    __atomic_store_n(&self->cpu_ns, end, __ATOMIC_RELAXED);
}

static void do_b(struct worker *self, uint64_t us)
{
    uint64_t begin = cpu_ns(), end;
    self->value = crunch_b(self->value, us * per_us);
    end = cpu_ns();
    add(&self->b_ns, end - begin);
    __atomic_store_n(&self->cpu_ns, end, __ATOMIC_RELAXED);
}

/* Second field of schedstat: nanoseconds runnable without a CPU. Source: Documentation/scheduler/sched-stats.rst. */
static uint64_t waited_ns(int tid)
{
    char path[64];
    unsigned long long ran, waited = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", tid);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    if (fscanf(file, "%llu %llu", &ran, &waited) != 2)
        waited = 0;
    fclose(file);
    return waited;
}

static struct totals count(void)
{
    struct totals sums = {.wall_ns = target_now_ns()};
    for (struct worker *worker = workers; worker < workers + worker_count; worker++) {
        sums.a_ns += __atomic_load_n(&worker->a_ns, __ATOMIC_RELAXED);
        sums.b_ns += __atomic_load_n(&worker->b_ns, __ATOMIC_RELAXED);
        sums.cpu_ns += __atomic_load_n(&worker->cpu_ns, __ATOMIC_RELAXED);
        sums.loops += __atomic_load_n(&worker->loops, __ATOMIC_RELAXED);
    }
    for (struct worker *worker = workers; worker < workers + worker_count; worker++)
        sums.wait_ns += waited_ns(worker->tid);
    return sums;
}

static void tell(const struct totals *from, const struct totals *to)
{
    double cpu = (double)(to->cpu_ns - from->cpu_ns), whole = cpu > 0 ? cpu : 1;
    printf("{\"a\": %.5f, \"b\": %.5f, \"cpu_s\": %.6f, \"wait_s\": %.6f, \"wall_s\": %.6f, \"loops\": %llu}\n",
           (double)(to->a_ns - from->a_ns) / whole, (double)(to->b_ns - from->b_ns) / whole, cpu * 1e-9,
           (double)(to->wait_ns - from->wait_ns) * 1e-9, (double)(to->wall_ns - from->wall_ns) * 1e-9,
           (unsigned long long)(to->loops - from->loops));
}

static void calibrate(void)
{
    const uint64_t iterations = 200000;
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 20; i++) {
        uint64_t begin = cpu_ns();
        workers[0].value = crunch_a(workers[0].value, iterations);
        uint64_t took = cpu_ns() - begin;
        if (took < least)
            least = took;
    }
    per_us = iterations * 1000 / least;
}

#endif
