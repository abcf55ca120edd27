/*
 * Coroutines of the C library (makecontext, swapcontext) on stacks from malloc, inside the heap, with live data right
 * below each of them. Argument: bytes of a stack; every second coroutine has 1 KiB more.
 *
 * The 8 KiB below each stack hold a pattern. A byte of it that has changed is a wrong round.
 */
#include <string.h>
#include <ucontext.h>

#include "zoo.h"

enum { GUARD_BYTES = 8192, PATTERN = 0xc3, ROUNDS_PER_LOOK = 20 };

static ucontext_t scheduler, coroutines[WORKERS];
static unsigned char *guards[WORKERS];
static int running, is_over[WORKERS];
static long stack_bytes, sum;

/* Uses some of its stack, little enough for the smallest. */
static NOINLINE long deep(int n)
{
    volatile long room[4] = {n, n, n, n};
    return n == 0 ? 0 : room[0] - n + deep(n - 1);
}

static void coroutine(void)
{
    int self = running;
    for (int step = 0; step < STEPS; step++) {
        char *block = (char *)malloc(100 + (size_t)step);
        memset(block, step, 100 + (size_t)step);
        sum += self * (long)block[99] + deep(12);
        free(block);
        swapcontext(&coroutines[self], &scheduler);
    }
    is_over[self] = 1;
    swapcontext(&coroutines[self], &scheduler);
}

static long run_coroutines(void)
{
    sum = 0;
    for (int i = 0; i < WORKERS; i++) {
        getcontext(&coroutines[i]);
        coroutines[i].uc_stack.ss_sp = guards[i] + GUARD_BYTES;
        coroutines[i].uc_stack.ss_size = (size_t)(stack_bytes + 1024 * (i % 2));
        coroutines[i].uc_link = NULL;
        makecontext(&coroutines[i], coroutine, 0);
        is_over[i] = 0;
    }
    for (int alive = WORKERS; alive > 0;)
        for (running = 0; running < WORKERS; running++)
            if (!is_over[running]) {
                swapcontext(&scheduler, &coroutines[running]);
                alive -= is_over[running];
            }
    return sum;
}

static int guards_are_whole(void)
{
    int changed = 0;
    for (int i = 0; i < WORKERS; i++)
        for (int k = 0; k < GUARD_BYTES; k++)
            changed += guards[i][k] != PATTERN;
    return changed == 0;
}

static int round_is_right(void)
{
    long result = tree_fell(tree_of(12)) + fib(20);
    for (int i = 0; i < ROUNDS_PER_LOOK; i++)
        if (result + run_coroutines() != ROUND_SUM)
            return 0;
    return guards_are_whole();
}

int main(int argc, char **argv)
{
    stack_bytes = argc > 1 ? atol(argv[1]) : 16384;
    for (int i = 0; i < WORKERS; i++) {
        guards[i] = (unsigned char *)malloc((size_t)stack_bytes + 1024 + GUARD_BYTES);
        memset(guards[i], PATTERN, GUARD_BYTES);
    }
    if (!round_is_right() || zoo_ready())
        return 1;
    long rounds = 0, wrong = 0;
    for (; zoo_goes_on(); rounds++)
        wrong += !round_is_right();
    return zoo_report(rounds, wrong);
}
