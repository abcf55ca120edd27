/*
 * Each thread waits or computes within another function of the C library. `in_NAME` calls it, `outer_NAME` calls that,
 * and `thread_NAME` is where the thread begins: nothing else of the program is on a stack, but `compare` for qsort.
 *
 *   libc_calls waits | busy
 */
#include "target.h"
#include <math.h>
#include <netinet/in.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>

static volatile int sink;
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER, lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn = PTHREAD_COND_INITIALIZER;
static sem_t none;
static int pipes[2], sockets[2];
static pthread_t first;
static char from[1 << 14], to[1 << 14];

/* What follows a call keeps it from being a jump. */
#define WAITS(name, text)                    \
    NOINLINE static void in_##name(void)     \
    {                                        \
        text;                                \
        sink++;                              \
    }                                        \
    NOINLINE static void outer_##name(void)  \
    {                                        \
        in_##name();                         \
        sink++;                              \
    }                                        \
    static void *thread_##name(void *unused) \
    {                                        \
        outer_##name();                      \
        sink++;                              \
        return unused;                       \
    }
#define BUSY(name, text) WAITS(name, while (!target_asked_to_stop()) for (int i = 0; i < 50; i++) { text; })

WAITS(sleep, sleep(1000))
WAITS(nanosleep, nanosleep(&((struct timespec){1000, 0}), 0))
WAITS(poll, poll(0, 0, 1000000))
WAITS(select, select(0, 0, 0, 0, 0))
WAITS(epoll, epoll_wait(epoll_create1(0), &(struct epoll_event){.events = 0}, 1, -1))
WAITS(cond, pthread_mutex_lock(&lock); pthread_cond_wait(&turn, &lock))
WAITS(mutex, pthread_mutex_lock(&held))
WAITS(sem, sem_wait(&none))
WAITS(read, sink = (int)read(pipes[0], to, 1))
WAITS(fread, sink = (int)fread(to, 1, 1, fdopen(pipes[0], "r")))
WAITS(recv, sink = (int)recv(sockets[0], to, 1, 0))
WAITS(accept, int s = socket(AF_INET, SOCK_STREAM, 0); listen(s, 1); accept(s, 0, 0))
WAITS(join, pthread_join(first, 0))
WAITS(sigwait, sigset_t set; int n; sigemptyset(&set); sigaddset(&set, SIGUSR2); sigwait(&set, &n))

NOINLINE static int compare(const void *a, const void *b)
{
    sink++;
    return *(const int *)a - *(const int *)b;
}

BUSY(memcpy, memcpy(to, from, sizeof to))
BUSY(memset, memset(to, sink, sizeof to))
BUSY(strlen, sink += (int)strlen(from))
BUSY(qsort, int v[100]; for (int k = 0; k < 100; k++) v[k] = rand(); qsort(v, 100, sizeof *v, compare))
BUSY(malloc, void *p[9]; for (int k = 0; k < 9; k++) p[k] = malloc(99U * (unsigned)k + 1); for (int k = 0; k < 9; k++) free(p[k]))
BUSY(printf, char t[500]; snprintf(t, sizeof t, "%d %s %.17g %Lg", sink, "text", sink / 3.0, sink / 7.0L))
BUSY(strtod, sink += (int)strtod("3.14159265358979323846e2", 0))
BUSY(math, sink += (int)(sin(sink) + pow(sink & 7, 1.5) + (double)expl(sink & 3)))
BUSY(strftime, char t[99]; struct tm m; time_t now = sink; localtime_r(&now, &m); strftime(t, sizeof t, "%c %Z", &m))

#define ROW(name) {thread_##name}
static const struct {
    void *(*run)(void *);
} waits[] = {ROW(sleep), ROW(nanosleep), ROW(poll), ROW(select), ROW(epoll), ROW(cond), ROW(mutex), ROW(sem), ROW(read), ROW(fread),
             ROW(recv), ROW(accept), ROW(join), ROW(sigwait)},
  busy[] = {ROW(memcpy), ROW(memset), ROW(strlen), ROW(qsort), ROW(malloc), ROW(printf), ROW(strtod), ROW(math), ROW(strftime)};

int main(int argc, char **argv)
{
    int is_busy = argc > 1 && !strcmp(argv[1], "busy");
    size_t count = is_busy ? sizeof busy / sizeof *busy : sizeof waits / sizeof *waits;
    memset(from, 'x', sizeof from - 1);
    pthread_mutex_lock(&held);
    sem_init(&none, 0, 0);
    if (pipe(pipes) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
        return 1;
    for (size_t i = 0; i < count; i++) {
        pthread_t thread;
        if (pthread_create(&thread, 0, is_busy ? busy[i].run : waits[i].run, 0))
            return 1;
        if (i == 0)
            first = thread;
    }
    target_ready("");
    target_wait_for_stop();
    _exit(0);
}
