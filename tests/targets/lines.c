/*
 * Lines with known shares. Of the CPU time in `uneven`, six eighths are in the line marked HEAVY, one eighth in LIGHT,
 * one in TWIST, which is in a function inlined there. `nested` is on the stack three times, below itself in the line
 * marked AGAIN.
 */
#include "target.h"

#define TURNS 200000
#define MULTIPLIER 6364136223846793005ULL

static volatile uint64_t state;

static inline __attribute__((always_inline)) uint64_t twist(uint64_t x)
{
    SPIN(x, TURNS, MULTIPLIER + 4); /* TWIST */
    return x;
}

NOINLINE static uint64_t uneven(uint64_t x)
{
    SPIN(x, 6 * TURNS, MULTIPLIER); /* HEAVY */
    SPIN(x, TURNS, MULTIPLIER + 2); /* LIGHT */
    return twist(x);                /* CALL */
}

NOINLINE static int nested(int depth)
{
    if (depth > 0)
        return nested(depth - 1) + 1; /* AGAIN */
    state = uneven(state);            /* BOTTOM */
    return depth;
}

int main(void)
{
    int deepest = 0;
    target_ready("");
    while (!target_asked_to_stop())
        deepest = nested(2);
    printf("deepest %d\n", deepest);
    return 0;
}
