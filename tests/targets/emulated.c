/*
 * Runs code that it has written into memory, as an emulator does: called through a pointer, with data in rbp and words of
 * its own on the stack, so that nothing but a likely word tells who has called it. Report: "runs N".
 */
#include "target.h"

#include <sys/mman.h>

/* uint64_t f(uint64_t n): counts n down to 0 and returns 7; System V ABI. */
static const unsigned char text[] = {
    0x55, 0x53,                                                 /* push rbp; push rbx */
    0x6a, 0x00, 0x6a, 0x00, 0x6a, 0x00, 0x6a, 0x00, 0x6a, 0x00, /* push 0, five times */
    0x48, 0x89, 0xfd,                                           /* mov rbp, rdi */
    0x48, 0xff, 0xcd, 0x75, 0xfb,                               /* 1: dec rbp; jnz 1b */
    0xb8, 0x07, 0x00, 0x00, 0x00,                               /* mov eax, 7 */
    0x48, 0x83, 0xc4, 0x28,                                     /* add rsp, 40 */
    0x5b, 0x5d, 0xc3,                                           /* pop rbx; pop rbp; ret */
};

NOINLINE static unsigned long emulate(void *code)
{
    uint64_t (*function)(uint64_t);
    unsigned long runs = 0;
    *(void **)&function = code;
    while (!target_asked_to_stop())
        runs += function(2000000) == 7;
    return runs;
}

int main(void)
{
    void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code == MAP_FAILED)
        return 2;
    memcpy(code, text, sizeof text);
    if (mprotect(code, 4096, PROT_READ | PROT_EXEC))
        return 2;
    target_ready("");
    printf("runs %lu\n", emulate(code));
    return 0;
}
