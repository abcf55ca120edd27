/*
 * Keep a request loop busy: CONNECTIONS connections, one request at a time, to each connection in turn. usage: client
 * SOCKET CONNECTIONS
 *
 * Prints "ready" when connected. For every line on its standard input it prints the figures since the last line, as
 * "REQUESTS WALL_NS P50_NS P99_NS MAX_NS". Ends with its standard input.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define MAX_REQUESTS 4000000 /* the most requests of one window */

static _Atomic int asked;
static uint32_t latency_ns[MAX_REQUESTS];

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int compare(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static void *listen_to_input(void *unused)
{
    char line[16];
    while (fgets(line, sizeof line, stdin))
        asked++;
    _exit(0);
    return unused;
}

static void report(uint64_t count, uint64_t wall_ns)
{
    uint64_t kept = count < MAX_REQUESTS ? count : MAX_REQUESTS;
    qsort(latency_ns, kept, sizeof latency_ns[0], compare);
    printf("%llu %llu %u %u %u\n", (unsigned long long)count, (unsigned long long)wall_ns, kept ? latency_ns[kept / 2] : 0,
           kept ? latency_ns[kept * 99 / 100] : 0, kept ? latency_ns[kept - 1] : 0);
    fflush(stdout);
}

int main(int argument_count, char **arguments)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int connection_count = argument_count == 3 ? atoi(arguments[2]) : 0;
    int *connections = calloc((size_t)connection_count + 1, sizeof *connections);
    pthread_t thread;
    if (connection_count < 1 || !connections || strlen(arguments[1]) >= sizeof address.sun_path)
        return 2;
    strcpy(address.sun_path, arguments[1]);
    for (int i = 0; i < connection_count; i++) {
        connections[i] = socket(AF_UNIX, SOCK_STREAM, 0);
        if (connect(connections[i], (struct sockaddr *)&address, sizeof address) != 0) {
            perror("client: connect");
            return 1;
        }
    }
    pthread_create(&thread, NULL, listen_to_input, NULL);
    puts("ready");
    fflush(stdout);
    uint64_t begin = now_ns(), before = begin, count = 0;
    for (int turn = 0;; turn = (turn + 1) % connection_count) {
        char byte = 'x';
        if (send(connections[turn], &byte, 1, MSG_NOSIGNAL) != 1 || recv(connections[turn], &byte, 1, 0) != 1) {
            fputs("client: the server is gone\n", stderr);
            return 1;
        }
        uint64_t after = now_ns(), spent = after - before;
        if (count < MAX_REQUESTS)
            latency_ns[count] = spent < UINT32_MAX ? (uint32_t)spent : UINT32_MAX;
        count++;
        before = after;
        if (asked > 0) {
            asked--;
            report(count, after - begin);
            count = 0;
            begin = before = now_ns();
        }
    }
}
