/*
 * The main thread computes, goes further down its stack when told to (a line, answered "ready"), and computes there. In
 * the end it looks whether each word is as it left it: "corrupt N".
 */
#include "target.h"

#define WORDS 4096

static volatile int is_told, is_over;

static __attribute__((noinline)) unsigned long descend(void)
{
    volatile uint64_t words[WORDS];
    unsigned long corrupt = 0;
    for (uint64_t i = 0; i < WORDS; i++)
        words[i] = i * 6364136223846793005ULL;
    target_ready("");
    while (!is_over)
        ;
    for (uint64_t i = 0; i < WORDS; i++)
        corrupt += words[i] != i * 6364136223846793005ULL;
    return corrupt;
}

static void *listen(void *argument)
{
    char line[16];
    (void)argument;
    is_told = read(0, line, sizeof line) > 0;
    target_wait_for_stop();
    is_over = 1;
    return NULL;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, listen, NULL);
    target_ready("");
    while (!is_told)
        ;
    printf("corrupt %lu\n", descend());
    return 0;
}
