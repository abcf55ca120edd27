/*
 * A big process that forks all the time. usage: forks MEGABYTES fork|vfork|spawn|clone3|thread
 *
 * It touches MEGABYTES of memory, computes for a while, makes a child, waits for it, and so on, in `make_child`; `thread`
 * is fork, called by a second thread. Every eighth child of fork and clone3 looks at itself: it has one thread, none of
 * a profiler's memory, waits in poll undisturbed by signals that are ignored by default, takes signals it has a handler
 * for, and forks a child of its own. The report has one line "child AT_NS LASTED_NS CPU_NS" for each call that made one, and then
 * "children N bad B" with the number of children that ended with anything but 0.
 */
#include "target.h"

#include <errno.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#define CHILDREN_MAX 100000
#define CHECKED_EVERY 8

extern char **environ;

static struct {
    uint64_t at_ns, lasted_ns, cpu_ns;
} made[CHILDREN_MAX];
static volatile unsigned long children, bad;
static volatile int last_bad;
static const char *kind;
static volatile sig_atomic_t own_seen;

static void on_own_signal(int number)
{
    (void)number;
    own_seen = 1;
}

static uint64_t own_cpu_ns(void)
{
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000000000ULL + (uint64_t)used.tv_nsec;
}

/* How many lines of a file hold `word`, -1 if there is no such file. */
static int lines_with(const char *path, const char *word)
{
    char line[512];
    int found = 0;
    FILE *file = fopen(path, "r");
    if (!file)
        return -1;
    while (fgets(line, sizeof line, file))
        found += strstr(line, word) != NULL;
    fclose(file);
    return found;
}

/* 0, or what is wrong with this child. */
static int look_at_itself(void)
{
    const int ignored[] = {SIGURG, SIGWINCH};
    if (lines_with("/proc/self/status", "Threads:\t1\n") != 1)
        return 2;
    if (lines_with("/proc/self/maps", "flametap-ring") != 0)
        return 3;
    for (int i = 0; i < 2; i++) {
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = ignored[i]};
        struct itimerspec soon = {{0, 2000000}, {0, 2000000}};
        timer_t timer;
        timer_create(CLOCK_MONOTONIC, &event, &timer);
        timer_settime(timer, 0, &soon, NULL);
        if (poll(NULL, 0, 15) != 0)
            return 4 + i;
        timer_delete(timer);
        kill(getpid(), ignored[i]);
        raise(ignored[i]);
    }
    signal(SIGURG, on_own_signal);
    raise(SIGURG);
    if (!own_seen)
        return 6;
    pid_t grandchild = fork();
    if (grandchild == 0)
        _exit(7);
    int status = 0;
    if (waitpid(grandchild, &status, 0) != grandchild || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
        return 8;
    return 0;
}

NOINLINE static pid_t make_child(int is_checked)
{
    char *arguments[] = {"true", NULL};
    pid_t child = -1;
    if (strcmp(kind, "vfork") == 0) {
        child = vfork();
        if (child == 0)
            _exit(0);
    } else if (strcmp(kind, "spawn") == 0) {
        errno = posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environ);
        if (errno)
            child = -1;
    } else if (strcmp(kind, "clone3") == 0) {
        struct clone_args how = {.exit_signal = SIGCHLD};
        child = (pid_t)syscall(SYS_clone3, &how, sizeof how);
        if (child == 0)
            _exit(is_checked ? look_at_itself() : 0);
    } else {
        child = fork();
        if (child == 0)
            _exit(is_checked ? look_at_itself() : 0);
    }
    return child;
}

static void make_children(void)
{
    volatile uint64_t sink = 1;
    while (!target_asked_to_stop() && children < CHILDREN_MAX) {
        uint64_t state = sink, began = target_now_ns(), used = own_cpu_ns();
        int status = 0;
        pid_t child = make_child(children % CHECKED_EVERY == CHECKED_EVERY - 1);
        made[children].cpu_ns = own_cpu_ns() - used;
        made[children].at_ns = began;
        made[children].lasted_ns = target_now_ns() - began;
        children++;
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
            bad++;
            last_bad = child < 0 ? errno : status;
        }
        SPIN(state, 2000000, 6364136223846793005ULL);
        sink = state;
    }
}

static void *make_children_in_thread(void *argument)
{
    (void)argument;
    make_children();
    return NULL;
}

int main(int count, char **arguments)
{
    if (count != 3) {
        fputs("usage: forks MEGABYTES fork|vfork|spawn|clone3|thread\n", stderr);
        return 2;
    }
    size_t bytes = (size_t)atol(arguments[1]) << 20;
    volatile char *memory = malloc(bytes);
    for (size_t i = 0; i < bytes; i += 4096)
        memory[i] = 1;
    kind = arguments[2];
    target_ready("");
    if (strcmp(kind, "thread") == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, make_children_in_thread, NULL);
        pthread_join(thread, NULL);
    } else {
        make_children();
    }
    for (unsigned long i = 0; i < children; i++)
        printf("child %llu %llu %llu\n", (unsigned long long)made[i].at_ns, (unsigned long long)made[i].lasted_ns,
               (unsigned long long)made[i].cpu_ns);
    printf("children %lu bad %lu last %d\n", children, bad, last_bad);
    return 0;
}
