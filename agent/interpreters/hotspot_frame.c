/*
 * One step up the stack from a frame of Java. All of this may run in the handler.
 *
 *   compiled     frames of a known size; rbp, which the code may use for anything, is saved below the return address
 *   interpreted  rbp points to the frame: -8 the caller's sp, -16 the own sp, -24 the method, and the bytecode's address
 *   stubs        frames of a known size, or in rbp; adapters have none
 *
 * None of this is a guess. Where something does not fit, the caller falls back to guesses.
 */

#define INTERPRETED_BYTES_MAX 65536       /* of locals and operands of one frame */
#define PUSHED_WORDS_MAX 6                /* arguments that compiled code has pushed for a call to C */
#define SLOT_SENDER_SP 8                  /* bytes below rbp */
#define SLOT_METHOD 24

struct interpreted_slots {
    u64 bp;                               /* the caller's */
    u64 return_address;
    u64 sender_sp;
    u64 method;
    u64 bytecode;                         /* runtime_addr */
};

/* How a walk gets to know the Java frame that it is at. */
struct java_step {
    struct unwinder *u;
    const u64 *recipe;
    u32 recipe_index;
    u32 is_leaf;                          /* all registers are known, or at least sp and pc are exact */
    u32 is_deoptimised;                   /* its return address was replaced */
    const struct code_heaps *heaps;
    struct code_blob blob;
};

static void java_frame_add_sigsafe(struct java_step *step, u32 kind, u64 address, u64 detail)
{
    struct unwinder *u = step->u;
    u->frames[u->frame_count] = (u64)kind << WORD_SHIFT | (u64)step->recipe_index << WORD_RECIPE_SHIFT | address;
    u->frames[u->frame_count + 1] = (u64)kind << WORD_SHIFT | detail;
    if (u->cfas)
        u->cfas[u->frame_count] = u->cfas[u->frame_count + 1] = 0;
    u->frame_count += 2;
}

/* Add a frame of compiled code or of a stub. Context: signal. */
static void blob_frame_add_sigsafe(struct java_step *step, u64 pc)
{
    java_frame_add_sigsafe(step, WORD_COMPILED, pc, (step->is_leaf ? COMPILED_LEAF : 0) | step->blob.compile_id);
}

/* Move to the caller. Context: signal. */
static u32 java_return_sigsafe(struct java_step *step, u64 cfa, u64 return_address)
{
    struct unwinder *u = step->u;
    if (return_address <= 4096 || cfa <= u->sp || (!code_heap_sigsafe(step->heaps, return_address - 1) &&
                                                   !is_code_sigsafe(u, return_address - 1)))
        return 0;
    return enter_caller_sigsafe(u, cfa, return_address);
}

/* Leave a frame whose return address is at cfa - 8, and the caller's rbp below that. Context: signal. */
static u32 whole_frame_leave_sigsafe(struct java_step *step, u64 cfa)
{
    struct unwinder *u = step->u;
    u64 ra, bp, pushed = 0;
    for (;; pushed++) {
        if (!stack_word_sigsafe(u, cfa - 8, &ra) || !stack_word_sigsafe(u, cfa - 16, &bp))
            return 0;
        if (ra > 4096 && (code_heap_sigsafe(step->heaps, ra - 1) || (pushed == 0 && is_code_sigsafe(u, ra - 1))))
            break;
        if (!step->is_leaf || pushed >= PUSHED_WORDS_MAX)
            return 0;
        cfa += 8;
    }
    if (!step->is_leaf && step->blob.compile_id && !step->is_deoptimised)
        frame_cache_keep_sigsafe(u->agent, u->pc + 1, &step->blob);
    u->bp = bp;
    u->bp_known = 1;
    return java_return_sigsafe(step, cfa, ra);
}

/* Leave a frame that is being made or left: FRAME_IS_RETURN, FRAME_IS_PUSHED. Context: signal. */
static u32 part_frame_leave_sigsafe(struct java_step *step, u32 state)
{
    struct unwinder *u = step->u;
    u64 ra, bp;
    if (state == FRAME_IS_PUSHED) {
        if (!stack_word_sigsafe(u, u->sp, &bp) || !stack_word_sigsafe(u, u->sp + 8, &ra))
            return 0;
        u->bp = bp;
        u->bp_known = 1;
        return java_return_sigsafe(step, u->sp + 16, ra);
    }
    return stack_word_sigsafe(u, u->sp, &ra) && java_return_sigsafe(step, u->sp + 8, ra);
}

/* Leave a frame that rbp points to. Context: signal. */
static u32 rbp_frame_leave_sigsafe(struct java_step *step)
{
    struct unwinder *u = step->u;
    u64 ra, bp, cfa = u->bp + 16;
    if (!u->bp_known || u->bp < u->sp || !stack_word_sigsafe(u, u->bp, &bp) || !stack_word_sigsafe(u, u->bp + 8, &ra))
        return 0;
    u->bp = bp;
    return java_return_sigsafe(step, cfa, ra);
}

