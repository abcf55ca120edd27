/*
 * Where code of V8 has its return address while it makes or leaves its frame. Only for the innermost frame: everywhere else
 * the frame is whole. All of this may run in the handler. The page that the thread runs is read in place: it is mapped, as it
 * will go on there; other code is read with process_vm_readv: an address in a register may be of code that is gone.
 *
 *   entry   [mov -n(%rcx),%rbx  testb $1,n(%rbx)  jne …]  push %rbp  mov %rsp,%rbp        compiled code: was it thrown away?
 *           [… je over a jump: jmp …, or movabs $n,%r10  jmp *%r10]  push …               up to V8 10
 *           mov $n,%ebx  movabs $n,%r12  call …                                           baseline code: a builtin makes it
 *   exit    mov %rbp,%rsp  pop %rbp  [cmp, jump]  ret, or
 *           pop %r10  lea n(%rsp,%rcx,8),%rsp  push %r10  ret                             the number of arguments varies
 *
 * src/codegen/x64: MacroAssembler::EnterFrame, BailoutIfDeoptimized, CodeGenerator::AssembleReturn.
 */

#define LEAF_BACK_BYTES 20
#define LEAF_AHEAD_BYTES 40
#define LEAF_CHECK_BYTES 24               /* from the entry to the `push` */
#define LEAF_EXIT_BYTES 16                /* from the `pop` to the `ret` */
#define BASELINE_ENTRY_BYTES 20           /* with its call */

enum v8_state {
    V8_FRAME_WHOLE = 0,
    V8_FRAME_RETURN = 1,                  /* being made: only the return address is on the stack … */
    V8_FRAME_PUSHED = 2,                  /* … the caller's rbp, and above it the return address */
    V8_FRAME_LEFT = 3,                    /* being left: the same two words … */
    V8_FRAME_POPPED = 4,                  /* … only the return address … */
    V8_FRAME_IN_R10 = 5,                  /* … which is in r10 */
};

static u32 is_mov_rsp_rbp_at_sigsafe(const u8 *code)
{
    return code[0] == 0x48 && ((code[1] == 0x89 && code[2] == 0xe5) || (code[1] == 0x8b && code[2] == 0xec));
}

static u32 is_frame_push_sigsafe(const u8 *code)
{
    return code[0] == 0x55 && is_mov_rsp_rbp_at_sigsafe(code + 1);
}

/* Return whether the question if it was thrown away ends at `push`, where the frame is made. */
static u32 is_deopt_check_before_sigsafe(const u8 *push)
{
    if (push[-6] == 0x0f && push[-5] == 0x85)
        return 1;
    if (push[-7] == 0x74 && push[-6] == 5 && push[-5] == 0xe9)
        return 1;
    return push[-15] == 0x74 && push[-14] == 13 && push[-13] == 0x49 && push[-12] == 0xba && push[-3] == 0x41 &&
           push[-2] == 0xff && push[-1] == 0xe2;
}

/* Return whether a `mov %rbp,%rsp; pop %rbp` ends in the byte at `code`. */
static u32 is_frame_pop_sigsafe(const u8 *code)
{
    return code[0] == 0x5d && code[-3] == 0x48 &&
           ((code[-2] == 0x8b && code[-1] == 0xe5) || (code[-2] == 0x89 && code[-1] == 0xec));
}

/* Return whether a `mov $n,%ebx; movabs $n,%r12; call` begins at `code`. */
static u32 is_baseline_entry_sigsafe(const u8 *code)
{
    return code[0] == 0xbb && code[5] == 0x49 && code[6] == 0xbc && code[15] == 0xe8;
}

/* Return the length of an instruction that may stand between `pop %rbp` and `ret`; 0 for others. */
static u32 exit_instruction_bytes_sigsafe(const u8 *code)
{
    if (code[0] == 0x41 && (code[1] == 0x5a || code[1] == 0x52))
        return 2;                         /* pop, push %r10 */
    if (code[0] >= 0x70 && code[0] < 0x80)
        return 2;                         /* a short jump */
    if (code[0] == 0x0f && (code[1] & 0xf0) == 0x80)
        return 6;
    if (code[0] == 0x48 && (code[1] == 0x3b || code[1] == 0x39) && code[2] >= 0xc0)
        return 3;                         /* cmp between registers */
    if (code[0] == 0x48 && code[1] == 0x83 && (code[2] == 0xf9 || code[2] == 0xc4))
        return 4;                         /* cmp $n,%rcx; add $n,%rsp */
    if (code[0] == 0x48 && code[1] == 0x8d && code[2] == 0x64)
        return 5;                         /* lea n(%rsp,…),%rsp */
    return code[0] == 0x48 && code[1] == 0x8d && code[2] == 0x24 ? 4 : 0;
}

