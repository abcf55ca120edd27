/*
 * Computes in a thread, and does with SIGURG's disposition what each line of its standard input says:
 *
 *   replace  sets a handler of its own and keeps the one that was there
 *   raise    sends itself SIGURG
 *   call     calls the handler that was there, as a handler that passes signals on does
 *   restore  puts back what was there
 *
 * Each is answered with "urg N", how often its own handler has run.
 */
#include "target.h"

#include <signal.h>

static volatile sig_atomic_t handled;
static volatile int is_over;

static void on_urg(int number)
{
    (void)number;
    handled++;
}

NOINLINE static void *compute(void *argument)
{
    uint64_t state = 1;
    while (!is_over)
        SPIN(state, 100000, 6364136223846793005ULL);
    return state ? argument : NULL;
}

int main(void)
{
    struct sigaction ours = {.sa_handler = on_urg, .sa_flags = SA_RESTART}, found;
    char line[32];
    pthread_t thread;
    sigaction(SIGURG, NULL, &found);
    if (pthread_create(&thread, NULL, compute, NULL) != 0)
        return 1;
    target_ready("");
    while (fgets(line, sizeof line, stdin)) {
        if (strcmp(line, "replace\n") == 0) {
            sigaction(SIGURG, &ours, &found);
        } else if (strcmp(line, "raise\n") == 0) {
            raise(SIGURG);
        } else if (strcmp(line, "restore\n") == 0) {
            sigaction(SIGURG, &found, NULL);
        } else if (strcmp(line, "call\n") == 0 && found.sa_sigaction) {
            siginfo_t info = {.si_signo = SIGURG};
            ucontext_t context = {0};
            found.sa_sigaction(SIGURG, &info, &context);
        }
        printf("urg %d\n", (int)handled);
        fflush(stdout);
    }
    is_over = 1;
    pthread_join(thread, NULL);
    return 0;
}
