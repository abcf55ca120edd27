/*
 * Programs that do, while they are looked at, what a profiler least expects of them. Each computes all the while, and
 * counts what it did.
 *
 * usage: fighters MODE [SEED]
 *   unmap-vdso close-vdso vdso-later   the vDSO is gone; not accessible; goes at some moment
 *   actions           SIGURG and SIGWINCH: a handler of its own, ignored and default in turn, and the handler tried
 *   undumpable        PR_SET_DUMPABLE 0
 *   traced tracing    a child of its own traces it; it traces children of its own, and waits for all with __WALL
 *   strangers         SIGUSR1 to every thread that the process has
 *   count             how many threads it has
 *   limit-as limit-data limit-nofile limit-nproc limit-stack    no more than it has now
 *   filter-allow filter-kill filter-kill-all   seccomp filters at some moments: hundreds that allow all; one that kills
 *                     for process_vm_readv, of its own thread or of all
 *   exec exit         becomes itself again, or ends, at some moment
 *   storm             thousands of threads come and go
 *   write-ring write-control   bytes at random in what the profiler has mapped under those names
 *
 * Prints "ready ", with "refused=1" where the kernel did not let it. When its standard input ends (exit: before that)
 * "rounds N sum S" (counted.h) and its counts; exit code 42.
 */
#include "fighters.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define EXECS 20
#define FILTERS 300
#define NOBODY 54321

static const char *mode;
static volatile unsigned long told[2];
static int is_refused;

static int is_mode(const char *name)
{
    return strcmp(mode, name) == 0;
}

/* ------------------------------------------------------------------------------------------------ the vDSO */

static void attack_vdso(void)
{
    uint64_t begin, end;
    if (!find_mapping("[vdso]", &begin, &end))
        is_refused = 1;
    else if (is_mode("close-vdso"))
        is_refused = mprotect((void *)(uintptr_t)begin, end - begin, PROT_NONE) != 0;
    else
        is_refused = munmap((void *)(uintptr_t)begin, end - begin) != 0;
}

static void vdso_later(void)
{
    rest_ms(chance_below(1000));
    attack_vdso();
}

/* ------------------------------------------------------------------------------------------------ signals */

static volatile unsigned long handled;

static void handle_own(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    if (info->si_code == SI_TKILL && info->si_pid == getpid())
        handled++;
    else
        told[1]++; /* somebody else's */
}

static void change_actions(void)
{
    static const int numbers[] = {SIGURG, SIGWINCH};
    struct sigaction own = {.sa_sigaction = handle_own, .sa_flags = SA_SIGINFO | SA_RESTART};
    struct sigaction ignored = {.sa_handler = SIG_IGN}, usual = {.sa_handler = SIG_DFL};
    unsigned long sent = 0;
    while (!is_over) {
        int number = numbers[chance_below(2)];
        sigaction(number, &own, NULL);
        sent++;
        syscall(SYS_tgkill, getpid(), target_tid(), number);
        sigaction(number, &ignored, NULL);
        sigaction(number, &usual, NULL);
        told[0] = sent - handled;
    }
}

static void handle_anywhere(int number)
{
    (void)number;
    told[is_own(target_tid()) ? 0 : 1]++;
}

static void signal_one(int tid)
{
    syscall(SYS_tgkill, getpid(), tid, SIGUSR1);
}

static void signal_strangers(void)
{
    struct sigaction action = {.sa_handler = handle_anywhere, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    while (!is_over)
        each_thread(signal_one);
}

static void count_threads(void)
{
    while (!is_over) {
        unsigned long seen = (unsigned long)each_thread(NULL);
        if (!told[0] || seen < told[0])
            told[0] = seen;
        if (seen > told[1])
            told[1] = seen;
    }
}

/* ------------------------------------------------------------------------------------------------ tracing */

static void be_undumpable(void)
{
    is_refused = prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0;
}

static void be_traced(void)
{
    int begun[2], status;
    char byte;
    if (pipe(begun) != 0)
        _exit(3);
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        int failed = ptrace(PTRACE_SEIZE, parent, NULL, NULL) != 0;
        byte = (char)failed;
        if (write(begun[1], &byte, 1) != 1 || failed)
            _exit(1);
        while (waitpid(parent, &status, __WALL) == parent && WIFSTOPPED(status))
            ptrace(PTRACE_CONT, parent, NULL, status >> 16 ? 0 : WSTOPSIG(status));
        _exit(0);
    }
    prctl(PR_SET_PTRACER, child, 0, 0, 0);
    is_refused = read(begun[0], &byte, 1) != 1 || byte != 0;
}

