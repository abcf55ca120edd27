/*
 * A program in which the C library cannot be called: what it guards is held, or broken, until the program ends.
 *
 * usage: stuck MODE [LIBRARY]
 *   constructor  the main thread is in dlopen of LIBRARY (stuck_library.c), whose constructor never returns
 *   heap         the size of the heap's last chunk is overwritten: the next malloc that looks at it would abort
 *   malloc       the main thread is in a handler that has interrupted malloc, with the only arena locked; a second
 *                thread waits for that lock
 *
 * Prints "ready " and computes, by one thread that calls nothing of the C library's but poll and read; when its standard
 * input ends, "rounds N sum S" (counted.h); exit code 42, by _exit: nothing is put in order.
 */
#include "counted.h"

#include <dlfcn.h>
#include <malloc.h>
#include <signal.h>
#include <sys/time.h>

#define LOCK_HELD_MS 100 /* a malloc that has not come back by then waits for the lock */

static volatile int is_over, is_inside, is_probed, must_go_on;

/* Computes until standard input ends, then ends the program. */
static void *compute(void *unused)
{
    struct counted books = {0, 0};
    while (!target_asked_to_stop())
        counted_add(&books, counted_compute(counted_token(books.rounds + 1), 50000));
    counted_report(&books, "");
    _exit(COUNTED_EXIT_CODE);
    return unused;
}

static void damage_heap(void)
{
    static char output[256];
    mallopt(M_ARENA_MAX, 1); /* every thread's malloc is this one */
    setvbuf(stdout, output, _IOFBF, sizeof output); /* else it is asked for at the first word */
    /* Behind the last block is the rest of the heap, with its size. */
    volatile size_t *volatile block = malloc(24);
    block[3] = ~(size_t)0;
    target_ready("");
    compute(NULL);
}

/* SIGALRM, in the main thread: maybe in the middle of malloc. */
static void linger(int number)
{
    (void)number;
    is_inside = 1;
    while (!must_go_on)
        __asm__ volatile("pause");
    is_inside = 0;
}

static void *probe(void *unused)
{
    while (!is_inside)
        __asm__ volatile("pause");
    void *volatile piece = malloc(50000); /* more than a thread's cache holds */
    free(piece);
    is_probed = 1;
    return unused;
}

/* Has the main thread interrupted until a malloc elsewhere does not come back, and leaves it there. */
static void *catch_main(void *unused)
{
    pthread_t main_thread = *(pthread_t *)unused, prober;
    for (;;) {
        must_go_on = is_probed = 0;
        pthread_create(&prober, NULL, probe, NULL); /* before the interruption: it needs malloc */
        poll(NULL, 0, 1); /* the main thread has got the lock again that the prober's making took */
        pthread_kill(main_thread, SIGALRM);
        while (!is_inside)
            __asm__ volatile("pause");
        for (int ms = 0; ms < LOCK_HELD_MS && !is_probed; ms++)
            poll(NULL, 0, 1);
        if (!is_probed)
            break;
        must_go_on = 1;
        pthread_join(prober, NULL);
        while (is_inside)
            __asm__ volatile("pause");
    }
    if (write(1, "ready \n", 7) != 7)
        _exit(3);
    return compute(unused);
}

NOINLINE static void hold_malloc(void)
{
    static char *pieces[400];
    static pthread_t self;
    pthread_t catcher;
    uint64_t random = 88172645463325252ULL;
    struct sigaction action = {.sa_handler = linger};
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    sigaction(SIGALRM, &action, NULL);
    self = pthread_self();
    pthread_create(&catcher, NULL, catch_main, &self);
    for (;;) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        size_t piece = random % 400;
        free(pieces[piece]);
        pieces[piece] = malloc(2000 + (random >> 32) % 100000);
    }
}

/* For the library: its constructor says so when it is reached. */
void stuck_here(void);
void stuck_here(void)
{
    target_ready("");
    while (!is_over)
        pause();
}

int main(int count, char **arguments)
{
    pthread_t worker;
    if (count > 1 && strcmp(arguments[1], "heap") == 0)
        damage_heap();
    if (count > 1 && strcmp(arguments[1], "malloc") == 0)
        hold_malloc();
    if (count < 3)
        return 2;
    pthread_create(&worker, NULL, compute, NULL);
    dlopen(arguments[2], RTLD_NOW);
    fprintf(stderr, "stuck: %s\n", dlerror());
    return 2;
}
