/*
 * Works in three threads and ends in the way it was asked for, while they run. usage: ends HOW MILLISECONDS
 * (0: when its standard input ends)
 *
 *   return       main returns 3
 *   exit         exit(4) from a thread
 *   quick        _exit(5) from a thread
 *   abort        SIGABRT from a thread
 *   fault        SIGSEGV in a thread
 *   illegal      an instruction that does not exist
 *   kill         SIGKILL to itself
 *   thread       main ends by pthread_exit, the others go on for 50 ms; exit code 0
 *   wait         does not end by itself
 *
 * Prints a numbered line every millisecond until then, each written at once; the last thing a main that returns writes,
 * and what runs at exit, is "last".
 */
#include "target.h"

#include <signal.h>

static const char *how;
static volatile uint64_t end_ns;
static volatile int *volatile bad_address = (volatile int *)8;

NOINLINE static uint64_t work_until(volatile uint64_t *until_ns)
{
    uint64_t state = 1;
    while (target_now_ns() < *until_ns)
        SPIN(state, 10000, 6364136223846793005ULL);
    return state;
}

static int is(const char *name)
{
    return strcmp(how, name) == 0;
}

static void *end_as_asked(void *argument)
{
    work_until(&end_ns);
    if (is("thread"))
        return argument;
    if (is("exit"))
        exit(4);
    if (is("quick"))
        _exit(5);
    if (is("abort"))
        abort();
    if (is("fault"))
        *bad_address = 1;
    if (is("illegal"))
        __asm__ volatile("ud2");
    if (is("kill"))
        kill(getpid(), SIGKILL);
    return argument;
}

static void *work(void *argument)
{
    volatile uint64_t never_ns = ~0ULL, later_ns;
    work_until(is("thread") ? &end_ns : &never_ns);
    later_ns = target_now_ns() + 50000000ULL;
    work_until(&later_ns);
    return argument;
}

static void last(void)
{
    char text[] = "last\n";
    if (write(1, text, sizeof text - 1) < 0)
        _exit(9);
}

int main(int argc, char **argv)
{
    pthread_t threads[2];
    unsigned long number = 0;
    uint64_t end_ms = argc > 2 ? strtoull(argv[2], NULL, 10) : 100;
    how = argc > 1 ? argv[1] : "wait";
    end_ns = is("wait") || !end_ms ? ~0ULL : target_now_ns() + end_ms * 1000000ULL;
    atexit(last);
    target_ready("");
    pthread_create(&threads[0], NULL, end_as_asked, NULL);
    pthread_create(&threads[1], NULL, work, NULL);
    while (target_now_ns() < end_ns || !(is("return") || is("thread"))) {
        char line[32];
        volatile uint64_t next_ns = target_now_ns() + 1000000;
        int length = snprintf(line, sizeof line, "%lu\n", number++);
        if (write(1, line, (size_t)length) != length)
            return 9;
        work_until(&next_ns);
        if (!end_ms && end_ns == ~0ULL && target_asked_to_stop())
            end_ns = target_now_ns();
    }
    if (is("thread"))
        pthread_exit(NULL);
    return 3;
}
