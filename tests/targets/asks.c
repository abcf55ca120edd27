/*
 * Asks a server at a steady rate, and writes down how long each answer took.
 *
 *     asks ADDRESS REQUEST LOG CONNECTIONS RATE KEPT
 *
 * ADDRESS is a port of this machine or the path of a socket, REQUEST a file. KEPT is 1 if a connection takes many
 * requests, 0 if each has its own. The first answer is the right one: all others have to be equal to it, but for the
 * time in a "Date:" of HTTP. LOG gets two numbers of 8 bytes for each answer: when the request was due
 * (CLOCK_MONOTONIC) and how long its answer took after that, ns. A request that has to wait for the answer before it
 * was due at its own time. Ends when its standard input does, with "asked N wrong M"; what was wrong goes to stderr.
 */
#include "target.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { ANSWER_BYTES = 1 << 16, TIMEOUT_S = 60, DATE_BYTES = 29 };

static const char *address;
static char request[4096], expected[ANSWER_BYTES];
static size_t request_bytes, expected_bytes;
static uint64_t interval_ns, start_ns;
static int is_kept;
static volatile int is_over;
static FILE *log_file;
static uint64_t asked = 1, wrong;

static int connected(void)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr_in port = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int is_local = address[0] == '/', yes = 1;
    int fd = socket(is_local ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval timeout = {.tv_sec = TIMEOUT_S};
    snprintf(local.sun_path, sizeof local.sun_path, "%s", address);
    port.sin_port = htons((uint16_t)atoi(address));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    if (!is_local)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (is_local ? connect(fd, (struct sockaddr *)&local, sizeof local) == 0
                 : connect(fd, (struct sockaddr *)&port, sizeof port) == 0)
        return fd;
    perror("asks: connect");
    close(fd);
    return -1;
}

/* Reads one answer, which ends at the length of the right one, or with the connection; returns its bytes. */
static size_t read_answer(int fd, char *answer)
{
    size_t have = 0;
    int is_first = !expected_bytes;
    while (have < ANSWER_BYTES && (!is_kept || is_first || have < expected_bytes)) {
        /* How long the first one is shows the silence after it. */
        struct pollfd more = {.fd = fd, .events = POLLIN};
        if (is_kept && is_first && have && poll(&more, 1, 1000) == 0)
            break;
        ssize_t got = recv(fd, answer + have, ANSWER_BYTES - have, 0);
        if (got < 0)
            perror("asks: recv");
        if (got <= 0)
            break;
        have += (size_t)got;
    }
    return have;
}

static void without_date(char *answer, size_t bytes)
{
    char *date = memmem(answer, bytes, "\nDate: ", 7);
    if (date && (size_t)(date - answer) + 7 + DATE_BYTES < bytes)
        memset(date + 7, '-', DATE_BYTES);
}

/* Asks once; returns whether the answer is the right one. */
static int ask(int *fd, char *answer)
{
    if (*fd < 0)
        *fd = connected();
    size_t bytes = 0;
    if (*fd >= 0 && send(*fd, request, request_bytes, MSG_NOSIGNAL) == (ssize_t)request_bytes)
        bytes = read_answer(*fd, answer);
    without_date(answer, bytes);
    int is_right = bytes && (!expected_bytes || (bytes == expected_bytes && !memcmp(answer, expected, bytes)));
    if (!is_right)
        fprintf(stderr, "asks: %zu bytes instead of %zu: %.*s\n", bytes, expected_bytes, (int)(bytes < 400 ? bytes : 400),
                answer);
    if (*fd >= 0 && (!is_kept || !is_right)) {
        close(*fd);
        *fd = -1;
    }
    if (is_right && !expected_bytes) {
        memcpy(expected, answer, bytes);
        expected_bytes = bytes;
    }
    return is_right;
}

static void *connection(void *number)
{
    char *answer = malloc(ANSWER_BYTES);
    int fd = -1;
    for (uint64_t due = start_ns + (uintptr_t)number; !is_over; due += interval_ns) {
        uint64_t began = due;
        if (target_now_ns() < due) {
            struct timespec until = {(time_t)(due / 1000000000), (long)(due % 1000000000)};
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
            began = target_now_ns();
        }
        int is_right = ask(&fd, answer);
        uint64_t entry[2] = {began, target_now_ns() - began};
        fwrite(entry, sizeof entry, 1, log_file);
        __atomic_fetch_add(&asked, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&wrong, !is_right, __ATOMIC_RELAXED);
    }
    free(answer);
    return NULL;
}

int main(int count, char **arguments)
{
    if (count != 7)
        return 2;
    address = arguments[1];
    FILE *file = fopen(arguments[2], "rb");
    log_file = fopen(arguments[3], "ab");
    if (!file || !log_file)
        return 1;
    request_bytes = fread(request, 1, sizeof request, file);
    uintptr_t connections = strtoul(arguments[4], NULL, 10), rate = strtoul(arguments[5], NULL, 10);
    is_kept = atoi(arguments[6]);
    interval_ns = 1000000000 * connections / rate;
    char *answer = malloc(ANSWER_BYTES);
    int fd = -1, is_right = ask(&fd, answer);
    free(answer);
    close(fd);
    if (!is_right)
        return 1;
    start_ns = target_now_ns();
    pthread_t threads[connections];
    for (uintptr_t i = 0; i < connections; i++)
        pthread_create(&threads[i], NULL, connection, (void *)(i * interval_ns / connections));
    target_ready("");
    target_wait_for_stop();
    is_over = 1;
    for (uintptr_t i = 0; i < connections; i++)
        pthread_join(threads[i], NULL);
    fclose(log_file);
    printf("asked %llu wrong %llu\n", (unsigned long long)asked, (unsigned long long)wrong);
    return 0;
}
