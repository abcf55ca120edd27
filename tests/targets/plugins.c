/*
 * Loads a library, works in it for some milliseconds, unloads it, and again, in THREADS threads, each with a copy of its
 * own. usage: plugins LIBRARY…
 *
 * The result of the work is checked each time. Report: "rounds N".
 */
#include "target.h"

#include <dlfcn.h>

#define MAX_THREADS 8
static volatile int stopping;
static unsigned long rounds[MAX_THREADS];
static char **paths;

static void *storm(void *argument)
{
    unsigned long *mine = argument;
    const char *path = paths[mine - rounds];
    uint64_t expected = 0;
    while (!stopping) {
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        uint64_t (*work)(uint64_t), got;
        if (!library) {
            printf("failed: dlopen: %s\n", dlerror());
            exit(1);
        }
        *(void **)&work = dlsym(library, "plugin_work");
        got = work(3000000);
        if (expected && got != expected) {
            printf("failed: the library computes something else\n");
            exit(1);
        }
        expected = got;
        if (dlclose(library)) {
            printf("failed: dlclose: %s\n", dlerror());
            exit(1);
        }
        ++*mine;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[MAX_THREADS];
    unsigned long sum = 0;
    int count = argc - 1 < MAX_THREADS ? argc - 1 : MAX_THREADS;
    paths = argv + 1;
    target_ready("");
    for (int i = 0; i < count; i++)
        pthread_create(&threads[i], NULL, storm, &rounds[i]);
    target_wait_for_stop();
    stopping = 1;
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        sum += rounds[i];
    }
    printf("rounds %lu\n", sum);
    return 0;
}
