/*
 * A program that becomes another one. usage: execs main|thread PROGRAM
 *
 * It computes in main → before_exec and, on a second thread, in thread_work, until a line comes on standard input. Then
 * the main thread, or a third one, executes PROGRAM.
 */
#include "target.h"

static char *const *program;
static volatile int is_over;

NOINLINE static void before_exec(void)
{
    volatile uint64_t sink = 1;
    struct pollfd input = {.fd = 0, .events = POLLIN, .revents = 0};
    while (poll(&input, 1, 0) == 0) {
        uint64_t state = sink;
        SPIN(state, 100000, 6364136223846793005ULL);
        sink = state;
    }
}

NOINLINE static void *thread_work(void *argument)
{
    volatile uint64_t sink = 1;
    (void)argument;
    while (!is_over) {
        uint64_t state = sink;
        SPIN(state, 100000, 6364136223846793005ULL);
        sink = state;
    }
    return NULL;
}

static void *become(void *argument)
{
    (void)argument;
    execv(program[0], program);
    _exit(9);
}

int main(int count, char **arguments)
{
    pthread_t thread;
    char line[16];
    if (count != 3) {
        fputs("usage: execs main|thread PROGRAM\n", stderr);
        return 2;
    }
    program = arguments + 2;
    pthread_create(&thread, NULL, thread_work, NULL);
    target_ready("");
    before_exec();
    if (read(0, line, sizeof line) <= 0)
        return 8;
    if (strcmp(arguments[1], "main") == 0)
        become(NULL);
    pthread_create(&thread, NULL, become, NULL);
    pthread_join(thread, NULL);
    return 9;
}
