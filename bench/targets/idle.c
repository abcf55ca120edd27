/*
 * COUNT threads that never run: a third each waits for a lock, for input and for a timeout. usage: idle COUNT Prints
 * "ready"; ends with its standard input.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t never = PTHREAD_MUTEX_INITIALIZER;
static int silent_pipe[2];

static void *wait_long(void *number)
{
    struct timespec hour = {3600, 0};
    struct pollfd input = {.fd = silent_pipe[0], .events = POLLIN, .revents = 0};
    switch ((intptr_t)number % 3) {
    case 0: pthread_mutex_lock(&never); break;
    case 1: poll(&input, 1, -1); break;
    default: nanosleep(&hour, NULL);
    }
    return NULL;
}

int main(int count, char **arguments)
{
    int thread_count = count > 1 ? atoi(arguments[1]) : 10;
    char line[16];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 << 10);
    pthread_mutex_lock(&never);
    if (pipe(silent_pipe) != 0)
        return 1;
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    for (int i = 0; i < thread_count; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, wait_long, (void *)(intptr_t)i) != 0)
            return 1;
    }
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin))
        ;
    _exit(0);
}
