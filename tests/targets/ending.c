/*
 * Ends abruptly. usage: ending MILLISECONDS exit|exec|abort|segv|kill [PERCENT]
 *
 * After "ready" it waits for a line, or the end, of its standard input, then uses MILLISECONDS of CPU time in `burn`,
 * prints "used NANOSECONDS", all it has used since the line, and ends: with exit code 3, as /bin/true, or by a signal.
 * After PERCENT of that time it blocks every signal.
 */
#include "target.h"

#include <signal.h>

static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

NOINLINE static uint64_t burn(uint64_t until_ns)
{
    uint64_t state = 1;
    while (cpu_ns() < until_ns)
        SPIN(state, 100000, 6364136223846793005ULL);
    return state;
}

int main(int argc, char **argv)
{
    char line[16];
    uint64_t start_ns, burn_ns;
    if (argc != 3 && argc != 4)
        return 2;
    target_ready("");
    if (read(0, line, sizeof line) < 0)
        return 2;
    start_ns = cpu_ns();
    burn_ns = strtoull(argv[1], NULL, 10) * 1000000ULL;
    if (argc == 4) {
        sigset_t all;
        if (burn(start_ns + burn_ns / 100 * strtoull(argv[3], NULL, 10)) == 0)
            return 2;
        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, NULL);
    }
    if (burn(start_ns + burn_ns) == 0)
        return 2;
    printf("used %llu\n", (unsigned long long)(cpu_ns() - start_ns));
    fflush(stdout);
    switch (argv[2][1] + argv[2][2]) {
    case 'x' + 'i':
        _exit(3);
    case 'x' + 'e':
        execl("/bin/true", "true", (char *)NULL);
        return 2;
    case 'b' + 'o':
        abort();
    case 'e' + 'g':
        raise(SIGSEGV);
        return 2;
    default:
        raise(SIGKILL);
        return 2;
    }
}
