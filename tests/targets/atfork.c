/*
 * The main thread is in fork(3) nearly all the time, but hardly ever in the system call: functions of pthread_atfork(3)
 * compute before and after it. A second thread answers each line of standard input: is the main thread "inside" or
 * "outside"?
 */
#include "target.h"

#include <sys/wait.h>

#define STEPS 3000000ULL                  /* some milliseconds */

static volatile uint64_t state = 1;
static volatile int is_inside, is_over;

static void compute(void)
{
    uint64_t value = state;
    SPIN(value, STEPS, 3);
    state = value;
}

static void *answer(void *argument)
{
    char byte;
    while (read(0, &byte, 1) > 0) {
        if (byte != '\n')
            continue;
        puts(is_inside ? "inside" : "outside");
        fflush(stdout);
    }
    is_over = 1;
    return argument;
}

int main(void)
{
    pthread_t thread;
    pthread_atfork(compute, compute, NULL);
    pthread_create(&thread, NULL, answer, NULL);
    target_ready("");
    while (!is_over) {
        is_inside = 1;
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        is_inside = 0;
        waitpid(child, NULL, 0);
    }
    pthread_join(thread, NULL);
    return 0;
}
