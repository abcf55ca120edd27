/*
 * Keeps a pattern in all sixteen vector registers, in the general ones and in the red zone while it spins, and looks
 * whether it is still there, thousands of times a second. "corrupt N" at the end: how often something had changed it.
 * Compilers and hand-written assembly keep data there over long stretches: whoever stops the thread owes it all of it.
 */
#include "target.h"

static uint64_t pattern[4] = {0x0123456789abcdefULL, 0x8012345678abcdefULL, 0x5555aaaa5555aaaaULL, 0x00ff00ff00ff00ffULL};

/* 0 when every register and the red zone hold what was put there. */
NOINLINE static uint64_t hold(uint64_t iterations)
{
    uint64_t differs;
    __asm__ volatile(
        "movdqu (%[pattern]), %%xmm0\n\t"
        ".irp n,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\t"
        "movdqa %%xmm0, %%xmm\\n\n\t"
        ".endr\n\t"
        "mov (%[pattern]), %%r8\n\t"
        "mov %%r8, %%r9\n\t"
        "mov %%r8, %%r10\n\t"
        "mov %%r8, %%r11\n\t"
        "mov 8(%[pattern]), %%rdi\n\t" /* a number that is no address, and nobody's first argument */
        "lea -256(%%rsp), %%rsp\n\t" /* away from what the compiler may keep in its own red zone */
        "mov %%r8, -8(%%rsp)\n\t"
        "mov %%r8, -128(%%rsp)\n\t"
        "1: dec %[iterations]\n\t"
        "jnz 1b\n\t"
        ".irp n,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\t"
        "pxor %%xmm0, %%xmm\\n\n\t"
        ".endr\n\t"
        "movdqu (%[pattern]), %%xmm1\n\t"
        "pxor %%xmm0, %%xmm1\n\t"
        ".irp n,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\t"
        "por %%xmm\\n, %%xmm1\n\t"
        ".endr\n\t"
        "movq %%xmm1, %[differs]\n\t"
        "psrldq $8, %%xmm1\n\t"
        "movq %%xmm1, %[iterations]\n\t"
        "or %[iterations], %[differs]\n\t"
        "mov (%[pattern]), %[iterations]\n\t"
        "xor %[iterations], %%r8\n\t"
        "xor %[iterations], %%r9\n\t"
        "xor %[iterations], %%r10\n\t"
        "xor %[iterations], %%r11\n\t"
        "xor 8(%[pattern]), %%rdi\n\t"
        "or %%rdi, %[differs]\n\t"
        "or %%r8, %[differs]\n\t"
        "or %%r9, %[differs]\n\t"
        "or %%r10, %[differs]\n\t"
        "or %%r11, %[differs]\n\t"
        "mov -8(%%rsp), %%r8\n\t"
        "xor %[iterations], %%r8\n\t"
        "or %%r8, %[differs]\n\t"
        "mov -128(%%rsp), %%r8\n\t"
        "xor %[iterations], %%r8\n\t"
        "or %%r8, %[differs]\n\t"
        "lea 256(%%rsp), %%rsp\n\t"
        : [differs] "=&r"(differs), [iterations] "+&r"(iterations)
        : [pattern] "r"(pattern)
        : "rdi", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
          "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "memory", "cc");
    return differs;
}

int main(void)
{
    uint64_t corrupt = 0;
    target_ready("");
    while (!target_asked_to_stop())
        for (int i = 0; i < 1000; i++)
            corrupt += hold(100000) != 0;
    printf("corrupt %llu\n", (unsigned long long)corrupt);
    return 0;
}