/* Step from compiled code. Context: signal. */
static u32 compiled_step_sigsafe(struct java_step *step, u64 pc)
{
    struct unwinder *u = step->u;
    const u64 *recipe = step->recipe;
    u64 start = step->blob.start, cfa = u->sp + 8 * (u64)(u32)step->blob.frame_words, deopt, ra;
    u32 state = FRAME_IS_WHOLE;
    if (step->is_leaf) {
        state = leaf_state_sigsafe(recipe, &step->blob, pc);
    } else {
        deopt = recipe[HOTSPOT_COMPILED_DEOPT] != ABSENT
                    ? field_u64_sigsafe(start + recipe[HOTSPOT_COMPILED_DEOPT])
                    : start + field_u32_sigsafe(start + recipe[HOTSPOT_COMPILED_DEOPT_OFFSET]);
        step->is_deoptimised = pc == deopt;
        if (step->is_deoptimised && stack_word_sigsafe(u, u->sp + field_u32_sigsafe(start + recipe[HOTSPOT_COMPILED_ORIGINAL]), &ra) &&
            ra - step->blob.code < step->blob.end - step->blob.code)
            pc = ra;
    }
    blob_frame_add_sigsafe(step, pc);
    if (state == FRAME_IS_RETURN || state == FRAME_IS_PUSHED)
        return part_frame_leave_sigsafe(step, state);
    if (step->blob.frame_words < 1 || step->blob.frame_words > 1 << 16)
        return 0;
    /* The code that calls a native method pushes words for calls of its own: rbp points to its frame throughout. */
    if (step->blob.kind == BLOB_NATIVE && u->bp_known && u->bp + 16 - cfa <= PUSHED_WORDS_MAX * 8)
        return rbp_frame_leave_sigsafe(step);
    if (state == FRAME_IS_UNSAVED)
        return stack_word_sigsafe(u, cfa - 8, &ra) && java_return_sigsafe(step, cfa, ra);
    return whole_frame_leave_sigsafe(step, cfa);
}

/* Return whether a stub can return to this address. Those without a frame that C calls read fields (jni_fast_GetIntField).
 * Context: signal. */
static u32 is_returned_to_by_stub_sigsafe(struct java_step *step, u64 return_address)
{
    return is_java_return_sigsafe(step->recipe, step->heaps, return_address) ||
           (step->blob.kind == BLOB_OTHER && step->blob.frame_words == 0 && return_address > 4096 &&
            is_code_sigsafe(step->u, return_address - 1) && follows_call_sigsafe(step->u, return_address));
}

/* Step from a stub. Context: signal. */
static u32 stub_step_sigsafe(struct java_step *step, u64 pc)
{
    struct unwinder *u = step->u;
    u32 state;
    u64 ra;
    blob_frame_add_sigsafe(step, pc);
    if (!step->is_leaf && pc == step->recipe[HOTSPOT_CALL_STUB_RETURN])
        return rbp_frame_leave_sigsafe(step);
    if (step->blob.kind == BLOB_OTHER && step->blob.frame_words > 1 && step->blob.frame_words < 1 << 12 &&
        !(step->is_leaf && stub_state_sigsafe(&step->blob, pc) != FRAME_IS_WHOLE))
        return whole_frame_leave_sigsafe(step, u->sp + 8 * (u64)(u32)step->blob.frame_words);
    state = step->blob.kind == BLOB_BARE ? FRAME_IS_RETURN : stub_state_sigsafe(&step->blob, pc);
    if (state == FRAME_IS_WHOLE)
        return rbp_frame_leave_sigsafe(step);
    if (!step->is_leaf)
        return 0;
    if (state == FRAME_IS_RETURN && (!stack_word_sigsafe(u, u->sp, &ra) || !is_returned_to_by_stub_sigsafe(step, ra)))
        return 0;
    return part_frame_leave_sigsafe(step, state);
}

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

/*
 * Step from the frame at u->pc if it is Java's, and add it to the stack, with room for two words. Returns JAVA_NONE if it is
 * not, JAVA_LOST if it was added and the way up is not known. Context: signal.
 */
enum java_stepped { JAVA_NONE = 0, JAVA_LOST = 1, JAVA_STEPPED = 2 };

static u32 java_step_sigsafe(struct unwinder *u)
{
    struct java_step step;
    u64 pc;
    u32 has_stepped, i, first = u->frame_count;
    step.heaps = code_heaps_sigsafe(u->agent);
    if (!step.heaps || !code_heap_sigsafe(step.heaps, u->pc))
        return JAVA_NONE;
    step.u = u;
    step.recipe_index = step.heaps->recipe;
    step.recipe = u->agent->recipes[step.recipe_index];
    step.is_leaf = u->gregs || !u->frame_count;
    step.is_deoptimised = 0;
    pc = step.is_leaf ? u->pc : u->pc + 1;
    if (!blob_find_sigsafe(step.recipe, step.heaps, u->pc, &step.blob)) {
        u->java_verdict = MANAGED_TORN;
        return JAVA_NONE;
    }
    if (step.blob.kind == BLOB_COMPILED || step.blob.kind == BLOB_NATIVE)
        has_stepped = compiled_step_sigsafe(&step, pc);
    else if (step.blob.kind == BLOB_INTERPRETER)
        has_stepped = interpreted_step_sigsafe(&step, pc);
    else
        has_stepped = stub_step_sigsafe(&step, pc);
    /* A stub that pushes words of its own: a guess, but no frame of Java is missing. */
    if (!has_stepped && !(step.is_leaf && step.blob.kind >= BLOB_STUBS) && !(step.is_leaf && step.blob.kind == BLOB_OTHER))
        u->java_verdict = MANAGED_TORN;
    else if (!u->java_verdict)
        u->java_verdict = MANAGED_EXACT;
    for (i = first; has_stepped && u->cfas && i < u->frame_count; i++)
        u->cfas[i] = u->sp;
    return has_stepped ? JAVA_STEPPED : JAVA_LOST;
}
