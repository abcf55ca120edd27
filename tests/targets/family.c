/*
 * A process whose children do most of the work, each the same: the CPU time of each is counted by its own clock.
 *
 * usage: family CHILDREN MS            so many children burn so many milliseconds of CPU time each, then the parent
 *                                      does, and ends with exit code 7
 *        family CHILDREN MS attached   a child begins when it is attached to
 *        family CHILDREN               so many children sleep until the end of standard input
 */
#include <sys/wait.h>

#include "target.h"

static volatile uint64_t sink;

static int is_attached(void)
{
    static char maps[65536];
    FILE *file = fopen("/proc/self/maps", "r");
    size_t length = file ? fread(maps, 1, sizeof maps - 1, file) : 0;
    maps[length] = 0;
    return file && !fclose(file) && strstr(maps, "flametap-ring");
}

static uint64_t own_cpu_ms(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000 + (uint64_t)used.tv_nsec / 1000000;
}

NOINLINE static void burn(uint64_t ms)
{
    uint64_t state = 1, until_ms = own_cpu_ms() + ms;
    while (own_cpu_ms() < until_ms)
        SPIN(state, 100000, 6364136223846793005ULL);
    sink = state;
}

NOINLINE static void child_work(uint64_t ms)
{
    burn(ms);
    sink++;
}

NOINLINE static void parent_work(uint64_t ms)
{
    burn(ms);
    sink += 2; /* else it is the same function, for the compiler, too */
}

int main(int count, char **arguments)
{
    int children = count > 1 ? atoi(arguments[1]) : 1;
    uint64_t ms = count > 2 ? strtoull(arguments[2], NULL, 10) : 0;
    int waits = count > 3 && !strcmp(arguments[3], "attached");
    char pids[4096] = "";
    for (int i = 0; i < children; i++) {
        pid_t pid = fork();
        if (!pid) {
            for (int tries = 0; waits && tries < 3000 && !is_attached(); tries++)
                usleep(10000);
            if (ms)
                child_work(ms);
            else
                target_wait_for_stop();
            _exit(0);
        }
        if (strlen(pids) + 16 < sizeof pids)
            sprintf(pids + strlen(pids), "child%d=%d ", i, pid);
    }
    target_ready(pids);
    if (!ms)
        target_wait_for_stop();
    while (wait(NULL) > 0)
        ;
    if (!ms)
        return 0;
    parent_work(ms);
    return 7;
}
