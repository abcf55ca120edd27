/*
 * Prints "tick N MICROSECONDS" every 10 ms, N counted from 0, and works in between. A missing, doubled or torn line,
 * or a long gap between two of them, is harm done to it.
 */
#include "target.h"

int main(void)
{
    uint64_t start = target_now_ns();
    volatile uint64_t sink = 1;
    target_ready("");
    for (uint64_t tick = 0; !target_asked_to_stop(); tick++) {
        uint64_t now = target_now_ns();
        printf("tick %llu %llu\n", (unsigned long long)tick, (unsigned long long)((now - start) / 1000));
        fflush(stdout);
        uint64_t state = sink;
        SPIN(state, 2000000, 6364136223846793005ULL);
        sink = state;
        uint64_t next = start + (tick + 1) * 10000000ULL;
        struct timespec until = {(time_t)(next / 1000000000ULL), (long)(next % 1000000000ULL)};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    }
    puts("done");
    return 0;
}
