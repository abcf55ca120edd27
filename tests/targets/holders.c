/*
 * A writer that holds a mutex nearly all the time, and readers that wait for it; three threads in a deadlock; or a convoy
 * of three that hold a mutex for less than half of what they do.
 *
 *   holders KIND       normal, recursive, checking, adaptive, robust or inherit
 *   holders deadlock
 *   holders convoy
 *
 * "ready" tells the threads: writer and both readers, or those in the deadlock and one that waits for them. The report
 * says how long the writer, or all threads of a convoy, were in `sums_up` and in `sleeps_inside`, with the mutex.
 */
#include "target.h"

#include <errno.h>

#define HELD_NS 10000000ULL               /* in each of both; in a convoy, a third of that */
#define OUTSIDE_NS 15000000ULL
#define REST_US 500

static pthread_mutex_t first, second;
static volatile int is_over;
static uint64_t computed_ns, slept_ns;
static volatile uint64_t result = 1;
static int tids[3];
static uint64_t held_ns = HELD_NS;
static pthread_barrier_t begun;

static NOINLINE void sums_up(void)
{
    uint64_t until_ns = target_now_ns() + held_ns, state = result;
    while (target_now_ns() < until_ns)
        SPIN(state, 10000, 3);
    result = state;
}

static NOINLINE void sleeps_inside(void)
{
    usleep((useconds_t)(held_ns / 1000));
    result++;
}

static NOINLINE void rests(void)
{
    usleep(REST_US);
    result++;
}

static void *writes(void *unused)
{
    (void)unused;
    tids[0] = target_tid();
    pthread_barrier_wait(&begun);
    while (!is_over) {
        uint64_t began_ns, between_ns;
        pthread_mutex_lock(&first);
        began_ns = target_now_ns();
        sums_up();
        between_ns = target_now_ns();
        sleeps_inside();
        /* What it slept longer, it waited for a CPU: time of the function that ran last. */
        computed_ns += between_ns - began_ns + (target_now_ns() - between_ns - HELD_NS);
        slept_ns += HELD_NS;
        pthread_mutex_unlock(&first);
        rests();
    }
    return NULL;
}

static NOINLINE void reads(void)
{
    pthread_mutex_lock(&first);
    result++;
    pthread_mutex_unlock(&first);
}

static void *reads_on(void *tid)
{
    *(int *)tid = target_tid();
    pthread_barrier_wait(&begun);
    while (!is_over) {
        reads();
        usleep(REST_US / 10);
    }
    return NULL;
}

static NOINLINE void takes(pthread_mutex_t *mutex)
{
    pthread_mutex_lock(mutex);
    result++;
}

static NOINLINE void sorts_outside(void)
{
    uint64_t until_ns = target_now_ns() + OUTSIDE_NS, state = 1;
    while (target_now_ns() < until_ns)
        SPIN(state, 10000, 5);
}

/* All in one function: whether it holds the mutex cannot be told by the stack. */
static void *goes_in_convoy(void *tid)
{
    *(int *)tid = target_tid();
    pthread_barrier_wait(&begun);
    while (!is_over) {
        uint64_t began_ns, between_ns;
        pthread_mutex_lock(&first);
        began_ns = target_now_ns();
        sums_up();
        between_ns = target_now_ns();
        sleeps_inside();
        computed_ns += between_ns - began_ns;
        slept_ns += target_now_ns() - between_ns;
        pthread_mutex_unlock(&first);
        sorts_outside();
        rests();
    }
    return NULL;
}

static void *locks_crosswise(void *tid)
{
    int is_first = tid == tids;
    takes(is_first ? &first : &second);
    *(int *)tid = target_tid();
    pthread_barrier_wait(&begun);
    takes(is_first ? &second : &first);
    return NULL;
}

static void *comes_later(void *tid)
{
    *(int *)tid = target_tid();
    pthread_barrier_wait(&begun);
    takes(&first);
    return NULL;
}

static int set_kind(pthread_mutexattr_t *attributes, const char *kind)
{
    if (!strcmp(kind, "recursive"))
        return pthread_mutexattr_settype(attributes, PTHREAD_MUTEX_RECURSIVE);
    if (!strcmp(kind, "checking"))
        return pthread_mutexattr_settype(attributes, PTHREAD_MUTEX_ERRORCHECK);
#ifdef __GLIBC__
    if (!strcmp(kind, "adaptive"))
        return pthread_mutexattr_settype(attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
#endif
    if (!strcmp(kind, "robust"))
        return pthread_mutexattr_setrobust(attributes, PTHREAD_MUTEX_ROBUST);
    if (!strcmp(kind, "inherit"))
        return pthread_mutexattr_setprotocol(attributes, PTHREAD_PRIO_INHERIT);
    return strcmp(kind, "normal") && strcmp(kind, "deadlock") && strcmp(kind, "convoy") ? EINVAL : 0;
}

int main(int argc, char **argv)
{
    void *(*bodies[3])(void *) = {writes, reads_on, reads_on};
    int is_deadlock = argc == 2 && !strcmp(argv[1], "deadlock");
    pthread_mutexattr_t attributes;
    pthread_t threads[3];
    char facts[128];
    pthread_mutexattr_init(&attributes);
    if (argc != 2 || set_kind(&attributes, argv[1]))
        return 2;
    if (is_deadlock) {
        bodies[0] = bodies[1] = locks_crosswise;
        bodies[2] = comes_later;
    }
    if (argc == 2 && !strcmp(argv[1], "convoy")) {
        bodies[0] = bodies[1] = bodies[2] = goes_in_convoy;
        held_ns = HELD_NS / 3;
    }
    pthread_mutex_init(&first, &attributes);
    pthread_mutex_init(&second, &attributes);
    pthread_barrier_init(&begun, NULL, 4);
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, bodies[i], &tids[i]);
    pthread_barrier_wait(&begun);
    snprintf(facts, sizeof facts, "first=%d second=%d third=%d", tids[0], tids[1], tids[2]);
    target_ready(facts);
    target_wait_for_stop();
    is_over = 1;
    for (int i = 0; i < 3 && !is_deadlock; i++)
        pthread_join(threads[i], NULL);
    printf("computed_ns=%llu slept_ns=%llu\n", (unsigned long long)computed_ns, (unsigned long long)slept_ns);
    return 0;
}
