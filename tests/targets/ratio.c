/*
 * main → cycle → heavy (3 parts of the work) or light (1 part). Both run the same loop with another multiplier, so
 * the ratio of their CPU times is the ratio of their iterations: counted, not timed. One cycle is some 100 ms: long
 * against the sampling period (the boundaries between the two are few), short against a recording.
 */
#include "target.h"

#define LIGHT_ITERATIONS 20000000ULL

static volatile uint64_t sink;

NOINLINE static uint64_t heavy(uint64_t state)
{
    SPIN(state, 3 * LIGHT_ITERATIONS, 6364136223846793005ULL);
    return state;
}

NOINLINE static uint64_t light(uint64_t state)
{
    SPIN(state, LIGHT_ITERATIONS, 2862933555777941757ULL);
    return state;
}

NOINLINE static void cycle(void)
{
    sink += heavy(sink);
    sink += light(sink);
}

int main(void)
{
    uint64_t cycles = 0;
    target_ready("");
    while (!target_asked_to_stop()) {
        cycle();
        cycles++;
    }
    printf("cycles %llu\n", (unsigned long long)cycles);
    return 0;
}
