/*
 * One step up the stack from the stubs of HotSpot: code that is no method. All of this may run in the handler.
 *
 *   OTHER   frames of a known size: what compiled code calls; none: what C calls, what finds the handler of an exception
 *   STUBS   many routines, of which some have a frame in rbp
 *   BARE    adapters between compiled code and the interpreter: they have no frame
 *   BACK    bring frames of virtual threads back
 *
 * cpu/x86/sharedRuntime_x86_64.cpp: gen_c2i_adapter, gen_i2c_adapter, patch_callers_callsite, generate_uncommon_trap_blob.
 */

/* Return the state of a routine among the stubs, by its nearest `push %rbp; mov %rsp,%rbp` before `pc`. Context: signal. */
static u32 stub_state_sigsafe(const struct code_blob *blob, u64 pc)
{
    const u8 *code = (const u8 *)pc;
    u64 at, floor = pc - blob->code > ENTRY_SEARCH_BYTES ? pc - ENTRY_SEARCH_BYTES : blob->code;
    if (pc + 16 > blob->limit)
        return FRAME_IS_RETURN;
    if (code[0] == 0xc3)
        return FRAME_IS_RETURN;
    if (code[0] == 0x55 && is_mov_rsp_rbp_sigsafe(code + 1))
        return FRAME_IS_RETURN;
    for (at = pc - 1; at >= floor; at--) {
        const u8 *before = (const u8 *)at;
        if (before[0] == 0x55 && is_mov_rsp_rbp_sigsafe(before + 1))
            return pc - at < 4 ? FRAME_IS_PUSHED : FRAME_IS_WHOLE;
        if (before[0] == 0xc3 && before[1] == 0x90)
            return FRAME_IS_RETURN;       /* another routine ends here */
    }
    return FRAME_IS_RETURN;
}

/* Return the state of what compiled code calls: one routine with a frame, in rbp or without it. Context: signal. */
static u32 callee_state_sigsafe(const struct code_blob *blob, u64 pc)
{
    u32 state = stub_state_sigsafe(blob, pc);
    if (state != FRAME_IS_RETURN || pc + 16 > blob->limit)
        return state;
    state = exit_state_sigsafe(pc, POP_RBP);
    return state == FRAME_IS_WHOLE ? entry_state_sigsafe(blob->code, pc) : state;
}

#define POLL_SEARCH_BYTES 1024            /* of a blob's code, up to where it takes the pc */

/*
 * Return the pc of a thread that a poll in a loop has stopped, while it is not on the stack: 0 if it is, or if the blob is for
 * other things. The signal's handler has led the thread to the blob, and kept the pc in the machine's record of it. The blob
 * begins with `push %rbx`, which makes room, and later does `mov N(%r15),%rbx; mov %rbx,8(%rbp)`
 * (SharedRuntime::generate_handler_blob). Context: signal.
 */
static u64 polled_pc_sigsafe(struct java_step *step, u64 pc)
{
    const struct code_blob *blob = &step->blob;
    const u8 *code = (const u8 *)blob->code;
    u64 at, thread, end = blob->code + POLL_SEARCH_BYTES;
    if (end + 16 > blob->limit || code[0] != 0x53 || code[1] != 0x55 || !leaf_register_sigsafe(step->u, 15, &thread))
        return 0;
    for (at = pc < blob->code + 9 ? blob->code + 9 : pc; at < end; at++) {
        code = (const u8 *)at;
        if (code[0] == 0x48 && code[1] == 0x89 && code[2] == 0x5d && code[3] == 8 && code[-7] == 0x49 && code[-6] == 0x8b &&
            code[-5] == 0x9f)
            return machine_word_sigsafe(step->u, thread + field_u32_sigsafe(at - 4));
    }
    return 0;
}

/* Step from such a blob to where the poll was. Context: signal. */
static u32 polled_leave_sigsafe(struct java_step *step, u64 pc, u64 polled)
{
    struct unwinder *u = step->u;
    u32 state = stub_state_sigsafe(&step->blob, pc);
    u64 frame = state == FRAME_IS_WHOLE ? u->bp : u->sp, bp;
    if (!is_java_return_sigsafe(step->recipe, step->heaps, polled))
        return 0;
    if (state == FRAME_IS_RETURN) {       /* nothing but the room is on the stack, or not even that */
        if (pc == step->blob.code)
            u->sp -= 8;
        return java_return_sigsafe(step, u->sp + 8, polled);
    }
    if (frame < u->sp || !stack_word_sigsafe(u, frame, &bp))
        return 0;
    u->bp = bp;
    u->bp_known = 1;
    return java_return_sigsafe(step, frame + 16, polled);
}

