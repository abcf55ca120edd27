/*
 * The code around an interrupted system call: whether there is a syscall instruction, and which call it makes. All of
 * this may run in the handler: no libc, no locks, no allocation. It does not use the maps: memory that may be unmapped
 * is read through the kernel, so that code which a JIT has just unmapped is an unknown and not a fault.
 */

#define PAGE_SHIFT 12
#define CODE_BACK_BYTES 96                /* bytes before the instruction that are searched for the number */
#define ARGUMENT_MOVES_MAX 8
#define STACK_LOOK_WORDS 40               /* stack words between that syscall instruction and its caller's caller */
#define CALL_LOOK_BYTES 48                /* bytes before a call, where its last argument is pushed */
#define SYSCALL_NUMBERS 1024             /* more than Linux has */
#define WRAPPER_BYTES 128                 /* of a function that makes any system call, up to the instruction */
#define JUMPS_MAX 3

/*
 * Read `bytes` of code at `runtime_addr`. They are read in place on the page of `pc`, where this thread is about to
 * continue; elsewhere through the kernel. Returns 0 if they are not mapped. Context: signal.
 */
static u32 code_read_sigsafe(const struct agent *a, u64 pc, u64 runtime_addr, u8 *code, u32 bytes)
{
    u64 page = pc >> PAGE_SHIFT;
    u32 i;
    if (runtime_addr >> PAGE_SHIFT == page && (runtime_addr + 7) >> PAGE_SHIFT == page &&
        (runtime_addr + bytes - 1) >> PAGE_SHIFT == page && memory_is_readable_sigsafe(runtime_addr)) {
        for (i = 0; i < bytes; i++)
            code[i] = ((const u8 *)runtime_addr)[i];
        return 1;
    }
    return read_own_memory_sigsafe(a, runtime_addr, code, bytes) == (i64)bytes;
}

/* Return whether the instruction at `runtime_addr` is a syscall. `pc` is where the thread was interrupted. Context:
 * signal. */
static u32 is_syscall_sigsafe(const struct agent *a, u64 pc, u64 runtime_addr)
{
    u8 code[2];
    return code_read_sigsafe(a, pc, runtime_addr, code, 2) && code[0] == 0x0f && code[1] == 0x05;
}

static u32 code_u32_sigsafe(const u8 *code)
{
    return code[0] | (u32)code[1] << 8 | (u32)code[2] << 16 | (u32)code[3] << 24;
}

/*
 * Return the length of the instruction that ends at `end`, if it is one that compilers put between the number and the
 * syscall: it loads an argument register other than rax. 0 for others. Context: signal.
 */
static u32 argument_move_bytes_sigsafe(const u8 *end)
{
    u8 last = end[-1];
    u32 same = (last & 0xc0) == 0xc0 && (last >> 3 & 7) == (last & 7);
    if (end[-4] == 0x8b && (end[-3] & 0xc7) == 0x44 && end[-2] == 0x24) {           /* mov n(%rsp),%reg */
        if (end[-5] == 0x4c || end[-5] == 0x44)
            return 5;                                                               /* r8 … r15 */
        return end[-3] == 0x44 ? 0 : end[-5] == 0x48 ? 5 : 4;                       /* 0x44: rax */
    }
    if (end[-6] == 0x41 && (end[-5] & 0xf8) == 0xb8)                                /* mov $n,%r8d … */
        return 6;
    if (end[-3] == 0x45 && end[-2] == 0x31 && same)                                 /* xor %r8d,%r8d … */
        return 3;
    if ((end[-3] == 0x49 || end[-3] == 0x4d) && end[-2] == 0x89 && (last & 0xc0) == 0xc0) /* mov %reg,%r8 … */
        return 3;
    if ((end[-3] == 0x48 || end[-3] == 0x4c) && end[-2] == 0x89 && (last & 0xc0) == 0xc0) /* mov %reg,%rdi … */
        return (last & 7) == 0 ? 0 : 3;
    if ((end[-5] & 0xf8) == 0xb8 && end[-5] != 0xb8 && (end[-6] & 0xf0) != 0x40)    /* mov $n,%edi … */
        return 5;
    if (end[-2] == 0x31 && same && last != 0xc0 && (end[-3] & 0xf0) != 0x40)        /* xor %edx,%edx … */
        return 2;
    if (end[-2] == 0x89 && (last & 0xc0) == 0xc0 && (last & 7) != 0 && (end[-3] & 0xf0) != 0x40) /* mov %eax,%edi … */
        return 2;
    return 0;
}

/* Return the number that is loaded right before `end`, or before argument registers are loaded; -1 if none is. Context:
 * signal. */
