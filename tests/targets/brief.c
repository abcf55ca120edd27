/*
 * Threads that live a millisecond or so, RATE of them a second. usage: brief RATE
 *
 * Each computes something that is checked when it is joined. A thread that could not be made, or returned something
 * else, ends the target with 1. Report: "threads N".
 */
#include "target.h"

static uint64_t answer(uint64_t state)
{
    SPIN(state, 300000, 6364136223846793005ULL);
    return state;
}

NOINLINE static void *brief(void *argument)
{
    uint64_t *cell = argument;
    *cell = answer(*cell);
    return argument;
}

int main(int argc, char **argv)
{
    unsigned long made = 0, rate = argc > 1 ? strtoul(argv[1], NULL, 10) : 200;
    uint64_t expected = answer(42), start_ns;
    target_ready("");
    start_ns = target_now_ns();
    while (!target_asked_to_stop()) {
        pthread_t threads[2];
        uint64_t cells[2] = {42, 42};
        uint64_t due_ns = start_ns + made * 1000000000ULL / rate;
        struct timespec pause = {0, 1000000};
        if (target_now_ns() < due_ns) {
            nanosleep(&pause, NULL);
            continue;
        }
        for (int i = 0; i < 2; i++)
            if (pthread_create(&threads[i], NULL, brief, &cells[i]))
                return 1;
        for (int i = 0; i < 2; i++) {
            void *result = NULL;
            if (pthread_join(threads[i], &result) || result != &cells[i] || cells[i] != expected)
                return 1;
        }
        made += 2;
    }
    printf("threads %lu\n", made);
    return 0;
}
