/*
 * One step up the stack from a frame of Java. All of this may run in the handler.
 *
 * Compiled code has frames of a known size; rbp, which it may use for anything, is saved below the return address.
 */

/* Return whether the word below `cfa` leads back to Java. Context: signal. */
static u32 is_left_to_java_sigsafe(struct java_step *step, u64 cfa)
{
    u64 ra;
    return stack_word_sigsafe(step->u, cfa - 8, &ra) && ra > 4096 && code_heap_sigsafe(step->heaps, ra - 1);
}

/* Return how many words a caller has pushed as arguments for the stub that returns to `pc`: it pops them behind the call (C1:
 * LIR_Assembler::emit_typecheck_helper). Context: signal. */
static u32 pushed_arguments_sigsafe(const struct code_blob *blob, u64 pc)
{
    const u8 *code = (const u8 *)pc;
    u32 count = 0;
    if (pc < blob->code + 8 || (code[-6] & 0xf8) != 0x50 || code[-5] != 0xe8) /* push; call */
        return 0;
    while (count < PUSHED_WORDS_MAX && (u64)code + 16 < blob->limit) {
        code += *code == 0x41;            /* r8 to r15 */
        if ((*code & 0xf8) != 0x58)
            break;
        code++;
        count++;
    }
    return count;
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
    if (step->has_called_stub) {
        u32 pushed = pushed_arguments_sigsafe(&step->blob, pc);
        step->blob.frame_words += (i32)pushed;
        cfa += 8 * pushed;
    }
    if (step->blob.frame_words < 1 || step->blob.frame_words > 1 << 16)
        return 0;
    /* The code that calls a native method pushes words for calls of its own: rbp points to its frame throughout. */
    if (step->blob.kind == BLOB_NATIVE && u->bp_known && u->bp + 16 - cfa <= PUSHED_WORDS_MAX * 8)
        return rbp_frame_leave_sigsafe(step);
    if (step->blob.kind == BLOB_COMPILED && (step->is_leaf ? !is_left_to_java_sigsafe(step, cfa) : step->has_called_c)) {
        u32 space = barrier_space_sigsafe(&step->blob, pc);
        if (space && is_left_to_java_sigsafe(step, cfa + space)) {
            step->blob.frame_words += (i32)(space / 8);
            cfa += space;
        }
    }
    if (state == FRAME_IS_UNSAVED)
        return stack_word_sigsafe(u, cfa - 8, &ra) && java_return_sigsafe(step, cfa, ra);
    return whole_frame_leave_sigsafe(step, cfa);
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
    step.has_called_c = u->frame_count && u->frames[u->frame_count - 1] >> WORD_SHIFT != WORD_COMPILED &&
                       u->frames[u->frame_count - 1] >> WORD_SHIFT != WORD_CODE;
    step.has_called_stub = u->frame_count && u->frames[u->frame_count - 1] >> WORD_SHIFT == WORD_COMPILED &&
                           !(u32)u->frames[u->frame_count - 1];
    pc = step.is_leaf ? u->pc : u->pc + 1;
    if (!blob_find_sigsafe(step.recipe, step.heaps, u->pc, &step.blob)) {
        u->managed_verdict = MANAGED_TORN;
        return JAVA_NONE;
    }
    if (step.blob.kind == BLOB_COMPILED || step.blob.kind == BLOB_NATIVE)
        has_stepped = compiled_step_sigsafe(&step, pc);
    else if (step.blob.kind == BLOB_INTERPRETER)
        has_stepped = interpreted_step_sigsafe(&step, pc);
    else
        has_stepped = stub_step_sigsafe(&step, pc);
    if (!has_stepped)
        u->managed_verdict = MANAGED_TORN;
    else if (!u->managed_verdict)
        u->managed_verdict = MANAGED_EXACT;
    for (i = first; has_stepped && u->cfas && i < u->frame_count; i++)
        u->cfas[i] = u->sp;
    return has_stepped ? JAVA_STEPPED : JAVA_LOST;
}
