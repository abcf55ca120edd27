/*
 * main → cycle → heavy (3 parts of the work) or light (1 part). Both run the same loop with another multiplier, so
 * the ratio of their CPU times is the ratio of their iterations: counted, not timed.
 *
 * usage: ratio [LIGHT_ITERATIONS], a nanosecond or so each. A cycle is four times that: long against the sampling
 * period (the boundaries between the two are few), short against a recording (it may end within a cycle).
 */
#include "target.h"

static volatile uint64_t sink;

NOINLINE static uint64_t heavy(uint64_t state, uint64_t light_iterations)
{
    SPIN(state, 3 * light_iterations, 6364136223846793005ULL);
    return state;
}

NOINLINE static uint64_t light(uint64_t state, uint64_t light_iterations)
{
    SPIN(state, light_iterations, 2862933555777941757ULL);
    return state;
}

NOINLINE static void cycle(uint64_t light_iterations)
{
    sink += heavy(sink, light_iterations);
    sink += light(sink, light_iterations);
}

int main(int count, char **arguments)
{
    uint64_t cycles = 0, light_iterations = count > 1 ? strtoull(arguments[1], NULL, 10) : 5000000;
    target_ready("");
    while (!target_asked_to_stop()) {
        cycle(light_iterations);
        cycles++;
    }
    printf("cycles %llu\n", (unsigned long long)cycles);
    return 0;
}
