/*
 * Programs that know their own split: what part of the workers' CPU time is spent in crunch_a, in crunch_b, and so in
 * everything else (system calls, the measuring itself). Each worker reads its own CPU clock around each stretch of work.
 *
 * usage: truth MODE [CPU]     with CPU: it and its helpers run on that one only
 *
 * Standard input: "reset" begins a stretch of time and answers "reset"; "truth" answers one line of JSON for the time
 * since then: a and b as shares of cpu_s, the workers' CPU time; wait_s, how long they were runnable without a CPU, summed
 * over them; wall_s; loops, how often crunch_a was run. The end of input ends it with 0.
 */
#include "truth.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#define PERIOD_NS 10000000L
#define REQUEST_SIZE 64
#define ANSWER_SIZE 512
#define BLOCK_SIZE 4096

static int in_fd, out_fd;
static pthread_mutex_t convoy_lock = PTHREAD_MUTEX_INITIALIZER;

static void sleep_some_us(struct worker *self, unsigned least, unsigned most)
{
    struct timespec pause = {0, 1000L * (least + rand_r(&self->seed) % (most - least))};
    nanosleep(&pause, NULL);
}

static void sleep_until_next_period(void)
{
    struct timespec next;
    clock_gettime(CLOCK_MONOTONIC, &next);
    next.tv_nsec += PERIOD_NS - next.tv_nsec % PERIOD_NS;
    if (next.tv_nsec >= 1000000000L) {
        next.tv_sec++;
        next.tv_nsec -= 1000000000L;
    }
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL) != 0)
        ;
}

/* All of a message, whatever interrupts it. */
static void take(int fd, size_t size)
{
    char buffer[BLOCK_SIZE];
    while (size) {
        ssize_t got = read(fd, buffer, size);
        if (got == 0)
            _exit(1);
        size -= got > 0 ? (size_t)got : 0;
    }
}

static void give(int fd, size_t size)
{
    static const char buffer[BLOCK_SIZE];
    while (size) {
        ssize_t put = write(fd, buffer, size);
        size -= put > 0 ? (size_t)put : 0;
    }
}

static void receive(int fd, size_t size)
{
    char buffer[ANSWER_SIZE];
    while (recv(fd, buffer, size, MSG_WAITALL) != (ssize_t)size)
        ;
}

static void reply(int fd, size_t size)
{
    static const char buffer[ANSWER_SIZE];
    while (send(fd, buffer, size, 0) != (ssize_t)size)
        ;
}

/* ---- modes: one round of a worker; what the helpers do */

NOINLINE static void round_requests(struct worker *self)
{
    receive(in_fd, REQUEST_SIZE);
    do_a(self, 60);
    do_b(self, 30);
    reply(in_fd, REQUEST_SIZE);
}

static void asks(int connection)
{
    for (;;) {
        reply(connection, REQUEST_SIZE);
        crunch_b(1, 15 * per_us);
        receive(connection, REQUEST_SIZE);
    }
}

NOINLINE static void round_bursts(struct worker *self)
{
    do_a(self, 120);
    do_b(self, 70);
    sleep_some_us(self, 500, 2500);
}

NOINLINE static void round_convoy(struct worker *self)
{
    pthread_mutex_lock(&convoy_lock);
    do_a(self, 80);
    pthread_mutex_unlock(&convoy_lock);
    do_b(self, 45);
}

NOINLINE static void round_crowd(struct worker *self)
{
    do_a(self, 900);
    do_b(self, 350);
}

NOINLINE static void round_pipeline(struct worker *self)
{
    take(in_fd, BLOCK_SIZE);
    do_a(self, 50);
    give(out_fd, BLOCK_SIZE);
    do_b(self, 30);
}

static void produces(int pipe)
{
    for (;;) {
        crunch_b(1, 20 * per_us);
        give(pipe, BLOCK_SIZE);
    }
}

