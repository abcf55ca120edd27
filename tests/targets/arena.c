/*
 * The main thread is in malloc half of the time, with the lock of its arena taken: it asks for sizes that no cache of the
 * thread's holds, while a second thread waits (else there would be no lock). The report is "rounds N".
 */
#include "target.h"

#include <malloc.h>

#define PIECES 400

static void *wait_for_stop(void *argument)
{
    target_wait_for_stop();
    *(volatile int *)argument = 1;
    return NULL;
}

int main(void)
{
    static volatile int is_over;
    static char *pieces[PIECES];
    unsigned long rounds = 0;
    uint64_t random = 88172645463325252ULL;
    pthread_t thread;
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    pthread_create(&thread, NULL, wait_for_stop, (void *)&is_over);
    target_ready("");
    while (!is_over) {
        for (int i = 0; i < PIECES; i++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            free(pieces[i]);
            pieces[i] = malloc(2000 + random % 100000);
            if (!pieces[i])
                return 1;
            SPIN(random, 2000, 1664525);
        }
        rounds++;
    }
    printf("rounds %lu\n", rounds);
    return 0;
}
