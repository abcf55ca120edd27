/*
 * What an attach does to the thread that it stops: the main thread reads the clock all the time and notes the longest
 * gap between two readings; others wait. Each line on standard input is answered with that gap in nanoseconds, and the
 * next begins.
 */
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned long long longest_ns, must_reset;

static unsigned long long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned long long)now.tv_sec * 1000000000ULL + (unsigned long long)now.tv_nsec;
}

static void *wait_long(void *unused)
{
    for (;;)
        sleep(1000);
    return unused;
}

static void *answer(void *unused)
{
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        printf("%llu\n", longest_ns);
        fflush(stdout);
        must_reset = 1;
    }
    _exit(0);
    return unused;
}

int main(void)
{
    pthread_t thread;
    unsigned long long last_ns, at_ns;
    pthread_create(&thread, NULL, answer, NULL);
    pthread_create(&thread, NULL, wait_long, NULL);
    printf("ready\n");
    fflush(stdout);
    for (last_ns = now_ns();; last_ns = at_ns) {
        at_ns = now_ns();
        if (must_reset) {
            longest_ns = 0;
            must_reset = 0;
        } else if (at_ns - last_ns > longest_ns) {
            longest_ns = at_ns - last_ns;
        }
    }
}
