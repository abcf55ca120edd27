/*
 * A program that loads Python late. usage: embeds LIBPYTHON
 *
 * Each line on standard input is a step, answered by its name: "loaded" (dlopen), "started" (Py_Initialize), "runs" (a
 * thread waits in Python code), then "ended" ends that.
 */
#include "target.h"

#include <dlfcn.h>

static void *library;
static volatile int is_running;

static void *symbol(const char *name)
{
    void *found = dlsym(library, name);
    if (!found)
        exit(3);
    return found;
}

static void *run(void *unused)
{
    int (*ensure)(void) = (int (*)(void))symbol("PyGILState_Ensure");
    int (*simple)(const char *, void *) = (int (*)(const char *, void *))symbol("PyRun_SimpleStringFlags");
    (void)unused;
    ensure();
    is_running = 1;
    simple("import time\ndef embedded():\n    time.sleep(1000)\nembedded()\n", NULL);
    return NULL;
}

int main(int argc, char **argv)
{
    char line[64];
    pthread_t thread;

    if (argc != 2)
        return 2;
    puts("ready");
    fflush(stdout);
    for (int step = 0; fgets(line, sizeof line, stdin); step++) {
        if (step == 0) {
            library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
            puts(library ? "loaded" : dlerror());
        } else if (step == 1) {
            ((void (*)(int))symbol("Py_InitializeEx"))(0);
            ((void *(*)(void))symbol("PyEval_SaveThread"))();
            puts("started");
        } else {
            pthread_create(&thread, NULL, run, NULL);
            while (!is_running)
                usleep(1000);
            puts("runs");
        }
        fflush(stdout);
    }
    _exit(0);
}
