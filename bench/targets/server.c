/*
 * A request loop: THREADS threads, each serving one connection of a Unix socket. A request is one byte; the answer is one
 * byte, after a fixed amount of work at the end of a chain of calls. usage: server SOCKET THREADS
 *
 * Prints "ready" when it listens; at the end of its standard input "requests N eintr N": requests answered, and calls
 * that failed with EINTR.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define DEPTH 15                /* frames, as in a usual program */
#define STEPS_A_REQUEST 150000  /* about 200 µs */

static _Atomic uint64_t request_count, eintr_count;

__attribute__((noinline)) static uint64_t work(int depth, uint64_t value)
{
    if (depth > 0) {
        value = work(depth - 1, value);
        __asm__ volatile("" : "+r"(value)); /* neither a tail call nor, as "+ 1" would be, a loop */
        return value;
    }
    for (int i = 0; i < STEPS_A_REQUEST; i++) {
        value = value * 6364136223846793005ULL + 1442695040888963407ULL;
        __asm__ volatile("" : "+r"(value));
    }
    return value;
}

static void *serve(void *argument)
{
    int connection = (int)(intptr_t)argument;
    char byte;
    for (;;) {
        ssize_t got = recv(connection, &byte, 1, 0);
        if (got < 0 && errno == EINTR) {
            eintr_count++;
            continue;
        }
        if (got != 1)
            return NULL;
        byte = (char)work(DEPTH, (uint64_t)byte);
        request_count++;
        while (send(connection, &byte, 1, MSG_NOSIGNAL) < 0 && errno == EINTR)
            eintr_count++;
    }
}

static void *accept_all(void *argument)
{
    int listener = (int)(intptr_t)argument;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 << 10);
    for (;;) {
        pthread_t thread;
        int connection = accept(listener, NULL, NULL);
        if (connection < 0 && errno == EINTR)
            eintr_count++;
        else if (connection < 0 || pthread_create(&thread, &attributes, serve, (void *)(intptr_t)connection) != 0)
            exit(1);
    }
}

int main(int count, char **arguments)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    pthread_t thread;
    char line[16];
    if (count != 3 || strlen(arguments[1]) >= sizeof address.sun_path)
        return 2;
    strcpy(address.sun_path, arguments[1]);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, atoi(arguments[2])) != 0)
        return 1;
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    if (pthread_create(&thread, NULL, accept_all, (void *)(intptr_t)listener) != 0)
        return 1;
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin))
        ;
    printf("requests %llu eintr %llu\n", (unsigned long long)request_count, (unsigned long long)eintr_count);
    fflush(stdout);
    _exit(0);
}
