/*
 * A thread whose stack starts at a multiple of 64 MiB, as malloc's arenas do: of the 8 MiB stacks that the C library maps
 * next to huge pages, one of 32 does. It waits until the first line on standard input, and computes from then on.
 */
#include "target.h"

#include <sys/mman.h>

#define ALIGNMENT (64UL << 20)
#define STACK_BYTES (8UL << 20)
#define GUARD_BYTES 4096

static int pipe_fds[2];
static volatile int stop;

NOINLINE static uint64_t compute(uint64_t state)
{
    SPIN(state, 1000000, 6364136223846793005ULL);
    return state;
}

static void *work(void *unused)
{
    char byte;
    uint64_t state = 1;
    (void)unused;
    if (read(pipe_fds[0], &byte, 1) != 1)
        return NULL;
    while (!stop)
        state = compute(state);
    return (void *)(uintptr_t)(state & 1);
}

/* Without rights but for the stack. */
static void *new_stack(void)
{
    char *room = mmap(NULL, 2 * ALIGNMENT, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char *start = (char *)(((uintptr_t)room + GUARD_BYTES + ALIGNMENT - 1) & ~(ALIGNMENT - 1));
    return room == MAP_FAILED || mprotect(start, STACK_BYTES, PROT_READ | PROT_WRITE) != 0 ? NULL : start;
}

int main(void)
{
    char line[16];
    void *stack = new_stack();
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    if (!stack || pipe(pipe_fds) != 0 || pthread_attr_setstack(&attributes, stack, STACK_BYTES) != 0 ||
        pthread_create(&thread, &attributes, work, NULL) != 0) {
        perror("aligned");
        return 1;
    }
    target_ready("");
    if (fgets(line, sizeof line, stdin) && write(pipe_fds[1], "1", 1) == 1) {
        puts("begun");
        fflush(stdout);
        target_wait_for_stop();
    }
    stop = 1;
    close(pipe_fds[1]);
    pthread_join(thread, NULL);
    return 0;
}
