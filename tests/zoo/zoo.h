/*
 * What the zoo's programs in C and C++ share: the work of a round that needs no coroutines, and the end.
 *
 * Every program of the zoo, in whatever language, works in rounds of 247706 = 8191 + 6765 + 232750:
 *   8191    the nodes of a binary tree of depth 12, built and counted: allocation and recursion
 *   6765    the 20th Fibonacci number, by plain recursion
 *   232750  the sum of i * k for 50 workers i (threads, fibers, coroutines, processes …) in 20 steps k
 * It prints "ready", works until the file "keep" in its working directory is gone, prints
 * "rounds N wrong W" and exits with 0.
 */
#ifndef ZOO_H
#define ZOO_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
#define ROUND_SUM 247706L
#define WORKERS 50
#define STEPS 20

struct tree {
    struct tree *left, *right;
};

static NOINLINE struct tree *tree_of(int depth)
{
    struct tree *tree = (struct tree *)malloc(sizeof *tree);
    tree->left = depth > 0 ? tree_of(depth - 1) : NULL;
    tree->right = depth > 0 ? tree_of(depth - 1) : NULL;
    return tree;
}

/* Counts the nodes and frees them. */
static NOINLINE long tree_fell(struct tree *tree)
{
    if (tree == NULL)
        return 0;
    long nodes = 1 + tree_fell(tree->left) + tree_fell(tree->right);
    free(tree);
    return nodes;
}

static NOINLINE long fib(int n)
{
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

static inline int zoo_goes_on(void)
{
    return access("keep", F_OK) == 0;
}

static inline int zoo_ready(void)
{
    return puts("ready") < 0 || fflush(stdout) != 0;
}

static inline int zoo_report(long rounds, long wrong)
{
    return printf("rounds %ld wrong %ld\n", rounds, wrong) < 0;
}

#endif
