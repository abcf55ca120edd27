/*
 * Where compiled code of HotSpot has its return address while it makes or leaves its frame. Only for the innermost frame:
 * everywhere else the frame is whole. All of this may run in the handler; the code is in a heap (hotspot.h).
 *
 *   entry   [mov %eax,-n(%rsp)]  push %rbp  [mov %rsp,%rbp]  sub $n,%rsp      C1, C2
 *           [mov %eax,-n(%rsp)]  sub $n,%rsp  mov %rbp,m(%rsp)                C2
 *   exit    add $n,%rsp  pop %rbp  [poll]  ret                                C1, C2; jmp where an exception leaves it
 *           leave  [exception pending?]  ret                                  native methods
 *
 * Barriers of the garbage collector that are out of line save registers below the whole frame (SaveLiveRegisters, since 21).
 *
 * cpu/x86: MacroAssembler::verified_entry, C1_MacroAssembler::build_frame, MachEpilogNode::emit, C2SafepointPollStub::emit,
 * LIR_Assembler::emit_unwind_handler, SharedRuntime::generate_native_wrapper.
 */

#define ENTRY_BYTES_MAX 64
#define POP_RBP 0x5d
#define LEAVE 0xc9
#define FRAME_IS_WHOLE 0
#define FRAME_IS_RETURN 1                 /* only the return address is on the stack */
#define FRAME_IS_PUSHED 2                 /* the caller's rbp, and above it the return address */
#define FRAME_IS_UNSAVED 3                /* whole, but rbp is still the caller's and not saved yet */

/* Return whether the bytes at `at` are a `sub $n,%rsp`: its length, else 0. */
static u32 is_sub_rsp_sigsafe(const u8 *at)
{
    if (at[0] != 0x48 || at[2] != 0xec)
        return 0;
    return at[1] == 0x83 ? 4 : at[1] == 0x81 ? 7 : 0;
}

static u32 is_mov_rsp_rbp_sigsafe(const u8 *at)
{
    return at[0] == 0x48 && ((at[1] == 0x8b && at[2] == 0xec) || (at[1] == 0x89 && at[2] == 0xe5));
}

/* Return the state of the frame at `pc`, before the frame is complete. `entry` is where the method begins for callers that
 * know its class. Context: signal. */
static u32 entry_state_sigsafe(u64 entry, u64 pc)
{
    const u8 *code = (const u8 *)entry;
    u64 bytes = pc - entry;
    u32 i, length;
    if (pc <= entry)
        return FRAME_IS_RETURN;           /* checks the class of the receiver */
    for (i = 0; i < bytes && i < ENTRY_BYTES_MAX; i++) {
        u32 at = i + 1;
        if (code[i] == 0x55) {            /* push %rbp */
            at += is_mov_rsp_rbp_sigsafe(code + at) ? 3 : 0;
            length = is_sub_rsp_sigsafe(code + at);
            if (length)
                return bytes >= at + length ? FRAME_IS_WHOLE : FRAME_IS_PUSHED;
        }
        length = is_sub_rsp_sigsafe(code + i);
        at = i + length;
        if (length && code[at] == 0x48 && code[at + 1] == 0x89 &&
            (code[at + 2] == 0x6c || code[at + 2] == 0xac || code[at + 2] == 0x2c) && code[at + 3] == 0x24) /* mov %rbp,m(%rsp) */
            return bytes < at ? FRAME_IS_RETURN : bytes == at ? FRAME_IS_UNSAVED : FRAME_IS_WHOLE;
    }
    return FRAME_IS_RETURN;
}

#define TAIL_BYTES_MAX 32                 /* between the end of the frame and the return */

/* Return the length of an instruction that stands between the end of a frame and its return: 0 if it is none. */
static u32 tail_length_sigsafe(const u8 *code)
{
    u32 has_far = code[2] >> 6 == 2;      /* an offset of four bytes, else of one */
    if (code[0] == 0x49 && code[2] >> 6 && code[2] >> 6 != 3 && (code[2] & 7) == 7) {
        if (code[1] == 0x3b || code[1] == 0x8b) /* cmp n(%r15),%rsp; mov n(%r15),%rcx */
            return has_far ? 7 : 4;
        if (code[1] == 0x83)              /* cmp $0,n(%r15) */
            return has_far ? 8 : 5;
        if (code[1] == 0x81)
            return has_far ? 11 : 8;
    }
    if (code[0] == 0x4d && code[1] == 0x8b && code[2] == 0x97) /* mov n(%r15),%r10 */
        return 7;
    if (code[0] == 0x41 && code[1] == 0x85 && code[2] == 0x02) /* test %eax,(%r10) */
        return 3;
    if (code[0] == 0xc7 && (code[1] == 0x41 || code[1] == 0x81)) /* mov $0,n(%rcx) */
        return code[1] == 0x41 ? 7 : 10;
    if (code[0] == 0x0f && (code[1] == 0x87 || code[1] == 0x85)) /* ja, jne */
        return 6;
    if (code[0] == 0x85 && code[1] == 0x05) /* test %eax,n(%rip) */
        return 6;
    return 0;
}

