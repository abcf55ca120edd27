/* The C part of Bare.java, to be built without unwind information and frame pointers. No header of Java is needed. */
#include <stdint.h>
#include <time.h>

#define WORDS 2048

/* Not inlined: the buffer of the callers is between the stack pointer and Java. */
__attribute__((noinline)) static uint64_t spin(volatile uint64_t *words, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        words[i % WORDS] = words[(i + 1) % WORDS] * 6364136223846793005ULL + (uint64_t)i;
    return words[0];
}

void Java_Bare_work(void *environment, void *class, int32_t mega)
{
    volatile uint64_t words[WORDS];
    (void)environment;
    (void)class;
    for (int i = 0; i < WORDS; i++)
        words[i] = (uint64_t)i;
    spin(words, (int64_t)mega * 1000000);
}

void Java_Bare_sleep(void *environment, void *class, int32_t milliseconds)
{
    volatile uint64_t words[WORDS];
    struct timespec wait = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
    (void)environment;
    (void)class;
    for (int i = 0; i < WORDS; i++)
        words[i] = (uint64_t)i;
    nanosleep(&wait, 0);
    words[1] = words[0];
}
