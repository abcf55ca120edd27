/*
 * A program whose names are made to mislead whoever reads them in a terminal. The names of its process and of its
 * thread have escape sequences, line feeds and bytes that are no UTF-8. The test puts such bytes into the name of
 * `spin` and into the path of the source, too, and chooses the program's path and arguments.
 */
#include "target.h"

#include <sys/prctl.h>

static volatile int stop;

/* The test replaces this name in the compiled file by another of the same length. */
NOINLINE uint64_t spin_under_a_name_of_32_letters_(void);
NOINLINE uint64_t spin_under_a_name_of_32_letters_(void)
{
    uint64_t state = 1;
    while (!stop)
        SPIN(state, 1000, 6364136223846793005ULL);
    return state;
}

static void *work(void *unused)
{
    (void)unused;
    prctl(PR_SET_NAME, "t\033[5m\nFAKE\xe2\x80\xae\xff");
    volatile uint64_t result = spin_under_a_name_of_32_letters_();
    (void)result;
    return NULL;
}

int main(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, NULL))
        return 1;
    prctl(PR_SET_NAME, "p\033[2J\nFAKE\xc2\x9b\xff");
    target_ready("");
    target_wait_for_stop();
    stop = 1;
    pthread_join(thread, NULL);
    return 0;
}
