/*
 * A thread without libc: it has no thread pointer, shares everything with the process, and ends with `exit` when `start`
 * returns. All signals must be blocked meanwhile. clone(2)
 */
#define OWN_THREAD_FLAGS 0x2d0f00         /* VM|FS|FILES|SIGHAND|THREAD|SYSVSEM|SETTLS|CHILD_CLEARTID */

/* `stack_end` is 16-byte aligned; the kernel writes 0 to `*tid` when the thread has ended. Returns its number or -errno. */
static i64 thread_clone(u8 *stack_end, volatile u32 *tid, void (*start)(void))
{
    u64 *top = (u64 *)stack_end - 2;
    i64 result;
    register u64 tid_addr __asm__("r10") = (u64)tid;
    register u64 tls __asm__("r8") = 0;
    top[0] = (u64)start;
    *tid = ~0U;                           /* until it says its own */
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "pop %%rax\n\t"
                     "pop %%rcx\n\t"
                     "call *%%rax\n\t"
                     "mov %[exit], %%eax\n\t"
                     "xor %%edi, %%edi\n\t"
                     "syscall\n\t"
                     "1:"
                     : "=a"(result)
                     : "a"(NR_CLONE), "D"(OWN_THREAD_FLAGS), "S"(top), "d"(0), "r"(tid_addr), "r"(tls), [exit] "i"(NR_EXIT)
                     : "rcx", "r11", "memory");
    return result;
}
