/*
 * A seccomp filter that kills comes over all threads at a moment of its own choosing, while the agent, under gcc, samples
 * the process. Built behind the agent's sources.
 *
 * Usage: filter_race TRIALS. Each trial is a process with three threads that compute and one that waits; the filter
 * comes within the first 60 ms at 1000 Hz, when most is read: it kills for what only debuggers and profilers call. Then
 * the agent is stopped. Prints how many trials were killed, and how many ended otherwise than they should.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "in_process.h"

#define THREADS 4
#define LATEST_US 60000
#define AFTERWARDS_US 20000

static volatile u32 begun;

static void *busy(void *argument)
{
    volatile unsigned int turns = 0;
    (void)argument;
    for (__atomic_fetch_add(&begun, 1, __ATOMIC_SEQ_CST);;)
        turns++;
    return NULL;
}

static void *waiting(void *argument)
{
    (void)argument;
    for (__atomic_fetch_add(&begun, 1, __ATOMIC_SEQ_CST);;)
        poll(NULL, 0, 1);
    return NULL;
}

static int filter_calls(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_get_robust_list, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_tgsigqueueinfo, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -1;
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
}

/* 0 when it came through. */
static int trial(unsigned int delay_us)
{
    pthread_t thread;
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread, NULL, i ? busy : waiting, NULL))
            return 1;
    while (begun < THREADS)
        usleep(100);
    if (in_process_prepare(1000, FILTERED_NOBODY, 1))
        return 2;
    for (unsigned int tid; (tid = agent_next_unknown()) != 0;)
        agent_set_owner(tid, 0);
    if (in_process_begin())
        return 3;
    usleep(delay_us);
    if (filter_calls())
        return 4;
    usleep(AFTERWARDS_US);
    return in_process_stop() < 0 ? 5 : 0;
}

int main(int argc, char **argv)
{
    int trials = argc == 2 ? atoi(argv[1]) : 0, killed = 0, failed = 0;
    for (int i = 0; i < trials; i++) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            srand((unsigned int)getpid());
            _exit(trial((unsigned int)rand() % LATEST_US));
        }
        if (child < 0 || waitpid(child, &status, 0) != child)
            return 2;
        killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS;
        failed += status && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
    }
    printf("killed %d failed %d of %d\n", killed, failed, trials);
    return 0;
}