/* Return whether such an instruction follows pop %rbp, or leave, right away. */
static u32 is_tail_start_sigsafe(const u8 *code, u8 last)
{
    u32 is_field = code[0] == 0x49 && code[1] != 0x3b;
    return last == LEAVE ? is_field : !is_field && code[0] != 0xc7 && code[0] != 0x0f;
}

/* Return whether the code before `pc` ends the frame, and nothing else follows before the return. Context: signal. */
static u32 is_tail_sigsafe(const u8 *code, u8 last)
{
    u32 back, length = tail_length_sigsafe(code);
    for (back = 1; length && back <= TAIL_BYTES_MAX; back++) {
        const u8 *at = code - back + 1;
        if (code[-(i32)back] != last || !is_tail_start_sigsafe(at, last))
            continue;
        while (at < code && tail_length_sigsafe(at))
            at += tail_length_sigsafe(at);
        if (at == code)
            return 1;
    }
    return 0;
}

/* Return whether `pc` is where a poll before the return leads: lea n(%rip),%r10; mov %r10,n(%r15); jmp. Context: signal. */
static u32 is_poll_stub_sigsafe(const u8 *code)
{
    static const u8 skipped[3] = {0, 7, 14};
    u32 i;
    for (i = 0; i < 3; i++) {
        const u8 *at = code - skipped[i];
        if (at[0] == 0x4c && at[1] == 0x8d && at[2] == 0x15 && at[7] == 0x4d && at[8] == 0x89 && at[9] == 0x97 && at[14] == 0xe9)
            return 1;
    }
    return 0;
}

/* Return the state of the frame at `pc`, after it was completed. `last` is the instruction that ends such frames: pop %rbp
 * or leave. Context: signal. */
static u32 exit_state_sigsafe(u64 pc, u8 last)
{
    const u8 *code = (const u8 *)pc;
    if (code[0] == POP_RBP)
        return FRAME_IS_PUSHED;
    if (code[0] == 0xc3 || is_tail_sigsafe(code, last) || is_poll_stub_sigsafe(code))
        return FRAME_IS_RETURN;
    if (code[-1] == POP_RBP && code[0] == 0xe9) /* jmp to where exceptions are handled */
        return FRAME_IS_RETURN;
    return FRAME_IS_WHOLE;
}

/* Return the state of a frame of compiled code at `pc`, which is at least 8 bytes from the end of its heap. Context:
 * signal. */
static u32 leaf_state_sigsafe(const u64 *recipe, const struct code_blob *blob, u64 pc)
{
    u64 entry = recipe[HOTSPOT_COMPILED_ENTRY] != ABSENT
                    ? field_u64_sigsafe(blob->start + recipe[HOTSPOT_COMPILED_ENTRY])
                    : blob->code + (field_u32_sigsafe(blob->start + recipe[HOTSPOT_COMPILED_ENTRY_OFFSET]) & 0xffff);
    u32 is_complete = blob->frame_complete >= 0 && pc >= blob->code + (u64)blob->frame_complete;
    if (blob->frame_words < 1)
        return FRAME_IS_RETURN;           /* calls of method handles */
    if (pc + 16 > blob->limit)
        return FRAME_IS_WHOLE;
    if (is_complete)
        return exit_state_sigsafe(pc, blob->kind == BLOB_NATIVE ? LEAVE : POP_RBP);
    return entry < blob->code || entry >= blob->end ? FRAME_IS_RETURN : entry_state_sigsafe(entry, pc);
}

#define BARRIER_BYTES_MAX 384             /* 16 general and 16 vector registers */
#define BARRIER_SPACE_MAX 4096

/* Return how much a barrier of the garbage collector has taken from the stack below the frame, to save registers for a call to
 * C: they are loaded, `add $n,%rsp; jmp` follows. 0 if `pc` is not there. Context: signal. */
static u32 barrier_space_sigsafe(const struct code_blob *blob, u64 pc)
{
    const u8 *code = (const u8 *)pc;
    u32 i, space;
    for (i = 0; i < BARRIER_BYTES_MAX && pc + i + 16 < blob->end; i++, code++) {
        if (code[0] == 0xc3)
            return 0;
        if (code[0] != 0x48 || code[2] != 0xc4 || !((code[1] == 0x83 && code[4] == 0xe9) || (code[1] == 0x81 && code[7] == 0xe9)))
            continue;
        space = code[1] == 0x83 ? code[3] : code[3] | (u32)code[4] << 8 | (u32)code[5] << 16 | (u32)code[6] << 24;
        return space <= BARRIER_SPACE_MAX && !(space & 7) ? space : 0;
    }
    return 0;
}