static void consumes(int pipe)
{
    for (;;) {
        take(pipe, BLOCK_SIZE);
        crunch_b(1, 20 * per_us);
    }
}

NOINLINE static void round_instep(struct worker *self)
{
    do_a(self, 2000);
    do_b(self, 3000);
    sleep_until_next_period();
}

NOINLINE static void round_tick(struct worker *self)
{
    do_a(self, 700);
    do_b(self, 300);
    sleep_until_next_period();
}

NOINLINE static void round_many(struct worker *self)
{
    do_a(self, 300);
    do_b(self, 150);
    sleep_some_us(self, 50000, 150000);
}

NOINLINE static void handle_request(struct worker *self)
{
    do_a(self, 110);
}

NOINLINE static void round_server(struct worker *self)
{
    receive(in_fd, REQUEST_SIZE);
    handle_request(self);
    reply(in_fd, ANSWER_SIZE);
}

static void browses(int connection)
{
    for (;;) {
        reply(connection, REQUEST_SIZE);
        receive(connection, ANSWER_SIZE);
    }
}

/* ---- helpers: other processes, which end with us */

static void start_helper(void (*lives)(int fd), int fd)
{
    pid_t helper = fork();
    if (helper == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(0); /* the test's */
        close(1);
        lives(fd);
    }
    close(fd);
}

static int start_requests(void)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
        return 1;
    in_fd = ends[0];
    start_helper(asks, ends[1]);
    return 0;
}

static int start_pipeline(void)
{
    int before[2], behind[2];
    if (pipe(before) || pipe(behind))
        return 1;
    in_fd = before[0];
    out_fd = behind[1];
    start_helper(produces, before[1]);
    start_helper(consumes, behind[0]);
    return 0;
}

static int start_server(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 1) ||
        getsockname(listener, (struct sockaddr *)&address, &size) || connect(client, (struct sockaddr *)&address, size))
        return 1;
    in_fd = accept(listener, NULL, NULL);
    close(listener);
    setsockopt(in_fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    start_helper(browses, client);
    return in_fd < 0;
}

static const struct mode {
    const char *name;
    int workers;
    void (*round)(struct worker *self);
    int (*start)(void);
} modes[] = {
    {"requests", 1, round_requests, start_requests},
    {"bursts", 4, round_bursts, NULL},
    {"convoy", 8, round_convoy, NULL},
    {"crowd", 8, round_crowd, NULL},
    {"pipeline", 1, round_pipeline, start_pipeline},
    {"instep", 1, round_instep, NULL},
    {"tick", 1, round_tick, NULL},
    {"many", MAX_WORKERS, round_many, NULL},
    {"server", 1, round_server, start_server},
};
static const struct mode *mode;

static void *live(void *argument)
{
    struct worker *self = argument;
    self->seed = (unsigned)(self - workers) + 1;
    self->tid = target_tid();
    for (;;)
        mode->round(self);
    return NULL;
}

static void answer_until_the_end(void)
{
    char line[16];
    struct totals since = count();
    while (fgets(line, sizeof line, stdin)) {
        struct totals now = count();
        if (strcmp(line, "reset\n") == 0) {
            since = now;
            puts("reset");
        } else {
            tell(&since, &now);
        }
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof modes[0]; i++)
        if (strcmp(argv[1], modes[i].name) == 0)
            mode = &modes[i];
    if (!mode)
        return 2;
    if (argc > 2) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET((size_t)atoi(argv[2]), &one);
        if (sched_setaffinity(0, sizeof one, &one))
            return 3;
    }
    calibrate();
    if (mode->start && mode->start())
        return 4;
    for (worker_count = 0; worker_count < mode->workers; worker_count++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, live, &workers[worker_count]))
            return 5;
    }
    for (int i = 0; i < worker_count; i++)
        while (!workers[i].tid)
            usleep(1000);
    target_ready("");
    answer_until_the_end();
    _exit(0); /* and then the helpers: a worker that met their end first would end us with another code */
}
