/*
 * GNU Pth: threads in user space, each on a stack of 16 KiB from malloc, switched by setjmp and longjmp or ucontext
 * within one kernel thread.
 */
#include <pth.h>

#include "zoo.h"

static void *worker(void *number)
{
    long sum = 0;
    for (long k = 0; k < STEPS; k++) {
        sum += (long)number * k;
        if (k % 5 == 0)
            pth_yield(NULL);
    }
    return (void *)(sum + fib(8) - 21);
}

static int round_is_right(void)
{
    pth_t threads[WORKERS];
    pth_attr_t attributes = pth_attr_new();
    pth_attr_set(attributes, PTH_ATTR_STACK_SIZE, 16384);
    for (long i = 0; i < WORKERS; i++)
        threads[i] = pth_spawn(attributes, worker, (void *)i);
    pth_attr_destroy(attributes);
    long sum = tree_fell(tree_of(12)) + fib(20);
    for (int i = 0; i < WORKERS; i++) {
        void *result = NULL;
        pth_join(threads[i], &result);
        sum += (long)result;
    }
    return sum == ROUND_SUM;
}

int main(void)
{
    if (!pth_init() || !round_is_right() || zoo_ready())
        return 1;
    long rounds = 0, wrong = 0;
    for (; zoo_goes_on(); rounds++)
        wrong += !round_is_right();
    return zoo_report(rounds, wrong);
}
