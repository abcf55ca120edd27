/*
 * Writes code into memory, runs it for a few milliseconds, and takes the memory away again, in four threads:
 *
 *   0  with a frame pointer, memory unmapped after each run
 *   1  without one (a push alone), memory unmapped after each run
 *   2  memory made writable and rewritten in place, never unmapped
 *   3  code at the very end of its mapping, next to an unreadable page, with data of its own on the same stack
 *
 * What the code computes is checked each time. Report: "runs N".
 */
#include "target.h"

#include <sys/mman.h>

#define THREADS 4
#define PAGE 4096UL
static volatile int stopping;
static unsigned long runs[THREADS];

/* uint64_t f(uint64_t n): counts n down to 0 and returns 7; System V ABI. */
static const unsigned char with_frame[] = {
    0x55, 0x48, 0x89, 0xe5,             /* push rbp; mov rbp, rsp */
    0x48, 0xff, 0xcf, 0x75, 0xfb,       /* 1: dec rdi; jnz 1b */
    0xb8, 0x07, 0x00, 0x00, 0x00,       /* mov eax, 7 */
    0x5d, 0xc3,                         /* pop rbp; ret */
};
static const unsigned char without_frame[] = {
    0x53, 0x48, 0x31, 0xdb,             /* push rbx; xor rbx, rbx */
    0x48, 0xff, 0xcf, 0x75, 0xfb,
    0xb8, 0x07, 0x00, 0x00, 0x00,
    0x5b, 0xc3,                         /* pop rbx; ret */
};

static void fail(const char *what)
{
    printf("failed: %s\n", what);
    fflush(stdout);
    _exit(1);
}

static unsigned char *pages(size_t count)
{
    void *memory = mmap(NULL, count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        fail("mmap");
    return memory;
}

NOINLINE static void run_code(unsigned char *code, unsigned long *counter)
{
    uint64_t (*function)(uint64_t);
    *(void **)&function = code;
    if (function(2000000) != 7)
        fail("the code computes something else");
    ++*counter;
}

static void *storm(void *argument)
{
    unsigned long *counter = argument, which = (unsigned long)(counter - runs);
    const unsigned char *text = which == 1 ? without_frame : with_frame;
    size_t bytes = which == 1 ? sizeof without_frame : sizeof with_frame;
    unsigned char *kept = which == 2 ? pages(1) : NULL;
    while (!stopping) {
        unsigned char *memory = kept ? kept : pages(2), *code = memory + (which == 3 ? PAGE - bytes : 128);
        if (kept && mprotect(memory, PAGE, PROT_READ | PROT_WRITE))
            fail("mprotect");
        if (kept)
            memset(memory, 0xcc, PAGE);
        memcpy(code, text, bytes);
        if (mprotect(memory, PAGE, PROT_READ | PROT_EXEC) || (!kept && mprotect(memory + PAGE, PAGE, PROT_NONE)))
            fail("mprotect");
        run_code(code, counter);
        if (!kept && munmap(memory, 2 * PAGE))
            fail("munmap");
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    unsigned long sum = 0;
    target_ready("");
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, storm, &runs[i]);
    target_wait_for_stop();
    stopping = 1;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        sum += runs[i];
    }
    printf("runs %lu\n", sum);
    return 0;
}
