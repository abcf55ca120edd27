/*
 * Where compiled code of HotSpot has its return address while it makes or leaves its frame. Only for the innermost frame:
 * everywhere else the frame is whole. All of this may run in the handler; the code is in a heap (hotspot.h).
 *
 *   entry   [mov %eax,-n(%rsp)]  push %rbp  [mov %rsp,%rbp]  sub $n,%rsp      C1, C2
 *           [mov %eax,-n(%rsp)]  sub $n,%rsp  mov %rbp,m(%rsp)                C2
 *   exit    add $n,%rsp  pop %rbp  [poll]  ret
 *
 * cpu/x86: MacroAssembler::verified_entry, C1_MacroAssembler::build_frame, MachEpilogNode::emit.
 */

#define ENTRY_BYTES_MAX 64
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
        if (length && code[at] == 0x48 && code[at + 1] == 0x89 && (code[at + 2] == 0x6c || code[at + 2] == 0xac) &&
            code[at + 3] == 0x24)         /* mov %rbp,m(%rsp) */
            return bytes < at ? FRAME_IS_RETURN : bytes == at ? FRAME_IS_UNSAVED : FRAME_IS_WHOLE;
    }
    return FRAME_IS_RETURN;
}

/* Return the state of the frame at `pc`, after it was completed. Context: signal. */
static u32 exit_state_sigsafe(u64 pc)
{
    const u8 *code = (const u8 *)pc;
    if (code[0] == 0x5d)                  /* pop %rbp */
        return FRAME_IS_PUSHED;
    if (code[0] == 0xc3)                  /* ret */
        return FRAME_IS_RETURN;
    if (code[-1] == 0x5d && ((code[0] == 0x49 && code[1] == 0x3b && (code[2] == 0x67 || code[2] == 0xa7)) ||
                             (code[0] == 0x4d && code[1] == 0x8b && code[2] == 0x97)))
        return FRAME_IS_RETURN;           /* cmp n(%r15),%rsp; mov n(%r15),%r10 */
    if (code[0] == 0x0f && code[1] == 0x87 && code[6] == 0xc3) /* ja; ret */
        return FRAME_IS_RETURN;
    if (code[0] == 0x41 && code[1] == 0x85 && code[2] == 0x02 && code[3] == 0xc3) /* test %eax,(%r10); ret */
        return FRAME_IS_RETURN;
    if (code[0] == 0x85 && code[1] == 0x05 && code[6] == 0xc3)  /* test %eax,n(%rip); ret */
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
    if (pc + 16 > blob->end)
        return FRAME_IS_WHOLE;
    if (is_complete)
        return exit_state_sigsafe(pc);
    return entry < blob->code || entry >= blob->end ? FRAME_IS_RETURN : entry_state_sigsafe(entry, pc);
}

/* Return the state of a routine among the stubs, by its nearest `push %rbp; mov %rsp,%rbp` before `pc`. Context: signal. */
static u32 stub_state_sigsafe(const struct code_blob *blob, u64 pc)
{
    const u8 *code = (const u8 *)pc;
    u64 at, floor = pc - blob->code > ENTRY_SEARCH_BYTES ? pc - ENTRY_SEARCH_BYTES : blob->code;
    if (pc + 16 > blob->end)
        return FRAME_IS_RETURN;
    if (code[0] == 0xc3)
        return FRAME_IS_RETURN;
    if (code[0] == 0x55 && is_mov_rsp_rbp_sigsafe(code + 1))
        return FRAME_IS_RETURN;
    for (at = pc - 1; at > floor; at--) {
        const u8 *before = (const u8 *)at;
        if (before[0] == 0x55 && is_mov_rsp_rbp_sigsafe(before + 1))
            return pc - at < 4 ? FRAME_IS_PUSHED : FRAME_IS_WHOLE;
        if (before[0] == 0xc3 && before[1] == 0x90)
            return FRAME_IS_RETURN;       /* another routine ends here */
    }
    return FRAME_IS_RETURN;
}