static void trace_children(void)
{
    while (!is_over) {
        int status;
        pid_t parent = getpid(), child = fork();
        if (child == 0) {
            /* A stopped one that outlives us would keep our output open. */
            prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
            if (getppid() != parent)
                _exit(7);
            ptrace(PTRACE_TRACEME, 0, NULL, NULL);
            raise(SIGSTOP);
            _exit(7);
        }
        /* Any other that is waited for is a child that somebody else has made of us. */
        int is_right = waitpid(-1, &status, __WALL) == child && WIFSTOPPED(status);
        ptrace(PTRACE_CONT, child, NULL, 0);
        is_right &= waitpid(-1, &status, __WALL) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7;
        told[is_right ? 0 : 1]++;
    }
}

/* ------------------------------------------------------------------------------------------------ limits */

static uint64_t status_kib(const char *name)
{
    char line[256];
    unsigned long long kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0)
            sscanf(line + strlen(name), " %llu", &kib);
    if (file)
        fclose(file);
    return kib;
}

static void limit(void)
{
    static const struct {
        const char *mode, *now;
        int resource;
    } limits[] = {
        {"limit-as", "VmSize:", RLIMIT_AS},      {"limit-data", "VmData:", RLIMIT_DATA},
        {"limit-stack", "VmStk:", RLIMIT_STACK}, {"limit-nproc", NULL, RLIMIT_NPROC},
        {"limit-nofile", NULL, RLIMIT_NOFILE},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        if (!is_mode(limits[i].mode))
            continue;
        /* Threads, descriptors: no more than there are. The administrator has no limit of threads. */
        rlim_t most = limits[i].now ? status_kib(limits[i].now) << 10 : 3;
        if (limits[i].resource == RLIMIT_NPROC && geteuid() == 0 && setresuid(NOBODY, NOBODY, NOBODY) != 0)
            is_refused = 1;
        struct rlimit both = {most, most};
        is_refused |= setrlimit(limits[i].resource, &both) != 0;
    }
}

/* ------------------------------------------------------------------------------------------------ seccomp */

static void filter(struct sock_filter *program, unsigned short length, unsigned flags)
{
    struct sock_fprog whole = {length, program};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &whole) == 0)
        told[0]++;
}

