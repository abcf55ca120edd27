/*
 * Works for PERIOD milliseconds (0: until a line comes on its standard input), then replaces itself by itself.
 * usage: reborn PERIOD [GENERATION]
 *
 * Says "generation N" each time, with the N of its argument; the first one "ready" before that. Ends with "done N" when
 * its standard input has ended.
 */
#include "target.h"

#include <errno.h>

NOINLINE static uint64_t work_until(uint64_t end_ns)
{
    uint64_t state = 1;
    while (target_now_ns() < end_ns)
        SPIN(state, 10000, 6364136223846793005ULL);
    return state;
}

int main(int argc, char **argv)
{
    uint64_t period_ns = (argc > 1 ? strtoull(argv[1], NULL, 10) : 100) * 1000000;
    unsigned long generation = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    char next[24], byte;
    struct pollfd input = {.fd = 0, .events = POLLIN, .revents = 0};
    char *const arguments[] = {argv[0], argv[1], next, NULL};
    if (generation == 0)
        target_ready("");
    printf("generation %lu\n", generation);
    fflush(stdout);
    if (period_ns)
        work_until(target_now_ns() + period_ns);
    while (!period_ns && poll(&input, 1, 0) == 0)
        work_until(target_now_ns() + 1000000);
    if (poll(&input, 1, 0) == 1 && read(0, &byte, 1) == 0) {
        printf("done %lu\n", generation);
        return 0;
    }
    snprintf(next, sizeof next, "%lu", generation + 1);
    execv(argv[0], arguments);
    printf("failed: exec: %s\n", strerror(errno));
    return 1;
}
