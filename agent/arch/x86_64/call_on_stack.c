/*
 * A call on another stack, for what an alternate signal stack has no room for. May run in the handler.
 */

/* Call a function with the stack that ends at `stack_end`. */
static void call_on_stack_sigsafe(void (*call)(struct agent *), struct agent *a, void *stack_end)
{
#ifdef FLAMETAP_MACHINE_CODE
    __asm__ volatile("mov %%rsp, %%rbx\n\tmov %[stack_end], %%rsp\n\tcall *%[call]\n\tmov %%rbx, %%rsp"
                     : "+D"(a)
                     : [call] "r"(call), [stack_end] "r"(stack_end)
                     : "rax", "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4",
                       "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "cc",
                       "memory");
#else
    (void)stack_end;
    call(a);                              /* sanitizers know where a stack is, and make frames larger */
#endif
}
