/*
 * The program of `make demo`: a small order book service with nothing to serve. Made so that each view has something
 * to show: two busy threads with deep and shallow stacks, inlined functions and recursion; one that works in bursts;
 * three that wait, each in another system call. Uses about one core; runs until it is killed, its parent dies, or ten
 * minutes are over.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define LIFETIME_S 600
#define ORDER_COUNT 20000
#define DOCUMENT_DEPTH 12
#define NOINLINE __attribute__((noinline))

struct order {
    uint64_t id;
    uint32_t price;
    uint32_t quantity;
};

static _Atomic uint64_t sink; /* keeps results alive, so that no work is optimised away */
static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t idle_wakeup = PTHREAD_COND_INITIALIZER;

static inline uint64_t mix(uint64_t value) {
    value ^= value >> 33;
    value *= 0xff51afd7ed558ccdULL;
    value ^= value >> 29;
    return value;
}

static NOINLINE void rest_ms(long milliseconds) {
    struct timespec pause = {.tv_nsec = milliseconds * 1000000};
    nanosleep(&pause, NULL);
}

/* --- matcher: sort orders, then walk them ------------------------------------------------------------------------ */

static int compare_prices(const void *left, const void *right) {
    const struct order *a = left, *b = right;
    return (a->price > b->price) - (a->price < b->price);
}

static NOINLINE void receive_orders(struct order *orders, uint64_t seed) {
    for (uint64_t i = 0; i < ORDER_COUNT; i++) {
        uint64_t value = mix(seed + i);
        orders[i] = (struct order){.id = i, .price = value % 10007, .quantity = 1 + (value >> 40) % 100};
    }
}

static NOINLINE void sort_book(struct order *orders) {
    qsort(orders, ORDER_COUNT, sizeof *orders, compare_prices);
}

static NOINLINE uint64_t match_orders(const struct order *orders) {
    uint64_t filled = 0;
    for (int pass = 0; pass < 20; pass++)
        for (int i = 1; i < ORDER_COUNT; i++)
            if (orders[i].price == orders[i - 1].price)
                filled += mix(orders[i].quantity + filled);
    return filled;
}

static void *run_matcher(void *orders) {
    for (uint64_t round = 0;; round++) {
        receive_orders(orders, round);
        sort_book(orders);
        sink += match_orders(orders);
        rest_ms(2);
    }
    return NULL;
}

/* --- parser: recursive descent through a nested document ---------------------------------------------------------- */

static NOINLINE uint64_t parse_number(const char *text, size_t length) {
    uint64_t value = 0;
    for (size_t i = 0; i < length; i++)
        value = value * 31 + (unsigned char)text[i];
    return mix(value);
}

static NOINLINE uint64_t parse_string(const char *text, size_t length) {
    uint64_t hash = 14695981039346656037ULL;
    for (int pass = 0; pass < 3; pass++)
        for (size_t i = 0; i < length; i++)
            hash = (hash ^ (unsigned char)text[i]) * 1099511628211ULL;
    return hash;
}

static NOINLINE uint64_t parse_value(const char *text, size_t length, int depth) {
    if (depth == DOCUMENT_DEPTH)
        return parse_number(text, length) + parse_string(text, length);
    uint64_t first = parse_value(text, length, depth + 1);
    return first + (depth % 3 == 0 ? parse_value(text + 1, length - 1, depth + 1) : parse_string(text, length / 8));
}

static void *run_parser(void *text) {
    for (;;) {
        for (int document = 0; document < 40; document++)
            sink += parse_value(text, strlen(text), 0);
        rest_ms(4);
    }
    return NULL;
}

/* --- checkpoint: a burst of work, then sleep ----------------------------------------------------------------------- */

static NOINLINE uint64_t checksum_pages(uint64_t seed) {
    for (int i = 0; i < 20000000; i++)
        seed = mix(seed);
    return seed;
}

static void *run_checkpoint(void *unused) {
    for (uint64_t round = 1;; round++) {
        sink += checksum_pages(round);
        rest_ms(150);
    }
    return unused;
}

/* --- threads that wait --------------------------------------------------------------------------------------------- */

static void *accept_clients(void *unused) {
    struct epoll_event event;
    int poller = epoll_create1(EPOLL_CLOEXEC);
    for (;;)
        epoll_wait(poller, &event, 1, -1);
    return unused;
}

static void *await_jobs(void *unused) {
    pthread_mutex_lock(&idle_lock);
    for (;;)
        pthread_cond_wait(&idle_wakeup, &idle_lock);
    return unused;
}

static void start(const char *name, void *(*run)(void *), void *argument) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, argument) != 0) {
        perror("pthread_create");
        exit(1);
    }
    pthread_setname_np(thread, name);
}

int main(void) {
    static struct order orders[ORDER_COUNT];
    static char document[512];

    memset(document, 'x', sizeof document - 1);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); /* Yama's default lets only ancestors attach */
    alarm(LIFETIME_S);

    start("matcher", run_matcher, orders);
    start("parser", run_parser, document);
    start("checkpoint", run_checkpoint, NULL);
    start("acceptor", accept_clients, NULL);
    start("worker-1", await_jobs, NULL);
    printf("ready %d\n", getpid());
    fflush(stdout);
    for (;;)
        pause();
}