static i64 number_before_sigsafe(const u8 *end)
{
    u32 i;
    for (i = 0; i < ARGUMENT_MOVES_MAX; i++) {
        u32 bytes;
        /* A prefix would make it another register: 41 b8 is r8d, 45 31 c0 as well. */
        if (end[-5] == 0xb8 && (end[-6] & 0xf1) != 0x41)
            return (i64)code_u32_sigsafe(end - 4);
        if (end[-7] == 0x48 && end[-6] == 0xc7 && end[-5] == 0xc0)
            return (i64)code_u32_sigsafe(end - 4);
        if (end[-2] == 0x31 && end[-1] == 0xc0 && (end[-3] & 0xf0) != 0x40)
            return 0;
        bytes = argument_move_bytes_sigsafe(end);
        if (!bytes)
            return -1;
        end -= bytes;
    }
    return -1;
}

/* Return a word of the target's memory, 0 where there is none. Context: signal. */
static u64 word_of_target_sigsafe(const struct agent *a, u64 runtime_addr)
{
    u64 word = 0;
    return runtime_addr && read_own_memory_sigsafe(a, runtime_addr, &word, 8) == 8 ? word : 0;
}

/* Return where the function begins that the call before `return_address` enters, past a PLT entry and other jumps; 0
 * where the call is not direct. Context: signal. */
static u64 called_function_sigsafe(const struct agent *a, u64 return_address)
{
    u8 code[16];
    u64 function = 0;
    u32 i;
    if (read_own_memory_sigsafe(a, return_address - 6, code, 6) != 6)
        return 0;
    if (code[1] == 0xe8)                                                            /* call */
        function = return_address + (u64)(i64)(i32)code_u32_sigsafe(code + 2);
    else if (code[0] == 0xff && code[1] == 0x15)                                    /* call *GOT(%rip) */
        function = word_of_target_sigsafe(a, return_address + (u64)(i64)(i32)code_u32_sigsafe(code + 2));
    for (i = 0; i < JUMPS_MAX && read_own_memory_sigsafe(a, function, code, sizeof code) == sizeof code; i++) {
        u32 at = code[0] == 0xf3 && code[1] == 0x0f && code[2] == 0x1e && code[3] == 0xfa ? 4 : 0; /* endbr64 */
        at += code[at] == 0xf2;                                                     /* bnd */
        if (code[at] == 0xe9)                                                       /* jmp */
            function += at + 5 + (u64)(i64)(i32)code_u32_sigsafe(code + at + 1);
        else if (code[at] == 0xeb)
            function += at + 2 + (u64)((code[at + 1] ^ 0x80) - 0x80);
        else if (code[at] == 0xff && code[at + 1] == 0x25)                          /* jmp *GOT(%rip) */
            function = word_of_target_sigsafe(a, function + at + 6 + (u64)(i64)(i32)code_u32_sigsafe(code + at + 2));
        else
            break;
    }
    return function;
}

/* Return the number that is loaded into the first argument's register, as the last before the call that returns to
 * `return_address`; -1 if none is. Context: signal. */
static i64 number_passed_sigsafe(const struct agent *a, u64 return_address)
{
    u8 code[CODE_BACK_BYTES + 8];
    u32 i;
    if (read_own_memory_sigsafe(a, return_address - CODE_BACK_BYTES, code, CODE_BACK_BYTES) != CODE_BACK_BYTES)
        return -1;
    for (i = CODE_BACK_BYTES - 10; i >= 2; i--) {
        u32 number = code_u32_sigsafe(code + i + 1);
        u32 is_edi = code[i] == 0xbf && (code[i - 1] & 0xf1) != 0x41;               /* mov $NR,%edi, not %r15d */
        u32 is_rdi = code[i] == 0xc7 && code[i - 1] == 0xc7 && code[i - 2] == 0x48; /* mov $NR,%rdi */
        if (number < SYSCALL_NUMBERS && (is_edi || is_rdi))
            return (i64)number;
        if (code[i] == 0x31 && code[i + 1] == 0xff && (code[i - 1] & 0xf0) != 0x40) /* xor %edi,%edi */
            return 0;
    }
    return -1;
}

/* Return whether the code of a function up to `end` moves its first argument into rax. Context: signal. */
static u32 gets_number_sigsafe(const struct agent *a, u64 function, u64 end)
{
    u8 code[WRAPPER_BYTES];
    u32 bytes = (u32)(end - function), i;
    if (read_own_memory_sigsafe(a, function, code, bytes) != (i64)bytes)
        return 0;
    for (i = 0; i + 3 <= bytes; i++)
        if (code[i] == 0x48 && code[i + 1] == 0x89 && code[i + 2] == 0xf8)          /* mov %rdi,%rax */
            return 1;
    return 0;
}

