/* As many threads as the argument says, which compute until standard input ends. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *spin(void *unused)
{
    volatile unsigned long x = 1;
    for (;;)
        x = x * 6364136223846793005UL + 1;
    return unused;
}

int main(int argc, char **argv)
{
    int i, count = argc > 1 ? atoi(argv[1]) : 1;
    pthread_t thread;
    char byte;
    for (i = 0; i < count; i++)
        pthread_create(&thread, NULL, spin, NULL);
    printf("ready\n");
    fflush(stdout);
    while (read(0, &byte, 1) > 0) {
    }
    _exit(0);
}
