/*
 * Our thread as it is really made, and the test as its host (own_host.h). Built behind the agent's sources.
 *
 * Usage: own_thread list|CASE
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cases.h"
#include "own_host.h"

#define ROUNDS_ENOUGH 20
#define SENTINELS 32

/* ---- threads of the target */

static volatile u32 finished;
static pthread_t threads[2];

static void *busy(void *argument)
{
    volatile unsigned int turns = 0;
    while (!finished)
        turns++;
    return argument;
}

static void *waiting(void *argument)
{
    while (!finished)
        usleep(500);
    return argument;
}

static void threads_begin(void)
{
    require(pthread_create(&threads[0], NULL, busy, NULL) == 0 && pthread_create(&threads[1], NULL, waiting, NULL) == 0,
            "threads");
}

static void threads_end(void)
{
    finished = 1;
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
}

/* ---- cases */

static void case_whole_life(void)
{
    threads_begin();
    enter();
    require(tasks_count() == before.threads + 1, "one thread more");
    prepare(filtered_now());
    control->count = 0;
    require(ask(CONTROL_RECIPES, 0, 0, 0) == 0, "recipes");
    descriptors_note(at_start.descriptors);
    start();
    rounds_pass(ROUNDS_ENOUGH);
    descriptors_note(after.descriptors);
    require(!strcmp(at_start.descriptors, after.descriptors), "the descriptor table is the target's alone");
    require(ask(CONTROL_RATE, 2 * RATE_HZ, 0, 0) == 0, "rate");
    rounds_pass(ROUNDS_ENOUGH);
    require(agent_cell->asked_period_ns == 1000000000ULL / (2 * RATE_HZ), "the rate is another");
    require(ask(CONTROL_PAUSE, 1, 0, 0) == 0, "pause");
    usleep(50000);                        /* the round that was under way */
    u64 rounds = ring->counters[COUNTER_TICKS];
    usleep(100000);
    require(ring->counters[COUNTER_TICKS] == rounds, "no rounds while it is paused");
    require(ask(CONTROL_PAUSE, 0, 0, 0) == 0, "go on");
    rounds_pass(ROUNDS_ENOUGH);
    require(ring->counters[COUNTER_SIGNALS_HANDLED] > 0, "signals were handled");
    require(ask(CONTROL_STOP, 0, 0, 0) == 0, "stop: each thread took its signal");
    require(ring->stopped && ring->stop_reason == STOP_ASKED, "the ring is closed");
    require(ask(CONTROL_STOP, 0, 0, 0) == -1, "a second stop has nothing to do");
    require(!agent_has_left(), "our thread is still there");
    request(CONTROL_LEAVE, 0, 0, 0);
    until(agent_has_left, "our thread ends");
    require(load_acquire_u32(&BOOT->state) == BOOT_LEFT, "it has given everything back");
    ring_leave();
    leave();
    agent_leave();                        /* may be called again */
    require_as_before();
    raise(SIGURG);                        /* must be nobody's */
    threads_end();
}

/* A second recording by the same thread makes a gate of its own. */
static void case_begun_again(void)
{
    threads_begin();
    enter();
    for (int i = 0; i < 2; i++) {
        prepare(filtered_now());
        start();
        rounds_pass(ROUNDS_ENOUGH);
        require(ask(CONTROL_STOP, 0, 0, 0) == 0, "stop");
        ring_leave();
    }
    leave();
    require_as_before();
    threads_end();
}

/* agent.js unloads while the agent samples. */
static void case_told_to_leave_amid_its_work(void)
{
    threads_begin();
    enter();
    prepare(filtered_now());
    start();
    rounds_pass(ROUNDS_ENOUGH);
    agent_leave();
    require(!agent_cell && ring->stop_reason == STOP_ASKED, "the recording has ended");
    ring_leave();
    munmap(control, CONTROL_BYTES);
    require_as_before();
    threads_end();
}

