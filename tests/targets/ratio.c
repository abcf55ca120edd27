/*
 * main → cycle → heavy (3 parts of the work) or light (1 part). Both run the same loop with another multiplier, so
 * the ratio of their CPU times is the ratio of their iterations: counted, not timed.
 *
 * usage: ratio             cycles of some 20 ms until the end of standard input
 *        ratio ITERATIONS N  waits for a line, does N cycles with so many light iterations (a nanosecond or so each),
 *                            says "did", and waits: all of its work can be recorded, whole cycles and few boundaries
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
    uint64_t cycles = 0;
    target_ready("");
    if (count == 3) {
        char line[16];
        if (!fgets(line, sizeof line, stdin))
            return 1;
        for (int left = atoi(arguments[2]); left > 0; left--, cycles++)
            cycle(strtoull(arguments[1], NULL, 10));
        puts("did");
        fflush(stdout);
        target_wait_for_stop();
    }
    for (; !target_asked_to_stop(); cycles++)
        cycle(5000000);
    printf("cycles %llu\n", (unsigned long long)cycles);
    return 0;
}
