/*
 * Boehm's collector for C: it stops threads by signals, reads their stacks and registers for pointers, and frees what
 * it does not find. Two threads allocate at the same time.
 */
#define GC_THREADS
#include <gc.h>
#include <pthread.h>

#include "zoo.h"

static long rounds[2], wrongs[2];

static NOINLINE struct tree *collected_tree(int depth)
{
    if (depth < 0)
        return NULL;
    struct tree *tree = (struct tree *)GC_MALLOC(sizeof *tree);
    tree->left = collected_tree(depth - 1);
    tree->right = collected_tree(depth - 1);
    return tree;
}

static NOINLINE long nodes(const struct tree *tree)
{
    return tree == NULL ? 0 : 1 + nodes(tree->left) + nodes(tree->right);
}

/* Boxes that only this stack knows. */
static NOINLINE long workers(void)
{
    long sum = 0;
    for (long i = 0; i < WORKERS; i++) {
        long *boxes[STEPS];
        for (long k = 0; k < STEPS; k++) {
            boxes[k] = (long *)GC_MALLOC_ATOMIC(64);
            *boxes[k] = i * k;
        }
        for (long k = 0; k < STEPS; k++)
            sum += *boxes[k];
    }
    return sum;
}

static int round_is_right(void)
{
    struct tree *tree = collected_tree(12);
    long sum = workers() + fib(20);
    return sum + nodes(tree) == ROUND_SUM;
}

static void *work(void *number)
{
    for (long self = (long)number; zoo_goes_on(); rounds[self]++)
        wrongs[self] += !round_is_right();
    return NULL;
}

int main(void)
{
    GC_INIT();
    if (!round_is_right() || tree_fell(tree_of(3)) != 15 || zoo_ready())
        return 1;
    pthread_t other;
    pthread_create(&other, NULL, work, (void *)1);
    work((void *)0);
    pthread_join(other, NULL);
    return zoo_report(rounds[0] + rounds[1], wrongs[0] + wrongs[1]);
}