static void case_calls_that_nobody_makes(void)
{
    threads_begin();
    enter();
    require(ask(0, 0, 0, 0) == -EINVAL && ask(~0U, ~0ULL, ~0ULL, ~0ULL) == -EINVAL, "there is no such call");
    require(ask(CONTROL_STOP, 0, 0, 0) == -1, "there is nothing to stop");
    require(ask(CONTROL_START, 0, 0, 0) == -EINVAL, "there is nothing to start");
    require(ask(CONTROL_PREPARE, 0, filtered_now(), 0) == -EINVAL, "no rate is none");
    control->count = ~0U;
    require(ask(CONTROL_RECIPES, 0, 0, 0) == 0, "without an agent there are no recipes");
    prepare(filtered_now());
    require(ask(CONTROL_PREPARE, RATE_HZ, filtered_now(), 0) == -EINVAL, "it is prepared");
    require(ask(CONTROL_PAUSE, 1, 0, 0) == -EINVAL, "it does not sample yet");
    memset(&control->u, 0xff, sizeof control->u);
    control->count = ~0U;
    require(ask(CONTROL_RECIPES, 0, 0, 0) == -EINVAL, "so many recipes do not fit");
    control->count = CONTROL_WORDS / RECIPE_WORDS + 1;
    require(ask(CONTROL_RECIPES, 0, 0, 0) == -EINVAL, "nor does one too many");
    control->count = ~0U;
    require(ask(CONTROL_START, 0, 0, 0) == 0, "as many probes as there is room for");
    require(ask(77, 0, 0, 0) == -EINVAL, "there is no such call while it samples");
    require(ask(CONTROL_START, 0, 0, 0) == -EINVAL && ask(CONTROL_PREPARE, 1, 0, 0) == -EINVAL, "nor are these");
    require(ask(CONTROL_RATE, 0, 0, 0) == 0, "no rate");
    rounds_pass(ROUNDS_ENOUGH);
    require(agent_cell->asked_period_ns == 1000000000ULL / RATE_HZ, "the rate is as it was");
    require(ask(CONTROL_RATE, ~0ULL, 0, 0) == 0, "a rate that nobody can have");
    rounds_pass(ROUNDS_ENOUGH);
    require(agent_cell->asked_period_ns == 1000000000ULL / RATE_MOST_HZ, "is the highest");
    control->count = ~0U;
    require(ask(CONTROL_RECIPES, 0, 0, 0) == -EINVAL, "so many recipes do not fit");
    require(ask(CONTROL_STOP, 0, 0, 0) == 0, "stop");
    ring_leave();
    leave();
    require_as_before();
    threads_end();
}

static volatile u32 counting_is_over;

static void *count_wildly(void *argument)
{
    u32 random = 1;
    while (!counting_is_over) {
        random = random * 1664525U + 1013904223U;
        store_release_u32(&control->request, random);
        store_release_u32(&control->answered, random >> (random >> 30));
        control->count = random;
    }
    return argument;
}

/* Whoever writes the memory can have requests carried out again; it ends all the same. */
static void case_requests_counted_wildly(void)
{
    pthread_t counting;
    threads_begin();
    enter();
    prepare(filtered_now());
    start();
    require(ask(CONTROL_PAUSE, 0, 0, 0) == 0, "the last call that was made");
    require(pthread_create(&counting, NULL, count_wildly, NULL) == 0, "thread");
    rounds_pass(5 * ROUNDS_ENOUGH);
    control->call = CONTROL_RECIPES;
    rounds_pass(ROUNDS_ENOUGH);
    agent_leave();
    counting_is_over = 1;
    pthread_join(counting, NULL);
    require(!agent_cell, "nothing is left");
    struct kernel_sigaction action;
    kernel_sigaction_get(SIGNO_URG, &action);
    require(action.handler == SIGNAL_DEFAULT, "the signal is given back");
    threads_end();
}

/* A host that is stopped, or gone, before there is a ring in which it could give a sign of life. */
static void case_host_that_asks_nothing(void)
{
    enter();
    until(agent_has_left, "our thread ends by itself");
    require(BOOT->state == BOOT_LEFT, "it has given everything back");
    leave();
    require_as_before();
}

