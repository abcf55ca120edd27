/*
 * One thread, busy at the bottom of DEPTH frames. usage: depth DEPTH. Prints "ready"; ends with its standard input.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#define FRAMES_ABOVE 4 /* thread start (2), run, busy */

static volatile int stop;

__attribute__((noinline)) static uint64_t busy(uint64_t value)
{
    while (!stop) {
        value = value * 6364136223846793005ULL + 1442695040888963407ULL;
        __asm__ volatile("" : "+r"(value));
    }
    return value;
}

__attribute__((noinline)) static uint64_t descend(int depth, uint64_t value)
{
    uint64_t result = depth > 0 ? descend(depth - 1, value) : busy(value);
    __asm__ volatile("" : "+r"(result)); /* neither a tail call nor, as "+ 1" would be, a loop */
    return result;
}

static void *run(void *depth)
{
    descend((int)(intptr_t)depth, 1);
    return NULL;
}

int main(int count, char **arguments)
{
    int depth = count > 1 ? atoi(arguments[1]) : 20;
    pthread_t thread;
    char line[16];
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    depth = depth > FRAMES_ABOVE ? depth - FRAMES_ABOVE - 1 : 0;
    if (pthread_create(&thread, NULL, run, (void *)(intptr_t)depth) != 0)
        return 1;
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin))
        ;
    _exit(0);
}
