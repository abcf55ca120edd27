/* usage: deep DEPTH. main → descend (DEPTH times, two functions that call each other) → bottom, which is busy. */
#include "target.h"

static volatile uint64_t sink = 1;
static uint64_t descend_odd(unsigned depth);

NOINLINE static uint64_t bottom(void)
{
    while (!target_asked_to_stop()) {
        uint64_t state = sink;
        SPIN(state, 5000000, 6364136223846793005ULL);
        sink = state;
    }
    return sink;
}

NOINLINE static uint64_t descend_even(unsigned depth)
{
    return depth == 0 ? bottom() + sink : descend_odd(depth - 1) + sink;
}

NOINLINE static uint64_t descend_odd(unsigned depth)
{
    return depth == 0 ? bottom() + sink : descend_even(depth - 1) + sink * 2;
}

int main(int count, char **arguments)
{
    unsigned depth = count > 1 ? (unsigned)atoi(arguments[1]) : 500;
    target_ready("");
    printf("%s\n", descend_even(depth) ? "done" : "zero");
    return 0;
}
