/*
 * Load for memcached: gets and, one in ten, sets, over several connections of one thread, one request at a time on
 * each.
 *
 *     memload PORT CONNECTIONS
 *
 * Runs until SIGINT or SIGTERM, then prints "requests N errors N". An error is a wrong answer, or a connection that
 * ended.
 */

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define KEYS 1000
#define VALUE_BYTES 100
#define SET_EVERY 10
#define CONNECTIONS_MAX 256
#define PATIENCE_MS 2000

struct connection {
    int fd;
    unsigned got, due_bytes;
    char due[256], buffer[256];
};

static volatile sig_atomic_t is_over;
static char value[VALUE_BYTES + 1];
static unsigned long long requests, errors;

static void end(int signo)
{
    (void)signo;
    is_over = 1;
}

/* Request a key, or set it. All keys are set before any is requested. */
static void ask(struct connection *c)
{
    static unsigned long long n;
    unsigned key = (unsigned)(n % KEYS);
    char text[256];
    int bytes, is_set = n < KEYS || n / KEYS % SET_EVERY == 0;
    n++;
    if (is_set) {
        bytes = snprintf(text, sizeof text, "set key%u 0 0 %d\r\n%s\r\n", key, VALUE_BYTES, value);
        c->due_bytes = (unsigned)snprintf(c->due, sizeof c->due, "STORED\r\n");
    } else {
        bytes = snprintf(text, sizeof text, "get key%u\r\n", key);
        c->due_bytes = (unsigned)snprintf(c->due, sizeof c->due, "VALUE key%u 0 %d\r\n%s\r\nEND\r\n", key, VALUE_BYTES, value);
    }
    c->got = 0;
    if (write(c->fd, text, (size_t)bytes) != bytes)
        errors++;
}

/* Read the available answers. Returns 0 if the connection cannot be used any more. */
static int take(struct connection *c)
{
    ssize_t bytes = read(c->fd, c->buffer + c->got, sizeof c->buffer - c->got);
    if (bytes <= 0)
        return 0;
    c->got += (unsigned)bytes;
    if (c->got > c->due_bytes || memcmp(c->buffer, c->due, c->got) != 0)
        return 0;
    if (c->got == c->due_bytes) {
        requests++;
        ask(c);
    }
    return 1;
}

static void connect_to(struct connection *c, int port, int epoll)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    int one = 1;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&at, sizeof at) != 0 ||
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0 ||
        epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event) != 0) {
        perror("memload");
        exit(1);
    }
}

int main(int argc, char **argv)
{
    static struct connection connections[CONNECTIONS_MAX];
    struct epoll_event events[CONNECTIONS_MAX];
    struct sigaction action = {.sa_handler = end};
    int count = argc > 2 ? atoi(argv[2]) : 0, epoll = epoll_create1(0), i;
    if (count < 1 || count > CONNECTIONS_MAX)
        return 2;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    memset(value, 'v', VALUE_BYTES);
    for (i = 0; i < count; i++)
        connect_to(&connections[i], atoi(argv[1]), epoll);
    for (i = 0; i < count; i++)
        ask(&connections[i]);
    while (!is_over) {
        int ready = epoll_wait(epoll, events, CONNECTIONS_MAX, PATIENCE_MS);
        if (ready == 0)
            errors++;                     /* no answer */
        for (i = 0; i < ready; i++) {
            struct connection *c = events[i].data.ptr;
            if (!take(c)) {
                errors++;
                close(c->fd);
            }
        }
    }
    printf("requests %llu errors %llu\n", requests, errors);
    return 0;
}
