/*
 * How a C or C++ target talks to its test.
 *
 * A target prints "ready" and, after it, whatever facts the test needs, once all its threads are in place. It then
 * shows its shape until its standard input ends, prints its report and exits with 0. Nothing here is a signal: a
 * signal would disturb the very thing that is counted.
 */
#ifndef TARGET_H
#define TARGET_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

/* Chains of dependent multiplications: about a nanosecond an iteration, the same for every odd multiplier, and
 * nothing the compiler or the processor can shorten. */
#define SPIN(state, iterations, multiplier)                       \
    do {                                                          \
        for (uint64_t spin_i = 0; spin_i < (iterations); spin_i++) \
            (state) = (state) * (multiplier) + 1;                 \
    } while (0)

static inline void target_ready(const char *facts)
{
    printf("ready %s\n", facts);
    fflush(stdout);
}

/* True once the test has closed our standard input. Costs one system call and never blocks. */
static inline int target_asked_to_stop(void)
{
    struct pollfd input = {.fd = 0, .events = POLLIN, .revents = 0};
    char byte;
    return poll(&input, 1, 0) == 1 && read(0, &byte, 1) == 0;
}

/* Parks the calling thread until the test closes our standard input. */
static inline void target_wait_for_stop(void)
{
    char byte;
    while (read(0, &byte, 1) > 0)
        ;
}

static inline int target_tid(void)
{
    return (int)syscall(SYS_gettid);
}

static inline uint64_t target_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

#endif