#define ROUTINE_WORDS_MAX 640             /* what a routine may save: all registers, those of vectors too */

/* Find where the return address is of a blob that is one routine without a known size: it is the one that follows a call to
 * its start. Returns 0 if there is none. Context: signal. */
static u64 routine_return_sigsafe(struct java_step *step)
{
    u64 slot, end = step->u->sp + 8 * ROUTINE_WORDS_MAX, ra;
    for (slot = step->u->sp; slot < end && stack_word_sigsafe(step->u, slot, &ra); slot += 8) {
        const u8 *call = (const u8 *)ra - 5;
        if (ra > 4096 && code_heap_sigsafe(step->heaps, ra - 5) && code_heap_sigsafe(step->heaps, ra - 1) && call[0] == 0xe8 &&
            ra + (u64)(i64)(i32)field_u32_sigsafe(ra - 4) == step->blob.code)
            return slot;
    }
    return 0;
}

/*
 * Find where the return address is of what has no frame: at sp, a word above while C is called with an aligned stack
 * (MacroAssembler::call_VM_leaf), or above what was saved. It leads back to Java, or to C by a call. Returns 0 if it is not
 * found. Context: signal.
 */
static u64 bare_return_sigsafe(struct java_step *step, u64 pc)
{
    const u8 *code = (const u8 *)pc;
    u64 ra, saved, slot = step->u->sp;
    u32 is_call = step->is_leaf && code[0] == 0xe8 && code[-4] == 0x48 && code[-3] == 0x83 && code[-2] == 0xec && code[-1] == 8;
    if (is_call || (code[0] == 0x48 && code[1] == 0x83 && code[2] == 0xc4 && code[3] == 8)) /* sub, add $8,%rsp */
        slot += 8;
    if (!return_read_sigsafe(step->u, &slot, &ra))
        return 0;
    if (is_java_return_sigsafe(step->recipe, step->heaps, ra))
        return slot;
    saved = step->blob.kind == BLOB_OTHER ? routine_return_sigsafe(step) : 0;
    if (saved)
        return saved;
    return step->is_leaf && ra > 4096 && is_code_sigsafe(step->u, ra - 1) && follows_call_sigsafe(step->u, ra) ? slot : 0;
}

/* Step from what has no frame. Context: signal. */
static u32 bare_leave_sigsafe(struct java_step *step, u64 pc)
{
    u64 ra, slot = pc + 16 <= step->blob.limit ? bare_return_sigsafe(step, pc) : 0;
    return slot && stack_word_sigsafe(step->u, slot, &ra) && java_return_sigsafe(step, slot + 8, ra);
}

/* Return whether rbp points to a frame whose caller's sp is at most `extra` bytes above `cfa`. Context: signal. */
static u32 is_frame_near_sigsafe(const struct unwinder *u, u64 cfa, u64 extra)
{
    return u->bp_known && u->bp >= u->sp && u->bp + 16 - cfa <= extra;
}

/* Step from a stub with a frame of a known size. Context: signal. */
static u32 callee_step_sigsafe(struct java_step *step, u64 pc)
{
    struct unwinder *u = step->u;
    u64 cfa = u->sp + 8 * (u64)(u32)step->blob.frame_words, ra;
    u32 state = step->is_leaf ? callee_state_sigsafe(&step->blob, pc) : FRAME_IS_WHOLE;
    if (state == FRAME_IS_RETURN)
        return bare_leave_sigsafe(step, pc);
    if (state == FRAME_IS_PUSHED)
        return part_frame_leave_sigsafe(step, state);
    if (state == FRAME_IS_UNSAVED)
        return stack_word_sigsafe(u, cfa - 8, &ra) && java_return_sigsafe(step, cfa, ra);
    /* It saves registers piece by piece; what makes frames for the interpreter aligns the stack for its last call. */
    if (step->is_leaf ? stub_state_sigsafe(&step->blob, pc) == FRAME_IS_WHOLE && is_frame_near_sigsafe(u, u->sp, cfa - u->sp)
                      : is_frame_near_sigsafe(u, cfa, 8))
        return rbp_frame_leave_sigsafe(step);
    return whole_frame_leave_sigsafe(step, cfa);
}