static void filter_sometime(void)
{
    struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_filter kill[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    for (int i = 0; is_mode("filter-allow") && i < FILTERS && !is_over; i++) {
        filter(allow, 1, i & 1 ? SECCOMP_FILTER_FLAG_TSYNC : 0);
        rest_ms(chance_below(20));
    }
    if (is_mode("filter-allow"))
        return;
    rest_ms(chance_below(800));
    filter(kill, 4, is_mode("filter-kill-all") ? SECCOMP_FILTER_FLAG_TSYNC : 0);
}

/* ------------------------------------------------------------------------------------------------ threads */

static void *live_briefly(void *token)
{
    return (void *)(uintptr_t)counted_compute((uintptr_t)token, 100);
}

static void make_threads(void)
{
    pthread_t threads[16];
    while (!is_over) {
        int made = 0;
        for (uintptr_t i = 0; i < 16; i++)
            made += pthread_create(&threads[made], NULL, live_briefly, (void *)(i + 1)) == 0;
        for (int i = 0; i < made; i++) {
            void *result;
            pthread_join(threads[i], &result);
            told[(uintptr_t)result == (uintptr_t)i + 1 || made < 16 ? 0 : 1]++;
        }
    }
}

/* ------------------------------------------------------------------------------------------------ the profiler's memory */

static void write_at_random(void)
{
    const char *name = is_mode("write-ring") ? "/memfd:flametap-ring" : "/memfd:flametap-control";
    int memory = open("/proc/self/mem", O_RDWR); /* an error where it has gone meanwhile, no fault */
    while (!is_over) {
        uint64_t begin, end;
        if (!find_mapping(name, &begin, &end)) {
            rest_ms(1);
            continue;
        }
        for (int i = 0; i < 64; i++) {
            uint64_t word = chance_below(UINT64_MAX) << chance_below(64);
            /* Half of it into the first page, where what decides is. */
            uint64_t span = i & 1 ? 4096 : end - begin;
            told[0] += pwrite(memory, &word, sizeof word, (off_t)(begin + (chance_below(span) & ~7ULL))) > 0;
        }
    }
    close(memory);
}

/* ------------------------------------------------------------------------------------------------ the program */

static const struct fighter {
    const char *mode;
    void (*prepare)(void); /* before ready */
    void (*attack)(void);  /* by a thread of its own, until the end */
    const char *told[2];   /* names of its counts */
} fighters[] = {
    {"unmap-vdso", attack_vdso, NULL, {NULL, NULL}},
    {"close-vdso", attack_vdso, NULL, {NULL, NULL}},
    {"vdso-later", NULL, vdso_later, {NULL, NULL}},
    {"actions", NULL, change_actions, {"lost", "foreign"}},
    {"undumpable", be_undumpable, NULL, {NULL, NULL}},
    {"traced", be_traced, NULL, {NULL, NULL}},
    {"tracing", NULL, trace_children, {"right", "wrong"}},
    {"strangers", NULL, signal_strangers, {"own", "foreign"}},
    {"count", NULL, count_threads, {"least", "most"}},
    {"limit-as", limit, NULL, {NULL, NULL}},
    {"limit-data", limit, NULL, {NULL, NULL}},
    {"limit-nofile", limit, NULL, {NULL, NULL}},
    {"limit-nproc", limit, NULL, {NULL, NULL}},
    {"limit-stack", limit, NULL, {NULL, NULL}},
    {"filter-allow", NULL, filter_sometime, {"filters", NULL}},
    {"filter-kill", NULL, filter_sometime, {"filters", NULL}},
    {"filter-kill-all", NULL, filter_sometime, {"filters", NULL}},
    {"exec", NULL, NULL, {"execs", NULL}},
    {"exit", NULL, NULL, {NULL, NULL}},
    {"storm", NULL, make_threads, {"right", "wrong"}},
    {"write-ring", NULL, write_at_random, {"strikes", NULL}},
    {"write-control", NULL, write_at_random, {"strikes", NULL}},
};

static void *attack(void *chosen)
{
    own_thread();
    ((const struct fighter *)chosen)->attack();
    while (!is_over) /* a thread that is gone would look like harm */
        poll(NULL, 0, 5);
    return NULL;
}

/* Becomes itself again with its books, EXECS times, each after some rounds. */
static void exec_sometime(const struct counted *books, char **arguments)
{
    char rounds[24], sum[24], execs[24], seed[24];
    if (!is_mode("exec") || told[0] == EXECS || chance_below(200) != 0)
        return;
    snprintf(rounds, sizeof rounds, "%llu", (unsigned long long)books->rounds);
    snprintf(sum, sizeof sum, "%llu", (unsigned long long)books->sum);
    snprintf(execs, sizeof execs, "%lu", told[0] + 1);
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)chance);
    execl("/proc/self/exe", arguments[0], mode, seed, rounds, sum, execs, (char *)NULL);
    _exit(3);
}

static int work(const struct fighter *chosen, struct counted *books, char **arguments)
{
    char more[128] = "";
    uint64_t last_round = is_mode("exit") ? 1 + chance_below(20000) : UINT64_MAX;
    while (books->rounds < last_round && !target_asked_to_stop()) {
        counted_add(books, counted_compute(counted_token(books->rounds + 1), 20000));
        exec_sometime(books, arguments);
    }
    is_over = 1;
    for (int i = 0; i < 2 && chosen->told[i]; i++)
        snprintf(more + strlen(more), sizeof more - strlen(more), " %s %lu", chosen->told[i], told[i]);
    counted_report(books, more);
    syscall(SYS_exit_group, COUNTED_EXIT_CODE);
    return 1;
}

int main(int count, char **arguments)
{
    struct counted books = {0, 0};
    pthread_t thread;
    mode = count > 1 ? arguments[1] : "";
    if (count > 2)
        chance ^= strtoull(arguments[2], NULL, 10) << 1;
    if (count == 6) {
        books.rounds = strtoull(arguments[3], NULL, 10);
        books.sum = strtoull(arguments[4], NULL, 10);
        told[0] = strtoul(arguments[5], NULL, 10);
    }
    own_thread();
    for (size_t i = 0; i < sizeof fighters / sizeof *fighters; i++) {
        const struct fighter *chosen = &fighters[i];
        if (!is_mode(chosen->mode))
            continue;
        if (chosen->prepare)
            chosen->prepare();
        if (chosen->attack && pthread_create(&thread, NULL, attack, (void *)(uintptr_t)chosen) != 0)
            return 3;
        if (count < 6)
            target_ready(is_refused ? "refused=1" : "");
        return work(chosen, &books, arguments);
    }
    return 2;
}