/*
 * Return the number that was passed, as the first argument, to the function in which the syscall instruction at `at` is
 * (syscall(2), musl's waits), or to the caller of that function if `is_callers` (musl's waits where pthread_cancel() is
 * linked, __syscall_cp_c). -1 for other callers, such as those through a function pointer of a foreign function
 * interface. A word on the stack is the return address if the call before it enters that function, and if the word after
 * it is what the call got as its sixth argument: the seventh of the function. Context: signal.
 */
static i64 number_of_caller_sigsafe(const struct agent *a, const u64 *gregs, u64 at, u32 is_callers)
{
    u64 words[STACK_LOOK_WORDS];
    u32 i, is_given = is_callers;
    i64 got = read_own_memory_sigsafe(a, gregs[GREG_RSP], words, sizeof words);
    for (i = 0; (i64)(i + 2) * 8 <= got; i++) {
        u64 function = words[i] < 4096 ? 0 : called_function_sigsafe(a, words[i]);
        if (!function || function > at || at - function > WRAPPER_BYTES)
            continue;
        if (is_callers) {
            at = words[i];
            is_callers = 0;
        } else if (words[i + 1] == gregs[GREG_R9]) {
            return is_given || gets_number_sigsafe(a, function, at) ? number_passed_sigsafe(a, words[i]) : -1;
        }
    }
    return -1;
}

/*
 * Return the number of a call that glibc 2.41 and later make through one syscall instruction for all cancellable calls
 * (sysdeps/unix/sysv/linux/x86_64/syscall_cancel.S). It is the seventh argument of the function above, so it is on the
 * stack right after that function's return address; before the return address in the code is `push $NR` or `movq
 * $NR,(%rsp)`. Both must agree; -1 if they do not. Context: signal.
 */
static i64 number_of_cancellable_sigsafe(const struct agent *a, u64 sp)
{
    u64 words[STACK_LOOK_WORDS];
    u8 code[CALL_LOOK_BYTES];
    u32 i, at;
    i64 got = read_own_memory_sigsafe(a, sp, words, sizeof words);
    for (i = 0; (i64)(i + 2) * 8 <= got; i++) {
        u64 number = words[i + 1];
        if (words[i] < 4096 || number == 0 || number >= SYSCALL_NUMBERS ||
            read_own_memory_sigsafe(a, words[i] - CALL_LOOK_BYTES, code, CALL_LOOK_BYTES) != CALL_LOOK_BYTES ||
            code[CALL_LOOK_BYTES - 5] != 0xe8)
            continue;
        for (at = CALL_LOOK_BYTES - 7; at > 2; at--) {
            if (code[at] == 0x6a && number < 128 && code[at + 1] == number)
                return (i64)number;
            if (at + 5 <= CALL_LOOK_BYTES - 5 && code_u32_sigsafe(code + at + 1) == number &&
                (code[at] == 0x68 || (code[at] == 0x24 && code[at - 1] == 0x04 && code[at - 2] == 0xc7)))
                return (i64)number;
        }
    }
    return -1;
}

/*
 * Return the number of the call whose syscall instruction is at `at`, from the code before it; -1 if the code has none
 * of the forms in which compilers, glibc since 2.31 and musl make system calls. Where the function gets the number as an
 * argument, the code of its caller has it. Context: signal.
 */
static i64 sysno_in_code_sigsafe(const struct agent *a, const u64 *gregs, u64 at)
{
    /* mov 8(%rsp),%r8; mov 16(%rsp),%r9; mov %r11,8(%rsp) */
    static const u8 cancellable[15] = {0x4c, 0x8b, 0x44, 0x24, 0x08, 0x4c, 0x8b, 0x4c, 0x24, 0x10,
                                       0x4c, 0x89, 0x5c, 0x24, 0x08};
    u8 code[CODE_BACK_BYTES];
    u32 on_page = (u32)(at & ((1 << PAGE_SHIFT) - 1));
    i64 number;
    u64 i;
    if (!code_read_sigsafe(a, gregs[GREG_RIP], at - CODE_BACK_BYTES, code, CODE_BACK_BYTES)) {
        /* The page before is not mapped. */
        if (on_page >= CODE_BACK_BYTES || on_page == 0)
            return -1;
        for (i = 0; i < CODE_BACK_BYTES; i++)
            code[i] = 0;
        if (!code_read_sigsafe(a, gregs[GREG_RIP], at - on_page, code + CODE_BACK_BYTES - on_page, on_page))
            return -1;
    }
    for (i = 0; i < sizeof cancellable && code[CODE_BACK_BYTES - sizeof cancellable + i] == cancellable[i]; i++) {
    }
    if (i == sizeof cancellable) {
        number = number_of_caller_sigsafe(a, gregs, at, 1);
        return number >= 0 ? number : number_of_cancellable_sigsafe(a, gregs[GREG_RSP]);
    }
    number = number_before_sigsafe(code + CODE_BACK_BYTES);
    return number >= 0 ? number : number_of_caller_sigsafe(a, gregs, at, 0);
}
