/*
 * One step up the stack from the interpreter of HotSpot. All of this may run in the handler.
 *
 * rbp points to the frame: -8 the caller's sp, -16 the own sp, -24 the method, and the bytecode's address.
 */

#define INTERPRETED_BYTES_MAX 65536       /* of locals and operands of one frame */
#define SLOT_SENDER_SP 8                  /* bytes below rbp */
#define SLOT_METHOD 24

struct interpreted_slots {
    u64 bp;                               /* the caller's */
    u64 return_address;
    u64 sender_sp;
    u64 method;
    u64 bytecode;                         /* runtime_addr */
};

/* Add a frame of the interpreter. `index` is that of its bytecode. Context: signal. */
static void method_frame_add_sigsafe(struct java_step *step, u64 method, u64 index, const struct java_method *found)
{
    java_frame_add_sigsafe(step, WORD_CODE, method, index << FRAME_POSITION_SHIFT | found->fingerprint);
}

/* Step from the interpreter while it enters a method, whose frame is not complete. Registers: rbx the method; r13 the
 * caller's sp until that is in the frame; rax the return address between its pop and push. Returns 0 if this is not so.
 * Context: signal. */
static u32 entering_step_sigsafe(struct java_step *step, struct managed_walk *w, const u64 *gregs)
{
    struct unwinder *u = step->u;
    struct java_method found;
    u64 method = 0, sender_sp = 0, ra = 0, bp = u->bp;
    u32 is_entered = u->bp - u->sp < step->recipe[HOTSPOT_FRAME_BYTECODE];
    leaf_register_sigsafe(u, 3, &method);
    leaf_register_sigsafe(u, 13, &sender_sp);
    if (is_entered && (!stack_word_sigsafe(u, u->bp, &bp) || !stack_word_sigsafe(u, u->bp + 8, &ra) ||
                       (u->bp - SLOT_SENDER_SP >= u->sp && !stack_word_sigsafe(u, u->bp - SLOT_SENDER_SP, &sender_sp))))
        return 0;
    if (!is_entered && (!stack_word_sigsafe(u, u->sp, &ra) || !is_java_return_sigsafe(step->recipe, step->heaps, ra)))
        ra = gregs[GREG_RAX];
    if (sender_sp <= u->sp || sender_sp - u->sp > INTERPRETED_BYTES_MAX || sender_sp & 7 || method >> 47 ||
        !is_java_return_sigsafe(step->recipe, step->heaps, ra) || !java_method_sigsafe(w, step->recipe, method, &found))
        return 0;
    method_frame_add_sigsafe(step, method, 0, &found);
    u->bp = bp;
    return java_return_sigsafe(step, sender_sp, ra);
}

/* Read the slots of the interpreter's frame that rbp points to. Returns 0 if it is none, or not complete. Context: signal. */
static u32 slots_read_sigsafe(struct java_step *step, struct interpreted_slots *slots)
{
    struct unwinder *u = step->u;
    u64 frame = u->bp, lowest = frame - step->recipe[HOTSPOT_FRAME_BYTECODE];
    return u->bp_known && !(frame & 7) && frame > u->sp && frame - u->sp < INTERPRETED_BYTES_MAX &&
           (!step->is_leaf || lowest >= u->sp) && stack_word_sigsafe(u, frame, &slots->bp) &&
           stack_word_sigsafe(u, frame + 8, &slots->return_address) &&
           stack_word_sigsafe(u, frame - SLOT_SENDER_SP, &slots->sender_sp) && slots->sender_sp > frame &&
           stack_word_sigsafe(u, frame - SLOT_METHOD, &slots->method) && stack_word_sigsafe(u, lowest, &slots->bytecode);
}

/* Step from the interpreter's code. Context: signal. */
static u32 interpreted_step_sigsafe(struct java_step *step, u64 pc)
{
    struct unwinder *u = step->u;
    struct managed_walk *w = u->walk;
    struct java_method found = {0, 0, 0};
    struct interpreted_slots slots = {0, 0, 0, 0, 0};
    u64 index = JAVA_NO_INDEX;
    u32 is_frame = slots_read_sigsafe(step, &slots), is_method;
    /* What a method that the thread itself runs consists of is not unmapped meanwhile. */
    if (w && is_frame && u->in_handler && !u->guessed && !step->is_leaf)
        w->is_alive = is_known_method_sigsafe(u->agent, slots.method, slots.bytecode);
    is_method = w && is_frame && java_method_sigsafe(w, step->recipe, slots.method, &found);
    if (w)
        w->is_alive = 0;
    if (is_method && slots.bytecode - found.codes < found.code_bytes) {
        index = slots.bytecode - found.codes;
        if (u->in_handler)
            known_method_keep_sigsafe(u->agent, slots.method, &found);
    }
    if (step->is_leaf && u->gregs && w) {
        u64 bytecode = 0;
        leaf_register_sigsafe(u, 13, &bytecode);
        if (is_method && bytecode - found.codes < found.code_bytes)
            index = bytecode - found.codes;
        else if (entering_step_sigsafe(step, w, u->gregs))
            return 1;
    }
    if (is_method)
        method_frame_add_sigsafe(step, slots.method, index, &found);
    else
        blob_frame_add_sigsafe(step, pc);
    if (!is_frame)
        return 0;
    u->bp = slots.bp;
    return java_return_sigsafe(step, slots.sender_sp, slots.return_address);
}
