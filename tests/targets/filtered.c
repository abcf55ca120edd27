/*
 * Installs a seccomp filter and then works and sleeps in turn, as a second thread does, which sleeps more.
 *   filtered kill CALL ...    the calls with these numbers kill the process
 *   filtered trap CALL ...    ... raise SIGSYS, which nobody handles
 *   filtered error CALL ...   ... fail with EPERM
 *   filtered only CALL ...    all others fail with EPERM; clone3 with ENOSYS, as container runtimes do it
 *   filtered thread CALL ...  they kill, in the second thread alone
 *   filtered each CALL ...    a further thread for each, in which that call kills
 */
#include "target.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

static char **calls;
static int call_count;
static const char *mode;

static void filter_calls(void)
{
    static struct sock_filter program[1024]; /* two for each call */
    unsigned action = SECCOMP_RET_KILL_PROCESS;
    unsigned short used = 0;
    int is_only = !strcmp(mode, "only");
    if (!strcmp(mode, "trap"))
        action = SECCOMP_RET_TRAP;
    if (!strcmp(mode, "error"))
        action = SECCOMP_RET_ERRNO | 1;
    if (is_only)
        action = SECCOMP_RET_ALLOW;
    program[used++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0);
    for (int i = 0; i < call_count && used < 1020; i++) {
        program[used++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)atoi(calls[i]), 0, 1);
        program[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
    }
    if (is_only) {
        program[used++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1);
        program[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 38);
    }
    program[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, is_only ? SECCOMP_RET_ERRNO | 1 : SECCOMP_RET_ALLOW);
    struct sock_fprog filter = {used, program};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
        abort();
}

static void filter_one_call(char **call)
{
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)atoi(*call), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof program / sizeof *program, program};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
        abort();
}

static void *sleeping(void *call)
{
    uint64_t state = 1;
    if (!strcmp(mode, "thread"))
        filter_calls();
    if (call)
        filter_one_call(call);
    for (;;) {
        SPIN(state, 1000000, 3);
        usleep(5000);
    }
    return call;
}

int main(int count, char **arguments)
{
    pthread_t thread;
    uint64_t state = 1;
    if (count < 3)
        return 2;
    mode = arguments[1];
    calls = arguments + 2;
    call_count = count - 2;
    pthread_create(&thread, NULL, sleeping, NULL);
    for (int i = 0; i < call_count && !strcmp(mode, "each"); i++)
        pthread_create(&thread, NULL, sleeping, &calls[i]);
    if (strcmp(mode, "thread") && strcmp(mode, "each"))
        filter_calls();
    usleep(20000); /* for the thread's filter */
    target_ready("");
    while (!target_asked_to_stop()) {
        SPIN(state, 200000, 3);
        usleep(500);
    }
    puts(state ? "survived" : "survived 0");
    fflush(stdout);
    return 0;
}
