/*
 * Many different stacks: THREADS threads, each repeating random ones of PATHS chains of calls, 12 to 40 frames deep.
 * usage: stacks THREADS PATHS. Prints "ready"; ends with its standard input.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#define STEPS_A_LEAF 20000 /* about 25 µs: most samples are here */

static uint32_t path_count = 20000;

typedef uint64_t node(uint64_t path, int depth);
static node *const nodes[16];

static uint64_t mix(uint64_t value)
{
    value ^= value >> 33;
    value *= 0xff51afd7ed558ccdULL;
    value ^= value >> 33;
    value *= 0xc4ceb9fe1a85ec53ULL;
    value ^= value >> 33;
    return value;
}

__attribute__((noinline)) static uint64_t leaf(uint64_t value)
{
    for (int i = 0; i < STEPS_A_LEAF; i++) {
        value = value * 6364136223846793005ULL + 1442695040888963407ULL;
        __asm__ volatile("" : "+r"(value));
    }
    return value;
}

#define NODE(number) \
    __attribute__((noinline)) static uint64_t node_##number(uint64_t path, int depth) \
    { \
        uint64_t result = depth > 0 ? nodes[mix(path + (uint64_t)depth) & 15](path, depth - 1) : leaf(path); \
        __asm__ volatile("" : "+r"(result)); \
        return result + number; \
    }
NODE(0) NODE(1) NODE(2) NODE(3) NODE(4) NODE(5) NODE(6) NODE(7)
NODE(8) NODE(9) NODE(10) NODE(11) NODE(12) NODE(13) NODE(14) NODE(15)
static node *const nodes[16] = {node_0, node_1, node_2,  node_3,  node_4,  node_5,  node_6,  node_7,
                                node_8, node_9, node_10, node_11, node_12, node_13, node_14, node_15};

static void *run(void *seed)
{
    volatile uint64_t sink;
    for (uint64_t turn = (uint64_t)(intptr_t)seed;; turn++) {
        uint64_t path = mix(turn * 0x9e3779b97f4a7c15ULL) % path_count * 1000;
        sink = nodes[path & 15](path, 10 + (int)(mix(path) % 28));
    }
    (void)sink;
    return NULL;
}

int main(int count, char **arguments)
{
    int thread_count = count > 1 ? atoi(arguments[1]) : 2;
    char line[16];
    if (count > 2)
        path_count = (uint32_t)atoi(arguments[2]);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    for (int i = 0; i < thread_count; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, run, (void *)(intptr_t)(i * 1000003 + 1)) != 0)
            return 1;
    }
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin))
        ;
    _exit(0);
}
