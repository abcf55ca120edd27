/* Threads that work a little, sleep a little and wait a little, as those of a server do, and one
 * that runs a new function whenever it is told to.
 *
 * live THREADS: prints "ready". For a line "N MS" it runs fresh_N for MS milliseconds in a thread of
 * its own, and prints the moment (CLOCK_REALTIME, milliseconds) at which that began.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static volatile double sink;

__attribute__((noinline)) static void add(int n)
{
    for (int i = 0; i < n; i++)
        sink += i * 0.5;
}

__attribute__((noinline)) static void subtract(int n)
{
    for (int i = 0; i < n; i++)
        sink -= i * 0.25;
}

__attribute__((noinline)) static void recurse(int depth, int kind)
{
    if (depth) {
        recurse(depth - 1, kind);
        sink += 1;
    } else if (kind & 1) {
        add(400);
    } else {
        subtract(400);
    }
}

__attribute__((noinline)) static void handle(int kind)
{
    for (int depth = 0; depth < 6; depth++)
        recurse(depth + kind % 5, kind + depth);
}

__attribute__((noinline)) static void parse(int kind)
{
    recurse(3, kind);
    handle(kind);
}

__attribute__((noinline)) static void reply(int kind)
{
    recurse(1, kind + 1);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

static void rest(long id)
{
    if (id % 3 == 0) {
        struct pollfd none = {.fd = -1};
        poll(&none, 0, 25);
    } else if (id % 3 == 1) {
        usleep(25000);
    } else {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 25000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000;
        }
        pthread_mutex_lock(&mutex);
        pthread_cond_timedwait(&never, &mutex, &until);
        pthread_mutex_unlock(&mutex);
    }
}

static void *work(void *argument)
{
    long id = (long)argument;
    double busy = (double)(id % 4 + 1) * 0.0007;
    for (int kind = (int)id;;) {
        double end = seconds(CLOCK_THREAD_CPUTIME_ID) + busy;
        while (seconds(CLOCK_THREAD_CPUTIME_ID) < end) {
            parse(kind++);
            reply(kind);
        }
        rest(id);
    }
    return NULL;
}

/* The number keeps the compiler from making one function of several. */
#define FRESH(n)                                                 \
    __attribute__((noinline)) static void fresh_##n(double end)  \
    {                                                            \
        while (seconds(CLOCK_MONOTONIC) < end) {                 \
            for (int i = 0; i < 20000; i++)                      \
                sink += i * (0.5 + n);                           \
        }                                                        \
    }
FRESH(0) FRESH(1) FRESH(2) FRESH(3) FRESH(4) FRESH(5) FRESH(6) FRESH(7) FRESH(8) FRESH(9)
FRESH(10) FRESH(11) FRESH(12) FRESH(13) FRESH(14) FRESH(15) FRESH(16) FRESH(17) FRESH(18) FRESH(19)

static void (*const all[])(double) = {
    fresh_0,  fresh_1,  fresh_2,  fresh_3,  fresh_4,  fresh_5,  fresh_6,  fresh_7,  fresh_8,  fresh_9,
    fresh_10, fresh_11, fresh_12, fresh_13, fresh_14, fresh_15, fresh_16, fresh_17, fresh_18, fresh_19,
};

int main(int count, char **arguments)
{
    int threads = count > 1 ? atoi(arguments[1]) : 16;
    for (long id = 0; id < threads - 1; id++) {
        pthread_t thread;
        char name[20];
        if (pthread_create(&thread, NULL, work, (void *)id))
            return 1;
        snprintf(name, sizeof name, "worker-%d", (int)id);
        pthread_setname_np(thread, name);
    }
    puts("ready");
    fflush(stdout);
    unsigned number;
    double ms;
    while (scanf("%u %lf", &number, &ms) == 2) {
        double now_ms = 1000 * seconds(CLOCK_REALTIME);
        if (number < sizeof all / sizeof *all)
            all[number](seconds(CLOCK_MONOTONIC) + ms / 1000);
        printf("%.1f\n", now_ms);
        fflush(stdout);
    }
    return 0;
}
