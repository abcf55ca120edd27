/*
 * Programs with known shares of CPU time. usage: shares ratio | threads | timer
 *
 *   ratio    one thread: heavy() three parts, light() one part, alternating, about 5 ms a cycle
 *   threads  four threads, busy for 80, 40, 20 and 10 % of the time: load_80() …
 *   timer    one thread that a timer wakes every 10 ms, the period of a profiler at 100 Hz: first() for 2 ms, second()
 *            for 4 ms, then asleep
 *
 * Prints "ready"; for every line on its standard input, prints the CPU nanoseconds in each function since the last
 * line, as "heavy=N light=N".
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ULL

struct part {
    const char *name;
    _Atomic uint64_t cpu_ns;
};
static struct part parts[4];

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Work for about that many nanoseconds of CPU time, in the function that this is inlined into. */
static inline __attribute__((always_inline)) uint64_t spin(uint64_t ns)
{
    uint64_t value = 1;
    for (uint64_t left = ns; left > 0 && left <= ns; left -= 2) {
        value = value * 6364136223846793005ULL + 1442695040888963407ULL;
        __asm__ volatile("" : "+r"(value));
    }
    return value;
}

#define PART(name) \
    __attribute__((noinline)) static uint64_t name(uint64_t ns) \
    { \
        return spin(ns); \
    }
PART(heavy)
PART(light)
PART(load_80)
PART(load_40)
PART(load_20)
PART(load_10)
PART(first)
PART(second)

static void timed(int number, uint64_t (*work)(uint64_t), uint64_t ns)
{
    uint64_t begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    work(ns);
    parts[number].cpu_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
}

static void *run_ratio(void *unused)
{
    for (;;) {
        timed(0, heavy, 4 * MS);
        timed(1, light, 4 * MS / 3);
    }
    return unused;
}

static void *run_load(void *argument)
{
    static uint64_t (*const work[])(uint64_t) = {load_80, load_40, load_20, load_10};
    static const uint64_t share[] = {80, 40, 20, 10};
    int number = (int)(intptr_t)argument;
    for (;;) {
        /* Sleeps as long as its share of CPU time demands. 7.3 ms is not a multiple of a usual period. */
        uint64_t before = clock_ns(CLOCK_THREAD_CPUTIME_ID), asleep;
        timed(number, work[number], 73 * MS * share[number] / 1000);
        asleep = (clock_ns(CLOCK_THREAD_CPUTIME_ID) - before) * (100 - share[number]) / share[number];
        struct timespec pause = {0, (long)(asleep < 900 * MS ? asleep : 900 * MS)};
        nanosleep(&pause, NULL);
    }
    return NULL;
}

static void *run_timer(void *unused)
{
    uint64_t due = clock_ns(CLOCK_MONOTONIC);
    for (;;) {
        due += 10 * MS;
        if (due < clock_ns(CLOCK_MONOTONIC))
            due = clock_ns(CLOCK_MONOTONIC) / (10 * MS) * (10 * MS) + 10 * MS;
        struct timespec until = {(time_t)(due / 1000000000), (long)(due % 1000000000)};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        timed(0, first, 2 * MS);
        timed(1, second, 4 * MS);
    }
    return unused;
}

int main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "ratio";
    static const char *const names[3][4] = {
        {"heavy", "light"}, {"load_80", "load_40", "load_20", "load_10"}, {"first", "second"}};
    int kind = strcmp(what, "threads") == 0 ? 1 : strcmp(what, "timer") == 0 ? 2 : 0;
    int thread_count = kind == 1 ? 4 : 1;
    char line[16];
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    for (int i = 0; i < 4; i++)
        parts[i].name = names[kind][i];
    for (int i = 0; i < thread_count; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, kind == 1 ? run_load : kind == 2 ? run_timer : run_ratio, (void *)(intptr_t)i))
            return 1;
    }
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        for (int i = 0; i < 4 && parts[i].name; i++)
            printf("%s=%llu ", parts[i].name, (unsigned long long)atomic_exchange(&parts[i].cpu_ns, 0));
        puts("");
        fflush(stdout);
    }
    _exit(0);
}
