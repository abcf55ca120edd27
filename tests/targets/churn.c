/*
 * Makes and ends what a profiler has to keep track of, as fast as it sensibly can: threads that live a few
 * milliseconds, a library loaded and unloaded, forked children that exit, and a child that runs another program. Each
 * of them is checked; the first one that fails ends the target with 1 and a message.
 */
#include "target.h"

#include <dlfcn.h>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;
static volatile uint64_t sink = 1;

NOINLINE static void *brief(void *argument)
{
    uint64_t state = sink;
    SPIN(state, 3000000, 6364136223846793005ULL);
    sink = state;
    return argument;
}

static void expect(int holds, const char *what)
{
    if (!holds) {
        printf("failed: %s\n", what);
        fflush(stdout);
        _exit(1);
    }
}

static void churn_threads(void)
{
    pthread_t threads[4];
    char tokens[4];
    for (size_t i = 0; i < 4; i++)
        expect(pthread_create(&threads[i], NULL, brief, &tokens[i]) == 0, "pthread_create");
    for (size_t i = 0; i < 4; i++) {
        void *result = NULL;
        expect(pthread_join(threads[i], &result) == 0 && result == &tokens[i], "pthread_join");
    }
}

static void churn_library(void)
{
    void *library = dlopen("libresolv.so.2", RTLD_NOW);
    expect(library != NULL, "dlopen");
    expect(dlclose(library) == 0, "dlclose");
}

static void churn_children(void)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(7);
    expect(child > 0, "fork");
    expect(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7, "child's exit code");
    char *const arguments[] = {(char *)"true", NULL};
    expect(posix_spawnp(&child, "true", NULL, NULL, arguments, environ) == 0, "posix_spawn");
    expect(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "spawned exit code");
}

int main(void)
{
    unsigned long rounds = 0;
    target_ready("");
    while (!target_asked_to_stop()) {
        churn_threads();
        churn_library();
        churn_children();
        rounds++;
    }
    printf("rounds %lu\n", rounds);
    return 0;
}
