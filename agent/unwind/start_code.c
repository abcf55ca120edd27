/*
 * Code at which stacks begin, and signal frames, where it has no CFI: known by its bytes. All of this may run in the handler:
 * no libc, no locks, no allocation; code is read with process_vm_readv.
 */

/* Code that is returned to without a call, so there is no call before it: the meaning of its first bytes. Read only
 * from code of files, which does not change. */
enum start_code {
    START_OTHER = 0,
    START_SIGRETURN = 1,
    START_ROOT = 2,
    START_CALLER = 3,                     /* after all behind a call: the first of a thread */
};

#define START_BYTES 12
static u32 code_matches_sigsafe(const u8 *code, const u8 *pattern, u32 bytes, u32 ignored)
{
    u32 i;
    for (i = 0; i < bytes; i++)
        if (code[i] != pattern[i] && !(ignored >> i & 1))
            return 0;
    return 1;
}

/* Return whether the call before `runtime_addr` is the first of a thread: musl's, which has no CFI. It calls main or
 * the thread's function, and is found by what surrounds it: crt_arch.h and clone.s of x86_64, the same in all versions
 * since 1.1.0. Context: signal. */
static u32 is_first_call_sigsafe(const struct agent *a, u64 runtime_addr, const u8 *after)
{
    /* _start, _dlstart: xor %rbp,%rbp; mov %rsp,%rdi; lea _DYNAMIC(%rip),%rsi; and $-16,%rsp; call */
    static const u8 start[22] = {0x48, 0x31, 0xed, 0x48, 0x89, 0xe7, 0x48, 0x8d, 0x35, 0, 0,
                                 0, 0, 0x48, 0x83, 0xe4, 0xf0, 0xe8, 0, 0, 0, 0};
    /* clone: xor %ebp,%ebp; pop %rdi; call *%r9; mov %eax,%edi; xor %eax,%eax; mov $60,%al; syscall: exit */
    static const u8 thread[6] = {0x31, 0xed, 0x5f, 0x41, 0xff, 0xd1};
    static const u8 thread_end[8] = {0x89, 0xc7, 0x31, 0xc0, 0xb0, 0x3c, 0x0f, 0x05};
    u8 code[22];
    return read_memory_sigsafe(a, runtime_addr - 22, code, 22) == 22 &&
           (code_matches_sigsafe(code, start, 22, 0x3c1e00) ||
            (code_matches_sigsafe(code + 16, thread, 6, 0) && code_matches_sigsafe(after, thread_end, 8, 0)));
}

/* Context: signal. */
static u32 start_code_read_sigsafe(const struct agent *a, u64 runtime_addr)
{
    /* mov $15,%rax; syscall: a signal restorer without CFI */
    static const u8 sigreturn[9] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
    /* mov %rbx,%rsp: makecontext's __start_context leaves the stack on which it was entered; nothing is above */
    static const u8 start_context[7] = {0x48, 0x89, 0xdc, 0x48, 0x8b, 0x3c, 0x24};
    /* the same in a glibc with shadow stacks: testl $2,%fs:72 comes first */
    static const u8 start_context_cet[12] = {0x64, 0xf7, 0x04, 0x25, 0x48, 0, 0, 0, 0x02, 0, 0, 0};
    /* xor %rdi,%rdi; call _exit; hlt: the end of boost.context's stacks */
    static const u8 finish[9] = {0x48, 0x31, 0xff, 0xe8, 0, 0, 0, 0, 0xf4};
    u8 code[START_BYTES];
    if (read_memory_sigsafe(a, runtime_addr, code, START_BYTES) != START_BYTES)
        return START_OTHER;
    if (code_matches_sigsafe(code, sigreturn, 9, 0))
        return START_SIGRETURN;
    if (is_first_call_sigsafe(a, runtime_addr, code))
        return START_CALLER;
    return code_matches_sigsafe(code, start_context, 7, 0) || code_matches_sigsafe(code, start_context_cet, 12, 0) ||
                   code_matches_sigsafe(code, finish, 9, 0xf0) ? START_ROOT : START_OTHER;
}

/* Context: signal. */
static u32 start_code_sigsafe(struct unwinder *u, u64 runtime_addr)
{
    volatile u64 *slot = kept_slot_sigsafe(u->agent, runtime_addr, ASKED_START);
    u64 key = kept_key_sigsafe(u->agent, runtime_addr, ASKED_START), entry = *slot;
    if ((entry & ~0xfULL) != key) {
        if (u->scan_checks >= SCAN_CHECKS_MAX)
            return START_OTHER;
        u->scan_checks++;
        *slot = entry = key | start_code_read_sigsafe(u->agent, runtime_addr);
    }
    return (u32)entry & 0xf;
}

#define FIRST_CALL_WORDS 32               /* stack words between a frame without CFI and the end of the stack */

/*
 * Step to the first call of the thread if the current frame is the last one above it: no other word between is a return
 * address. musl's functions there never return, so that nothing else says where their frames end. Returns 0, and changes
 * nothing, if there may be another frame. Context: signal.
 */
static u32 step_to_first_call_sigsafe(struct unwinder *u)
{
    u64 slot = u->sp & ~7ULL, end = slot + FIRST_CALL_WORDS * 8, word;
    for (; slot < end && stack_word_sigsafe(u, slot, &word); slot += 8) {
        u32 start;
        if (word <= 4096 || !is_code_sigsafe(u, word - 1))
            continue;
        start = start_code_sigsafe(u, word);
        if (start == START_CALLER)
            return enter_caller_sigsafe(u, slot + 8, word);
        if (start != START_OTHER || is_returned_to_sigsafe(u, word) || u->scan_checks >= SCAN_CHECKS_MAX)
            return 0;
    }
    return 0;
}
