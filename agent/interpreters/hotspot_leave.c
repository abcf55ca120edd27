/*
 * Leave a frame of Java: what all kinds of them share. All of this may run in the handler.
 *
 * None of this is a guess. Where something does not fit, the caller falls back to guesses.
 */

#define PUSHED_WORDS_MAX 6                /* arguments that compiled code has pushed for a call to C */

/* How a walk gets to know the Java frame that it is at. */
struct java_step {
    struct unwinder *u;
    const u64 *recipe;
    u32 recipe_index;
    u32 is_leaf;                          /* all registers are known, or at least sp and pc are exact */
    u32 is_deoptimised;                   /* its return address was replaced */
    u32 has_called_c;                     /* the frame below is no Java frame */
    u32 has_called_stub;                  /* … has no compilation: a stub */
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

#define DEOPT_COOKIE (~0ULL)              /* below the return address of the barrier at the entry of methods */

/* Read the return address at `*slot`, or above what the barrier at the entry of methods keeps there. Context: signal. */
static u32 return_read_sigsafe(struct unwinder *u, u64 *slot, u64 *ra)
{
    if (!stack_word_sigsafe(u, *slot, ra))
        return 0;
    if (*ra != DEOPT_COOKIE)
        return 1;
    *slot += 8;
    return stack_word_sigsafe(u, *slot, ra);
}

/* Leave a frame that is being made or left: FRAME_IS_RETURN, FRAME_IS_PUSHED. Context: signal. */
static u32 part_frame_leave_sigsafe(struct java_step *step, u32 state)
{
    struct unwinder *u = step->u;
    u64 ra, bp, slot = u->sp + (state == FRAME_IS_PUSHED ? 8 : 0);
    if (!return_read_sigsafe(u, &slot, &ra))
        return 0;
    if (state == FRAME_IS_PUSHED) {
        if (!stack_word_sigsafe(u, u->sp, &bp))
            return 0;
        u->bp = bp;
        u->bp_known = 1;
    }
    return java_return_sigsafe(step, slot + 8, ra);
}

/* Leave a frame that rbp points to. Context: signal. */
static u32 rbp_frame_leave_sigsafe(struct java_step *step)
{
    struct unwinder *u = step->u;
    u64 ra, bp, slot = u->bp + 8;
    if (!u->bp_known || u->bp < u->sp || !stack_word_sigsafe(u, u->bp, &bp) || !return_read_sigsafe(u, &slot, &ra))
        return 0;
    u->bp = bp;
    return java_return_sigsafe(step, slot + 8, ra);
}
