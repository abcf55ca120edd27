/*
 * A thread that fills its stack. usage: tight STACK_BYTES LEFT_BYTES
 *
 * The stack has STACK_BYTES (16384 is PTHREAD_STACK_MIN) and a guard page; the thread calls itself until less than
 * LEFT_BYTES of it are left, and works there, going up and down a little. Whoever needs more than is left is told by
 * SIGSEGV. The report has the depth and whether the sums were right.
 */
#include "target.h"

#include <limits.h>

static size_t stack_bytes, left_bytes;
static volatile int stop;
static uintptr_t lowest;
static unsigned deepest;
static uint64_t rounds;

NOINLINE static uint64_t descend(unsigned depth)
{
    volatile uint64_t seed = depth;
    uint64_t state = seed;
    if ((uintptr_t)__builtin_frame_address(0) - lowest > left_bytes) {
        state += descend(depth + 1);
    } else {
        deepest = depth;
        for (int i = 0; i < 50 && !stop; i++) {
            SPIN(state, 200000, 6364136223846793005ULL);
            seed = state;
            rounds++;
        }
    }
    return state + 1 + seed - seed;
}

static void *work(void *argument)
{
    pthread_attr_t attributes;
    void *stack;
    size_t bytes;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &stack, &bytes);
    pthread_attr_destroy(&attributes);
    lowest = (uintptr_t)stack;
    while (!stop)
        descend(0);
    return argument;
}

int main(int count, char **arguments)
{
    pthread_attr_t attributes;
    pthread_t thread;
    stack_bytes = count > 1 ? strtoul(arguments[1], NULL, 10) : 16384;
    left_bytes = count > 2 ? strtoul(arguments[2], NULL, 10) : 2048;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, stack_bytes) != 0 || pthread_create(&thread, &attributes, work, NULL) != 0) {
        fprintf(stderr, "no such stack\n");
        return 1;
    }
    target_ready("");
    target_wait_for_stop();
    stop = 1;
    pthread_join(thread, NULL);
    printf("worked %d deep %d\n", rounds > 0, deepest > 3);
    return 0;
}
