/*
 * A library that plugins.c loads, calls and unloads (variant "shared"). Its work has three frames, and the innermost one
 * keeps what it needs on the stack, so that there is something to unwind.
 */
#include "target.h"

uint64_t plugin_work(uint64_t rounds);

NOINLINE static uint64_t plugin_inner(uint64_t rounds, uint64_t state)
{
    volatile uint64_t kept[8] = {state};
    SPIN(state, rounds, 6364136223846793005ULL);
    kept[1] = state;
    return kept[0] + kept[1];
}

NOINLINE static uint64_t plugin_outer(uint64_t rounds)
{
    return plugin_inner(rounds, 42) + 1;
}

uint64_t plugin_work(uint64_t rounds)
{
    return plugin_outer(rounds) * 3;
}
