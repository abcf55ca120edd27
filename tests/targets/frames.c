/*
 * A chain of calls that only unwind information shows. usage: frames busy | parked | deep-parked | handler | handler-parked
 *
 * main → outer → qsort → on_item → inner, and there: computes, or sleeps. `deep-parked`: sleeps 100 000 calls further down.
 * `handler`, `handler-parked`: the same in a signal handler on an alternate stack, come from in the middle of `inner`; the
 * handler that computes returns now and then, and is called again after a while.
 */
#include "target.h"

#include <signal.h>

static const char *mode;
static volatile uint64_t sink = 1;

NOINLINE static uint64_t compute(void)
{
    uint64_t state = sink;
    SPIN(state, 5000000, 6364136223846793005ULL);
    sink = state;
    return state;
}

NOINLINE static uint64_t descend(unsigned depth)
{
    if (depth)
        return descend(depth - 1) + sink;
    target_wait_for_stop();
    return sink;
}

NOINLINE static void on_signal(int number)
{
    sink += (uint64_t)number + (strcmp(mode, "handler") == 0 ? compute() : descend(0));
}

NOINLINE static uint64_t inner(int n)
{
    volatile int room[50]; /* frames of several sizes */
    room[n % 50] = n;
    if (strcmp(mode, "handler-parked") == 0)
        raise(SIGTRAP);
    else if (strcmp(mode, "handler") == 0)
        while (!target_asked_to_stop()) {
            sink += compute(); /* a thread that is never seen elsewhere gets no signal: there may be no room for it */
            raise(SIGTRAP);
        }
    else if (strcmp(mode, "busy") == 0)
        while (!target_asked_to_stop())
            sink += compute();
    else
        sink += descend(strcmp(mode, "parked") == 0 ? 0 : 100000);
    return sink + (uint64_t)room[n % 50];
}

NOINLINE static int on_item(const void *a, const void *b)
{
    return (int)(inner(*(const int *)a) + (uint64_t)(*(const int *)b));
}

NOINLINE static int outer(int n)
{
    int items[2] = {n, n + 1};
    qsort(items, 2, sizeof items[0], on_item);
    return items[0];
}

int main(int count, char **arguments)
{
    stack_t alternate = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16, .ss_flags = 0};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_RESTART};
    /* SIGTRAP, because a thread found in a handler of another kind on an alternate stack of unknown size gets no signal. */
    mode = count > 1 ? arguments[1] : "busy";
    sigaltstack(&alternate, NULL);
    sigaction(SIGTRAP, &action, NULL);
    target_ready("");
    printf("%s\n", outer(count) ? "done" : "zero");
    return 0;
}
