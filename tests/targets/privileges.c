/*
 * A program that gives its rights away while it works. It is busy on two threads, and does what each line on its
 * standard input says; it answers with the same word, or with what went wrong.
 *
 * setuid | setgid     to 65534, for good; the C library has every thread do it (nptl(7))
 * chroot              into an empty folder
 * undumpable          prctl(PR_SET_DUMPABLE, 0)
 * nonewprivs          prctl(PR_SET_NO_NEW_PRIVS)
 * filter              a seccomp filter on all threads (TSYNC) that answers every call a busy program does not need with
 *                     EPERM
 * kill                a filter, likewise, that kills the process for calls which only debuggers and profilers make
 * thread              one more busy thread
 * nofile | as | sigpending | nproc     that resource limit, down to what is in use (sigpending: 0)
 * lock                mlockall(MCL_CURRENT | MCL_FUTURE)
 */
#include "target.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

static volatile int stop;
static volatile uint64_t worked[16];
static unsigned workers;

static void *work(void *argument)
{
    size_t index = (size_t)argument;
    uint64_t state = index;
    while (!stop) {
        SPIN(state, 100000, 6364136223846793005ULL);
        worked[index] += 1 + state - state;
    }
    return NULL;
}

static int another_thread(void)
{
    pthread_t thread;
    int error = pthread_create(&thread, NULL, work, (void *)(size_t)workers);
    if (!error) {
        pthread_detach(thread);
        workers++;
    }
    errno = error;
    return error ? -1 : 0;
}

/* What a program needs that reads, writes, sleeps, allocates and has threads. */
static const unsigned short allowed[] = {
    SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_close, SYS_fstat, SYS_lseek, SYS_mmap, SYS_mprotect, SYS_munmap,
    SYS_brk, SYS_madvise, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_poll, SYS_ppoll, SYS_select,
    SYS_pselect6, SYS_epoll_wait, SYS_epoll_pwait, SYS_epoll_ctl, SYS_futex, SYS_nanosleep, SYS_clock_nanosleep,
    SYS_clock_gettime, SYS_gettimeofday, SYS_getpid, SYS_gettid, SYS_exit, SYS_exit_group, SYS_sendmsg, SYS_recvmsg,
    SYS_sendto, SYS_recvfrom, SYS_shutdown, SYS_restart_syscall, SYS_sched_yield, SYS_sigaltstack, SYS_tgkill,
    SYS_getrandom, SYS_set_robust_list, SYS_rseq, SYS_clone3, SYS_clone, SYS_prctl, SYS_eventfd2, SYS_fcntl,
    SYS_sched_getaffinity,
};

static const unsigned short deadly[] = {
    SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_kcmp,
    SYS_perf_event_open, SYS_get_robust_list, SYS_memfd_create, SYS_pidfd_getfd,
};

static int filter(const unsigned short *calls, size_t count, unsigned verdict, unsigned otherwise)
{
    struct sock_filter code[2 * 64 + 8];
    struct sock_fprog program = {.len = 0, .filter = code};
    code[program.len++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < count; i++) {
        code[program.len++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], 0, 1);
        code[program.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict);
    }
    code[program.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, otherwise);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -1;
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
}

static int limit(int resource, rlim_t value)
{
    struct rlimit now;
    getrlimit(resource, &now);
    now.rlim_cur = value;
    return setrlimit(resource, &now);
}

static rlim_t address_space(void)
{
    char text[64] = "";
    int fd = open("/proc/self/statm", O_RDONLY);
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    return got > 0 ? strtoul(text, NULL, 10) * 4096 + (1 << 20) : 0;
}

static int obey(const char *word)
{
    if (strcmp(word, "setuid") == 0)
        return setuid(65534);
    if (strcmp(word, "setgid") == 0)
        return setgid(65534);
    if (strcmp(word, "chroot") == 0) {
        char folder[] = "/tmp/privileges-XXXXXX";
        if (!mkdtemp(folder) || chroot(folder) < 0)
            return -1;
        return chdir("/");
    }
    if (strcmp(word, "undumpable") == 0)
        return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    if (strcmp(word, "nonewprivs") == 0)
        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (strcmp(word, "filter") == 0)
        return filter(allowed, sizeof allowed / sizeof *allowed, SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO | EPERM);
    if (strcmp(word, "kill") == 0)
        return filter(deadly, sizeof deadly / sizeof *deadly, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW);
    if (strcmp(word, "thread") == 0)
        return another_thread();
    if (strcmp(word, "nofile") == 0)
        return limit(RLIMIT_NOFILE, 4);
    if (strcmp(word, "as") == 0)
        return limit(RLIMIT_AS, address_space());
    if (strcmp(word, "sigpending") == 0)
        return limit(RLIMIT_SIGPENDING, 0);
    if (strcmp(word, "nproc") == 0)
        return limit(RLIMIT_NPROC, 1);
    if (strcmp(word, "lock") == 0)
        return mlockall(MCL_CURRENT | MCL_FUTURE);
    errno = EINVAL;
    return -1;
}

int main(void)
{
    char line[64];
    another_thread();
    another_thread();
    target_ready("");
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (obey(line) == 0)
            printf("%s\n", line);
        else
            printf("%s: %s\n", line, strerror(errno));
        fflush(stdout);
    }
    stop = 1;
    printf("worked %d\n", worked[0] > 0 && worked[1] > 0);
    return 0;
}
