/*
 * Work whose result anybody can check: round N carries `counted_token(N)` through whatever the program does, and the sum
 * of what came out is known from the number of rounds alone (tests/support/counted.py). One wrong byte in one round, or
 * a round that was done twice or not at all, gives another sum.
 */
#ifndef COUNTED_H
#define COUNTED_H

#include "target.h"

#define COUNTED_FACTOR 0x9e3779b97f4a7c15ULL
#define COUNTED_EXIT_CODE 42

struct counted {
    uint64_t rounds, sum;
};

static inline uint64_t counted_token(uint64_t round)
{
    return round * COUNTED_FACTOR;
}

static inline void counted_add(struct counted *books, uint64_t came_out)
{
    books->rounds++;
    books->sum += came_out;
}

/* Carries a token through a computation that can be undone: what comes out is the token. The multiplier's inverse is
 * found by Newton's iteration. */
__attribute__((unused)) NOINLINE static uint64_t counted_compute(uint64_t token, uint64_t iterations)
{
    const uint64_t multiplier = 6364136223846793005ULL;
    uint64_t inverse = multiplier, state = token;
    for (int i = 0; i < 6; i++)
        inverse *= 2 - multiplier * inverse;
    SPIN(state, iterations, multiplier);
    for (uint64_t i = 0; i < iterations; i++)
        state = (state - 1) * inverse;
    return state;
}

/* "rounds N sum S" and what else there is to say, by one write(2): no memory is asked for. */
static inline void counted_report(const struct counted *books, const char *more)
{
    char line[256];
    int bytes = snprintf(line, sizeof line, "rounds %llu sum %llu%s\n", (unsigned long long)books->rounds,
                         (unsigned long long)books->sum, more);
    if (write(1, line, (size_t)bytes) != bytes)
        _exit(3);
}

#endif
