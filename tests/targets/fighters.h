/* What the fighters (fighters.c) share: the program's end, chance, and its own threads. */
#ifndef FIGHTERS_H
#define FIGHTERS_H

#include "counted.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>

#define OWN_THREADS_MAX 8

static volatile int is_over;
static volatile int own_tids[OWN_THREADS_MAX], own_count;
static uint64_t chance = 88172645463325252ULL;

/* A number below `limit`. By one thread only. */
__attribute__((unused)) static uint64_t chance_below(uint64_t limit)
{
    chance ^= chance << 13;
    chance ^= chance >> 7;
    chance ^= chance << 17;
    return (chance >> 16) % limit;
}

/* Waits by a system call of its own: no clock of the vDSO's. Ends with the program. */
__attribute__((unused)) static void rest_ms(uint64_t ms)
{
    for (; ms > 0 && !is_over; ms--)
        poll(NULL, 0, 1);
}

static void own_thread(void)
{
    own_tids[__atomic_fetch_add(&own_count, 1, __ATOMIC_SEQ_CST)] = target_tid();
}

__attribute__((unused)) static int is_own(int tid)
{
    for (int i = 0; i < own_count; i++)
        if (own_tids[i] == tid)
            return 1;
    return 0;
}

/* Calls `visit` with every thread id of the process, the profiler's among them; returns how many there are. */
__attribute__((unused)) static int each_thread(void (*visit)(int))
{
    DIR *folder = opendir("/proc/self/task");
    struct dirent *entry;
    int count = 0;
    while (folder && (entry = readdir(folder))) {
        int tid = atoi(entry->d_name);
        if (tid == 0)
            continue;
        count++;
        if (visit)
            visit(tid);
    }
    if (folder)
        closedir(folder);
    return count;
}

/* Finds a mapping by the begin of its name; 0 if there is none. */
__attribute__((unused)) static int find_mapping(const char *name, uint64_t *begin, uint64_t *end)
{
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    int found = 0;
    while (maps && !found && fgets(line, sizeof line, maps)) {
        char place[256] = "";
        unsigned long long from = 0, to = 0;
        found = sscanf(line, "%llx-%llx %*s %*s %*s %*s %255s", &from, &to, place) == 3 &&
                strncmp(place, name, strlen(name)) == 0;
        *begin = from;
        *end = to;
    }
    if (maps)
        fclose(maps);
    return found;
}

#endif
