/*
 * The whole agent, profiling the process it is in, without Frida. Built behind the agent's sources.
 *
 * Usage: self_profile MILLISECONDS RATE [filtered|rootless]. Three threads: one computes, one sleeps in
 * nanosleep for long, one waits 2 ms at a time in poll and counts interrupted waits. filtered: they come under a seccomp
 * filter that kills, right before sampling begins. rootless:
 * the working folder becomes the root right before sampling begins, so that there is no /proc, and the busy thread's stack
 * lies where an arena of malloc's could. Writes everything the ring
 * carried to stdout, and to stderr one line of facts: tids, CPU nanoseconds of the busy thread over the recording, least and most,
 * interrupted waits, what the agent's end returned, nanoseconds in which all of this stood still.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "in_process.h"

static volatile u32 finished;
static volatile i32 tids[3];
static volatile long interrupted;

__attribute__((noinline)) static double spin(double x)
{
    for (int i = 0; i < 20000; i++)
        x = x * 1.0000001 + 0.5;
    return x;
}

static void *busy(void *argument)
{
    volatile double x = 1;
    (void)argument;
    tids[0] = (i32)syscall(SYS_gettid);
    while (!finished)
        x = spin(x);
    return NULL;
}

static void *asleep(void *argument)
{
    struct timespec long_time = {1000, 0};
    (void)argument;
    tids[1] = (i32)syscall(SYS_gettid);
    nanosleep(&long_time, NULL);
    return NULL;
}

static void *waiting(void *argument)
{
    (void)argument;
    tids[2] = (i32)syscall(SYS_gettid);
    while (!finished)
        if (poll(NULL, 0, 2) < 0 && errno == EINTR)
            interrupted++;
    return NULL;
}

#define ENOUGH_CPU_NS 200000000LL
#define ARENA_BYTES (64UL << 20)
#define STACK_BYTES (8UL << 20)

/* A stack that starts at a multiple of 64 MiB, as malloc's arenas do: of those that the C library maps, one of 32 does. */
static void stack_align(pthread_attr_t *attributes)
{
    char *room = mmap(NULL, 2 * ARENA_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char *start = (char *)(((u64)room + 4096 + ARENA_BYTES - 1) & ~(ARENA_BYTES - 1));
    if (room == MAP_FAILED || mprotect(start, STACK_BYTES, PROT_READ | PROT_WRITE) != 0 ||
        pthread_attr_setstack(attributes, start, STACK_BYTES) != 0)
        abort();
}

static void require(int condition, const char *what)
{
    if (!condition) {
        perror(what);
        exit(2);
    }
}

/* The host's side of the ring: everything between tail and head. */
static void drain(struct ring_header *ring)
{
    u64 head = load_acquire_u64((const volatile u64 *)&ring->head);
    const u8 *data = (const u8 *)ring + RING_HEADER_BYTES;
    for (u64 at = ring->tail; at < head; at++)
        putchar(data[at & (RING_BYTES - 1)]);
    store_release_u64((volatile u64 *)&ring->tail, head);
}

/* The first call with this number kills. */
static void filter_calls(unsigned int number)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
    require(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "prctl");
    require(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0, "seccomp");
}

int main(int argc, char **argv)
{
    pthread_t threads[3];
    void *(*const bodies[3])(void *) = {busy, asleep, waiting};
    require(argc == 3 || argc == 4, "usage: self_profile MILLISECONDS RATE [filtered|rootless]");
    int is_filtered = argc == 4 && strcmp(argv[3], "filtered") == 0;
    int is_rootless = argc == 4 && strcmp(argv[3], "rootless") == 0;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    stack_align(&attributes);
    for (int i = 0; i < 3; i++) {
        const pthread_attr_t *chosen = is_rootless && i == 0 ? &attributes : NULL;
        require(pthread_create(&threads[i], chosen, bodies[i], NULL) == 0, "pthread_create");
        while (!tids[i])
            usleep(1000);
    }
    require(in_process_prepare((unsigned int)atoi(argv[2]), is_filtered_sigsafe() ? FILTERED_MAIN : FILTERED_NOBODY, 1) == 0,
            "prepare");
    struct ring_header *ring = in_process_ring();
    require(ring != NULL, "mmap");
    for (unsigned int tid; (tid = agent_next_unknown()) != 0;)
        agent_set_owner(tid, tid == (unsigned int)getpid()); /* the main thread plays Frida: it must not appear */
    if (is_filtered)
        filter_calls(SYS_process_vm_readv); /* before the sampler thread's first turn */
    if (is_rootless)
        require(chroot(".") == 0, "chroot");
    i64 cpu_first = clock_ns_sigsafe(THREAD_CPU_CLOCK(tids[0]));
    require(in_process_begin() == 0, "begin");
    i64 cpu_before = clock_ns_sigsafe(THREAD_CPU_CLOCK(tids[0]));
    u64 until = now_ns_sigsafe() + (u64)atoi(argv[1]) * 1000000ULL;
    /* On a busy machine, until the busy thread had its turns. */
    while (now_ns_sigsafe() < until ||
           (is_rootless && clock_ns_sigsafe(THREAD_CPU_CLOCK(tids[0])) < cpu_before + ENOUGH_CPU_NS)) {
        usleep(20000);
        drain(ring);
    }
    i64 cpu_after = clock_ns_sigsafe(THREAD_CPU_CLOCK(tids[0]));
    int unanswered = in_process_stop();
    i64 cpu_last = clock_ns_sigsafe(THREAD_CPU_CLOCK(tids[0]));
    drain(ring);
    struct kernel_sigaction urg;
    kernel_sigaction_get(SIGNO_URG, &urg);
    fprintf(stderr, "busy=%d asleep=%d waiting=%d main=%d cpu_ns=%lld cpu_most_ns=%lld interrupted=%ld gap_ns=%llu unanswered=%d "
            "handler=%llu again=%d\n", tids[0], tids[1], tids[2], getpid(), cpu_after - cpu_before, cpu_last - cpu_first, interrupted,
            ring->counters[COUNTER_GAP_NS], unanswered, urg.handler, agent_stop());
    fflush(stdout);
    finished = 1;
    raise(SIGURG); /* must be nobody's */
    pthread_join(threads[0], NULL);
    pthread_join(threads[2], NULL);
    _exit(0);
}
