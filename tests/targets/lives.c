/*
 * Threads that live for FIRST and then SECOND milliseconds of CPU time, in two functions; two at a time. usage: lives
 * FIRST SECOND
 *
 * Report: "first SHARE", of their CPU time, by their own clocks.
 */
#include "target.h"

static double first_ms, second_ms;

struct life {
    double first_ms, second_ms;
    uint64_t value;
};

static double used_ms(void)
{
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (double)used.tv_sec * 1e3 + (double)used.tv_nsec / 1e6;
}

NOINLINE static uint64_t live_first(uint64_t state, double until_ms)
{
    while (used_ms() < until_ms)
        SPIN(state, 20000, 6364136223846793005ULL);
    return state;
}

NOINLINE static uint64_t live_second(uint64_t state, double until_ms)
{
    while (used_ms() < until_ms)
        SPIN(state, 20000, 2862933555777941757ULL);
    return state;
}

static void *live(void *argument)
{
    struct life *life = argument;
    double begun_ms = used_ms(), turned_ms;
    life->value = live_first(1, begun_ms + first_ms);
    turned_ms = used_ms();
    life->value = live_second(life->value, turned_ms + second_ms);
    life->first_ms = turned_ms - begun_ms;
    life->second_ms = used_ms() - turned_ms;
    return NULL;
}

int main(int argc, char **argv)
{
    struct life lives[2], all = {0, 0, 0};
    if (argc != 3)
        return 2;
    first_ms = strtod(argv[1], NULL);
    second_ms = strtod(argv[2], NULL);
    target_ready("");
    while (!target_asked_to_stop()) {
        pthread_t threads[2];
        for (int i = 0; i < 2; i++)
            if (pthread_create(&threads[i], NULL, live, &lives[i]))
                return 1;
        for (int i = 0; i < 2; i++) {
            pthread_join(threads[i], NULL);
            all.first_ms += lives[i].first_ms;
            all.second_ms += lives[i].second_ms;
        }
    }
    printf("first %.4f\n", all.first_ms / (all.first_ms + all.second_ms));
    return 0;
}