static void filter_calls(unsigned int number, unsigned int action)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
    require(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "prctl");
    require(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0, "seccomp");
}

/* By a filter that kills threads, in a target that had others before. */
static void case_killed_alone(void)
{
    struct kernel_sigaction action;
    threads_begin();
    for (int i = 0; i < SENTINELS; i++)   /* with the numbers that our thread's own descriptors have */
        require(open("/dev/null", O_RDONLY) >= 0, "open");
    filter_calls(SYS_vserver, SECCOMP_RET_ERRNO);     /* which nobody calls */
    enter();
    prepare(FILTERED_MAIN);
    start();
    rounds_pass(ROUNDS_ENOUGH);
    filter_calls(SYS_pread64, SECCOMP_RET_KILL_THREAD);       /* which no other thread calls */
    until(agent_has_left, "our thread is killed");
    require(agent_cell != NULL && !agent_cell->has_ended, "amid its work");
    agent_leave();
    require(!agent_cell, "the state is freed");
    require(ring->stopped && ring->stop_reason == STOP_SANDBOXED, "the ring says why");
    kernel_sigaction_get(SIGNO_URG, &action);
    require(action.handler == SIGNAL_DEFAULT, "no handler is left");
    ring_leave();
    descriptors_note(after.descriptors);
    require(!strcmp(before.descriptors, after.descriptors), "the descriptors are as before");
    raise(SIGURG);
    threads_end();
}

static int descriptors_of_own(void)
{
    char name[64];
    int found = 0;
    for (int fd = 0; fd < 64; fd++) {
        snprintf(name, sizeof name, "/proc/self/task/%d/fd/%d", own_tid, fd);
        found += access(name, F_OK) == 0 || errno != ENOENT;
    }
    return found;
}

/* Before Linux 5.9 there is no close_range. */
static void case_table_of_an_old_kernel(void)
{
    for (int i = 0; i < SENTINELS; i++)
        require(open("/dev/null", O_RDONLY) >= 0, "open");
    filter_calls(SYS_close_range, SECCOMP_RET_ERRNO | ENOSYS);
    enter();
    require(descriptors_of_own() == 1, "our thread has the control memory and nothing else");
    leave();
    require_as_before();
}

/* Without memory for its own needs, our thread says so and ends. */
static void case_too_little_memory(void)
{
    struct rlimit room, none;
    surroundings_note(&before);
    surroundings_note(&before);
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;
    require(file && fscanf(file, "%lu", &pages) == 1, "statm");
    fclose(file);
    getrlimit(RLIMIT_AS, &room);
    none = room;
    none.rlim_cur = pages * 4096 + OWN_STACK_BYTES + GATE_BYTES + 4096;
    setrlimit(RLIMIT_AS, &none);
    own_tid = agent_enter();
    require(own_tid > 0, "there is memory for its stack");
    until(agent_has_left, "our thread ends");
    setrlimit(RLIMIT_AS, &room);
    require(BOOT->state == BOOT_FAILED && BOOT->error == ENOMEM, "it says why");
    agent_leave();
    require_as_before();
}

/* As where there are too many threads. */
static void case_thread_that_cannot_be_made(void)
{
    filter_calls(SYS_clone, SECCOMP_RET_ERRNO | EAGAIN);
    surroundings_note(&before);
    surroundings_note(&before);
    require(agent_enter() == -EAGAIN, "it is said why");
    require(agent_has_left(), "there is no thread");
    agent_leave();
    require_as_before();
}

static const struct test tests[] = {
    CASE(whole_life),
    CASE(begun_again),
    CASE(told_to_leave_amid_its_work),
    CASE(calls_that_nobody_makes),
    CASE(requests_counted_wildly),
    CASE(host_that_asks_nothing),
    CASE(killed_alone),
    CASE(table_of_an_old_kernel),
    CASE(too_little_memory),
    CASE(thread_that_cannot_be_made),
};

int main(int count, char **arguments)
{
    return cases_run(tests, sizeof tests / sizeof *tests, count, arguments);
}
