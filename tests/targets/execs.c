/*
 * Works for PERIOD milliseconds, then replaces itself by itself. usage: execs PERIOD [GENERATION DESCRIPTORS]
 *
 * Says "generation N" each time, with the N of its argument; the first one "ready" before that. A generation that has
 * another thread, or not as many descriptors as the first one, says "failed: …" and ends with 1. Ends with "done N" when its standard
 * input has ended.
 */
#include "target.h"

#include <dirent.h>
#include <errno.h>

static int entries(const char *path)
{
    int count = 0;
    DIR *folder = opendir(path);
    struct dirent *entry;
    while (folder && (entry = readdir(folder)))
        count += entry->d_name[0] != '.';
    if (folder)
        closedir(folder);
    return count;
}

NOINLINE static uint64_t work_until(uint64_t end_ns)
{
    uint64_t state = 1;
    while (target_now_ns() < end_ns)
        SPIN(state, 10000, 6364136223846793005ULL);
    return state;
}

int main(int argc, char **argv)
{
    uint64_t period_ns = (argc > 1 ? strtoull(argv[1], NULL, 10) : 100) * 1000000;
    unsigned long generation = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    int descriptors = entries("/proc/self/fd"), expected = argc > 3 ? atoi(argv[3]) : descriptors;
    char next[24], kept[24];
    char *const arguments[] = {argv[0], argv[1], next, kept, NULL};
    if (generation == 0)
        target_ready("");
    printf("generation %lu\n", generation);
    if (entries("/proc/self/task") != 1 || descriptors != expected) {
        printf("failed: %d threads, %d descriptors, not %d\n", entries("/proc/self/task"), descriptors, expected);
        return 1;
    }
    fflush(stdout);
    work_until(target_now_ns() + period_ns);
    if (target_asked_to_stop()) {
        printf("done %lu\n", generation);
        return 0;
    }
    snprintf(next, sizeof next, "%lu", generation + 1);
    snprintf(kept, sizeof kept, "%d", expected);
    execv(argv[0], arguments);
    printf("failed: exec: %s\n", strerror(errno));
    return 1;
}
