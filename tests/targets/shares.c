/*
 * Two threads that compute, and four that wait with a timeout, each in its own way.
 *
 *   computer → cycle → heavy (3 parts of the work) or light (1 part)
 *   sleeper → wait_in_epoll, wait_in_poll, wait_in_nanosleep, wait_in_recv
 *
 * usage: shares [mdwe]     with it the program may not make memory executable (PR_SET_MDWE, Linux 6.3)
 *
 * Also built static, with musl, and with ThreadSanitizer. Prints "ready ", with "refused=1" where the kernel has no
 * PR_SET_MDWE; at the end, for each way to wait, "NAME returns=N eintr=N early=N wrong=N", then "rounds N sum S"
 * (counted.h); exit code 42.
 */
#include "counted.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>

#define COMPUTERS 2
#define SLEEPERS 4
#define WAIT_MS 50
#define WAIT_NS (WAIT_MS * 1000000ULL)
/* recv(2) counts its timeout in ticks of the kernel, which come late, several at once, where a virtual machine has no CPU. */
#define COARSE_NS (WAIT_NS * 3 / 4)
#define LIGHT_ITERATIONS 500000ULL
#define SET_MDWE 65

static atomic_int is_over;
static int silent_pair[2], epoll_fd;

NOINLINE static uint64_t heavy(uint64_t token)
{
    uint64_t state = token;
    SPIN(state, 3 * LIGHT_ITERATIONS, 6364136223846793005ULL);
    return state;
}

NOINLINE static uint64_t light(uint64_t token)
{
    uint64_t state = token;
    SPIN(state, LIGHT_ITERATIONS, 2862933555777941757ULL);
    return state;
}

/* The same token has to give the same result in each round; what comes out is the round's token. */
NOINLINE static uint64_t cycle(uint64_t token)
{
    static volatile uint64_t expected;
    uint64_t result = heavy(7) ^ light(7);
    uint64_t before = expected;
    if (!before)
        expected = before = result;
    return token + (result ^ before);
}

static void *computer(void *argument)
{
    struct counted *books = argument;
    while (!is_over)
        counted_add(books, cycle(counted_token(books->rounds + 1)));
    return NULL;
}

NOINLINE static int wait_in_epoll(void)
{
    struct epoll_event event;
    int result = epoll_wait(epoll_fd, &event, 1, WAIT_MS);
    return result;
}

NOINLINE static int wait_in_poll(void)
{
    struct pollfd input = {.fd = silent_pair[0], .events = POLLIN, .revents = 0};
    int result = poll(&input, 1, WAIT_MS);
    return result;
}

NOINLINE static int wait_in_nanosleep(void)
{
    struct timespec time = {0, (long)WAIT_NS};
    int result = nanosleep(&time, NULL);
    return result;
}

NOINLINE static int wait_in_recv(void)
{
    char byte;
    int result = (int)recv(silent_pair[1], &byte, 1, 0);
    return result == -1 && errno == EAGAIN ? 0 : result;
}

static struct wait {
    const char *name;
    int (*enter)(void);
    uint64_t least_ns;
    unsigned long returns, eintr, early, wrong;
} waits[SLEEPERS] = {
    {"epoll_wait", wait_in_epoll, WAIT_NS, 0, 0, 0, 0},
    {"poll", wait_in_poll, WAIT_NS, 0, 0, 0, 0},
    {"nanosleep", wait_in_nanosleep, WAIT_NS, 0, 0, 0, 0},
    {"recv", wait_in_recv, WAIT_NS - COARSE_NS, 0, 0, 0, 0},
};

static void *sleeper(void *argument)
{
    struct wait *own = argument;
    while (!is_over) {
        uint64_t began_ns = target_now_ns();
        int result = own->enter();
        if (result == -1 && errno == EINTR)
            own->eintr++;
        else if (result != 0)
            own->wrong++;
        else if (target_now_ns() - began_ns < own->least_ns)
            own->early++;
        own->returns++;
    }
    return NULL;
}

int main(int count, char **arguments)
{
    static struct counted books[COMPUTERS];
    pthread_t threads[COMPUTERS + SLEEPERS];
    struct timeval timeout = {0, (long)WAIT_MS * 1000};
    const char *facts = "";
    if (count > 1 && strcmp(arguments[1], "mdwe") == 0 && prctl(SET_MDWE, 1, 0, 0, 0) != 0)
        facts = "refused=1";
    cycle(0); /* the result that all others must have */
    epoll_fd = epoll_create1(0);
    if (epoll_fd < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, silent_pair) != 0 ||
        setsockopt(silent_pair[1], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) != 0)
        return 3;
    for (int i = 0; i < COMPUTERS + SLEEPERS; i++) {
        int failed = i < COMPUTERS ? pthread_create(&threads[i], NULL, computer, &books[i])
                                   : pthread_create(&threads[i], NULL, sleeper, &waits[i - COMPUTERS]);
        if (failed)
            return 3;
    }
    target_ready(facts);
    target_wait_for_stop();
    is_over = 1;
    for (int i = 0; i < COMPUTERS + SLEEPERS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < SLEEPERS; i++)
        printf("%s returns=%lu eintr=%lu early=%lu wrong=%lu\n", waits[i].name, waits[i].returns, waits[i].eintr,
               waits[i].early, waits[i].wrong);
    fflush(stdout);
    for (int i = 0; i < COMPUTERS; i++)
        counted_report(&books[i], "");
    return COUNTED_EXIT_CODE;
}
