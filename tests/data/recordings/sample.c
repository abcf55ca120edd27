/*
 * Threads that work and wait in known ways, for some seconds: "heavy" takes three times as long as "light", "waiter"
 * waits for the lock that "main" holds while it sleeps, and "sleeper" sleeps.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile uint64_t sink;

__attribute__((noinline)) static void spin(uint64_t rounds)
{
    for (uint64_t round = 0; round < rounds; round++)
        sink = sink * 6364136223846793005ULL + round;
}

__attribute__((noinline)) static void heavy(void)
{
    spin(3000000);
    sink++;
}

__attribute__((noinline)) static void light(void)
{
    spin(1000000);
    sink++;
}

static void pause_ms(long ms)
{
    struct timespec span = {0, ms * 1000000};
    nanosleep(&span, NULL);
}

static void *waiter(void *unused)
{
    for (;;) {
        pthread_mutex_lock(&lock);
        pthread_mutex_unlock(&lock);
        pause_ms(1);
    }
    return unused;
}

static void *sleeper(void *unused)
{
    for (;;)
        pause_ms(500);
    return unused;
}

static void start(const char *name, void *(*run)(void *))
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, NULL) != 0)
        abort();
    pthread_setname_np(thread, name);
}

int main(void)
{
    struct timespec began, now;
    clock_gettime(CLOCK_MONOTONIC, &began);
    start("waiter", waiter);
    start("sleeper", sleeper);
    do {
        heavy();
        light();
        pthread_mutex_lock(&lock);
        pause_ms(5);
        pthread_mutex_unlock(&lock);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - began.tv_sec < 8);
    return 0;
}