#define SAVED_R13 16                      /* of push_CPU_state, above the registers of floating point */
#define ADAPTER_BYTES_MAX 16384           /* of the stack: saved registers, arguments */

/* Step from an adapter whose caller's return address is at `slot`. Context: signal. */
static u32 adapter_leave_sigsafe(struct java_step *step, u64 slot)
{
    u64 ra;
    return slot >= step->u->sp && slot - step->u->sp <= ADAPTER_BYTES_MAX && stack_word_sigsafe(step->u, slot, &ra) &&
           is_java_return_sigsafe(step->recipe, step->heaps, ra) && java_return_sigsafe(step, slot + 8, ra);
}

/*
 * Step from an adapter in which the thread is right now. On the way to the interpreter the return address is in rax, and r13 is
 * the caller's sp; while the adapter saves all registers for a call to C, r13 is where the return address is. Context: signal.
 */
static u32 adapter_leaf_step_sigsafe(struct java_step *step)
{
    struct unwinder *u = step->u;
    u64 r13 = 0, rax = 0, ra = 0;
    u32 is_on_stack = stack_word_sigsafe(u, u->sp, &ra) && is_java_return_sigsafe(step->recipe, step->heaps, ra), is_passed;
    leaf_register_sigsafe(u, 13, &r13);
    leaf_register_sigsafe(u, 0, &rax);
    is_passed = r13 > u->sp && r13 - u->sp <= ADAPTER_BYTES_MAX && !(r13 & 7);
    if (is_on_stack)
        return java_return_sigsafe(step, is_passed && rax == ra ? r13 : u->sp + 8, ra);
    if (adapter_leave_sigsafe(step, r13))
        return 1;
    return is_java_return_sigsafe(step->recipe, step->heaps, rax) && java_return_sigsafe(step, is_passed ? r13 : u->sp + 8, rax);
}

/* Step from an adapter. Context: signal. */
static u32 adapter_step_sigsafe(struct java_step *step, u64 pc)
{
    struct unwinder *u = step->u;
    const u8 *code = (const u8 *)pc;
    u64 r13;
    u32 i;
    if (step->is_leaf)
        return adapter_leaf_step_sigsafe(step);
    for (i = 0; i < 16 && pc + i + 16 < step->blob.end; i++, code++)
        if (code[0] == 0x48 && code[1] == 0x81 && code[2] == 0xc4) /* add $n,%rsp; then the registers are loaded */
            return stack_word_sigsafe(u, u->sp + field_u32_sigsafe((u64)code + 3) + SAVED_R13, &r13) &&
                   adapter_leave_sigsafe(step, r13);
    return 0;
}

/* Step from a stub. Context: signal. */
static u32 stub_step_sigsafe(struct java_step *step, u64 pc)
{
    u64 polled;
    u32 state;
    blob_frame_add_sigsafe(step, pc);
    if (!step->is_leaf && pc == step->recipe[HOTSPOT_CALL_STUB_RETURN])
        return rbp_frame_leave_sigsafe(step);
    if (step->blob.kind == BLOB_BACK)
        return continuation_leave_sigsafe(step, pc);
    if (step->blob.kind == BLOB_BARE)
        return adapter_step_sigsafe(step, pc);
    polled = step->is_leaf && step->blob.kind == BLOB_OTHER ? polled_pc_sigsafe(step, pc) : 0;
    if (polled)
        return polled_leave_sigsafe(step, pc, polled);
    if (step->blob.kind == BLOB_OTHER && step->blob.frame_words > 1 && step->blob.frame_words < 1 << 12)
        return callee_step_sigsafe(step, pc);
    state = stub_state_sigsafe(&step->blob, pc);
    if (state == FRAME_IS_WHOLE)
        return rbp_frame_leave_sigsafe(step);
    if (state == FRAME_IS_PUSHED)
        return step->is_leaf && part_frame_leave_sigsafe(step, state);
    return bare_leave_sigsafe(step, pc);
}