/* Return the state of a frame if `code` is between its `pop %rbp` and the `ret`. */
static u32 exit_state_of_sigsafe(const u8 *code)
{
    u32 back;
    for (back = 1; back <= LEAF_EXIT_BYTES; back++) {
        const u8 *at = code - back + 1;
        u32 in_r10 = 0, length = 1;
        if (!is_frame_pop_sigsafe(code - back))
            continue;
        for (; at < code && length; at += length) {
            length = exit_instruction_bytes_sigsafe(at);
            if (length == 2 && at[0] == 0x41)
                in_r10 = at[1] == 0x5a;
        }
        if (at == code && length)
            return in_r10 ? V8_FRAME_IN_R10 : V8_FRAME_POPPED;
    }
    return V8_FRAME_WHOLE;
}

/* Return enum v8_state of the frame at an instruction; LEAF_BACK_BYTES before it and LEAF_AHEAD_BYTES from it on are there. */
static u32 state_of_code_sigsafe(const u8 *code)
{
    u32 ahead;
    if (is_frame_push_sigsafe(code))
        return V8_FRAME_RETURN;
    if (code[0] == 0xc3 || code[0] == 0xc2)
        return V8_FRAME_POPPED;
    if (is_frame_push_sigsafe(code - 1))
        return V8_FRAME_PUSHED;
    if (is_frame_pop_sigsafe(code))
        return V8_FRAME_LEFT;
    if (is_baseline_entry_sigsafe(code) || is_baseline_entry_sigsafe(code - 5) || is_baseline_entry_sigsafe(code - 15))
        return V8_FRAME_RETURN;
    for (ahead = 1; ahead <= LEAF_CHECK_BYTES; ahead++)
        if (is_frame_push_sigsafe(code + ahead) && is_deopt_check_before_sigsafe(code + ahead))
            return V8_FRAME_RETURN;
    return exit_state_of_sigsafe(code);
}

/* Copy the code around `pc`. What lies outside its mapping is 0. Returns 0 if it cannot be read. Context: signal. */
static u32 code_around_sigsafe(struct unwinder *u, u64 pc, u8 *bytes)
{
    const struct code_range *range = code_range_sigsafe(u->map, pc);
    u64 low = pc - LEAF_BACK_BYTES, high = pc + LEAF_AHEAD_BYTES;
    bytes_zero(bytes, LEAF_BACK_BYTES + LEAF_AHEAD_BYTES);
    if (!range)
        return 0;
    low = low < range->start ? range->start : low;
    high = high > range->end ? range->end : high;
    if (u->in_handler && u->gregs && !u->frame_count && pc == u->pc && (low ^ pc) < PAGE_BYTES &&
        ((high - 1) ^ pc) < PAGE_BYTES) {
        bytes_copy(bytes + (low - (pc - LEAF_BACK_BYTES)), (const void *)low, high - low);
        return 1;
    }
    return read_memory_sigsafe(u->agent, low, bytes + (low - (pc - LEAF_BACK_BYTES)), high - low) == (i64)(high - low);
}

/* Return enum v8_state of the innermost frame, whose next instruction is at `pc`. Context: signal. */
static u32 v8_state_sigsafe(struct unwinder *u, u64 pc)
{
    u8 bytes[LEAF_BACK_BYTES + LEAF_AHEAD_BYTES];
    return code_around_sigsafe(u, pc, bytes) ? state_of_code_sigsafe(bytes + LEAF_BACK_BYTES) : V8_FRAME_WHOLE;
}

/* Return the builtin that makes the frame of baseline code, if the call that returns to this address calls it; else 0.
 * Context: signal. */
static u64 baseline_prologue_sigsafe(struct unwinder *u, u64 return_address)
{
    const struct code_range *range =
        return_address > PAGE_BYTES ? code_range_sigsafe(u->map, return_address - 1) : (const struct code_range *)0;
    u8 bytes[LEAF_BACK_BYTES + LEAF_AHEAD_BYTES];
    const u8 *distance = bytes + LEAF_BACK_BYTES - 4;
    if (!range || range->module || !code_around_sigsafe(u, return_address, bytes) ||
        !is_baseline_entry_sigsafe(bytes + LEAF_BACK_BYTES - BASELINE_ENTRY_BYTES))
        return 0;
    return return_address + (u64)(i64)(i32)(distance[0] | (u32)distance[1] << 8 | (u32)distance[2] << 16 |
                                            (u32)distance[3] << 24);
}
