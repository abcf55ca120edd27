/*
 * One step up the stack from a frame of V8. All of this may run in the handler.
 *
 *   [rbp + 8]   the return address            [rbp - 8]   the context, or with bit 0 clear: a frame of V8's own
 *   [rbp]       the caller's rbp              [rbp - 16]  the function
 *                                             [rbp - 32]  in the interpreter: the bytecode
 *                                             [rbp - 40]  … and the offset in it
 *
 * None of this is a guess. Where something does not fit, the caller falls back to guesses.
 *
 * src/execution/frame-constants.h.
 */

#define SLOT_CONTEXT 8                    /* bytes below rbp */
#define SLOT_FUNCTION 16
#define SLOT_BYTECODE 32
#define SLOT_OFFSET 40
#define OFFSET_TO_BYTECODE 1              /* an offset counts from the tagged address */
#define BASELINE_PROLOGUE_BYTES 0x100              /* of the builtin that makes the frame of baseline code */
#define BARE_WORDS 64                     /* that a builtin without a frame may have pushed */

/* One frame of V8. */
struct v8_frame {
    u64 pc;
    u64 function;                         /* runtime_addr; 0: not known, or it has none */
    u64 bytecode;                         /* runtime_addr; 0: it is not in the interpreter */
    u64 offset;                           /* in the bytecode's object */
    u32 is_machine;                       /* the pc is in code that V8 has made */
    u32 must_fit;                         /* V8_MUST_FIT */
};

/* Return the recipe of V8; 0 if there is none. */
static const u64 *v8_recipe_sigsafe(const struct agent *a)
{
    u32 number = load_acquire_u32(&a->v8_number);
    return number ? a->recipes[number - 1] : (const u64 *)0;
}

/* Return whether this is V8's own code in its file, which it may have mapped a second time. Context: signal. */
static u32 is_builtin_sigsafe(const struct unwinder *u, const u64 *recipe, u64 pc)
{
    const struct code_range *range = code_range_sigsafe(u->map, pc);
    const struct module *m = range && range->module ? &u->agent->modules[range->module] : (const struct module *)0;
    return m && m->image_bias == recipe[V8_IMAGE_BIAS] &&
           pc - m->load_bias - recipe[V8_BUILTINS_START] < recipe[V8_BUILTINS_END] - recipe[V8_BUILTINS_START];
}

/* Return whether this is where V8 runs bytecode, as far as that is known. Context: signal. */
static u32 is_interpreter_sigsafe(const struct unwinder *u, const u64 *recipe, u64 pc)
{
    const struct code_range *range = code_range_sigsafe(u->map, pc);
    return is_builtin_sigsafe(u, recipe, pc) && pc - u->agent->modules[range->module].load_bias - recipe[V8_INTERPRETER_START] <
                                                    recipe[V8_INTERPRETER_END] - recipe[V8_INTERPRETER_START];
}

static u32 is_pointer_sigsafe(u64 word)
{
    return (word & V8_TAG_MASK) == V8_TAG && word >> 47 == 0 && word > PAGE_BYTES;
}

/*
 * Read what the frame that rbp points to says of its function. Whether it really holds bytecode is found out later
 * (v8_places.c): it may be in the interpreter, in a copy of it, or about to return to where the interpreter goes on after
 * optimised code, which is another builtin. Context: signal.
 */
static void v8_slots_read_sigsafe(struct unwinder *u, struct v8_frame *frame)
{
    u64 context, function, bytecode, offset, bp = u->bp, lowest = u->sp;
    if (bp - SLOT_FUNCTION < lowest || !stack_word_sigsafe(u, bp - SLOT_CONTEXT, &context) || !is_pointer_sigsafe(context) ||
        !stack_word_sigsafe(u, bp - SLOT_FUNCTION, &function) || !is_pointer_sigsafe(function))
        return;
    frame->function = function - V8_TAG;
    if (bp - SLOT_OFFSET < lowest || !stack_word_sigsafe(u, bp - SLOT_BYTECODE, &bytecode) || !is_pointer_sigsafe(bytecode) ||
        !stack_word_sigsafe(u, bp - SLOT_OFFSET, &offset) || offset & 0xffffffff || offset >> 32 > NO_POSITION)
        return;
    frame->bytecode = bytecode - V8_TAG;
    frame->offset = (offset >> 32) + OFFSET_TO_BYTECODE;
}

/* Add a frame to the stack. Context: signal. */
static void v8_frame_add_sigsafe(struct unwinder *u, const struct v8_frame *frame)
{
    u64 recipe_index = load_acquire_u32(&u->agent->v8_number) - 1;
    u64 *words = u->frames + u->frame_count;
    u32 count = 1, i;
    u64 mark = (u64)(frame->bytecode ? WORD_V8_INTERPRETED : WORD_V8_MACHINE) << WORD_SHIFT, low = (1 << V8_OFFSET_BITS) - 1;
    words[0] = frame->pc;
    if (frame->bytecode || frame->is_machine) {
        words[0] = mark | recipe_index << WORD_RECIPE_SHIFT | (frame->must_fit ? V8_MUST_FIT : 0) | frame->pc;
        words[1] = mark | frame->function >> 3;
        count = V8_MACHINE_WORDS;
    }
    if (frame->bytecode) {
        words[1] |= (frame->offset & low) << V8_OFFSET_SHIFT;
        words[2] = mark | (frame->offset >> V8_OFFSET_BITS) << V8_OFFSET_SHIFT | frame->bytecode >> 3;
        count = V8_INTERPRETED_WORDS;
    }
    for (i = 0; u->cfas && i < count; i++)
        u->cfas[u->frame_count + i] = u->sp;
    u->frame_count += count;
}

/* Add the frame, and move to its caller. Returns 0 at the end of the stack. Context: signal. */
static u32 v8_leave_sigsafe(struct unwinder *u, const struct v8_frame *frame, u64 cfa, u64 return_address)
{
    u32 i, first = u->frame_count, goes_on;
    v8_frame_add_sigsafe(u, frame);
    goes_on = enter_caller_sigsafe(u, cfa, return_address);
    for (i = first; goes_on && u->cfas && i < u->frame_count; i++)
        u->cfas[i] = cfa;
    if (!u->managed_verdict && u->frame_count > first + 1)
        u->managed_verdict = MANAGED_EXACT;
    return goes_on;
}

static u32 is_return_sigsafe(const struct unwinder *u, u64 return_address)
{
    return return_address > PAGE_BYTES && is_code_sigsafe(u, return_address - 1);
}

enum v8_stepped { V8_NONE = 0, V8_ENDED = 1, V8_STEPPED = 2 };

/*
 * Find the function of a frame that is being made or left: while it is made, in rdi; once it is left, its slot is below sp,
 * in the part of the stack that a signal keeps. 0 if it is not known. Whether it fits the code is found out later
 * (v8_places.c). Context: signal.
 */
static u64 v8_part_function_sigsafe(struct unwinder *u, u32 state)
{
    u64 function = 0;
    if (state == V8_FRAME_LEFT || state == V8_FRAME_POPPED)
        stack_word_sigsafe(u, u->sp - SLOT_FUNCTION - (state == V8_FRAME_POPPED ? 8 : 0), &function);
    else if (u->gregs && state != V8_FRAME_IN_R10)
        function = u->gregs[GREG_RDI];
    return is_pointer_sigsafe(function) ? function - V8_TAG : 0;
}

/* Step from a frame that is being made or left. Context: signal. */
static u32 v8_part_step_sigsafe(struct unwinder *u, struct v8_frame *frame, u32 state)
{
    u64 ra = 0, bp = u->bp, cfa = u->sp + 8;
    u32 has_bp = state == V8_FRAME_PUSHED || state == V8_FRAME_LEFT;
    if (state == V8_FRAME_IN_R10 ? !u->gregs : !stack_word_sigsafe(u, u->sp + (has_bp ? 8 : 0), &ra))
        return V8_NONE;
    if (state == V8_FRAME_IN_R10)
        ra = u->gregs[GREG_R10];
    if (!frame->function && frame->is_machine)
        frame->function = v8_part_function_sigsafe(u, state);
    if (has_bp) {
        if (!stack_word_sigsafe(u, u->sp, &bp))
            return V8_NONE;
        cfa += 8;
    }
    if (!is_return_sigsafe(u, ra))
        return V8_NONE;
    u->bp = bp;
    return v8_leave_sigsafe(u, frame, cfa, ra) ? V8_STEPPED : V8_ENDED;
}

/*
 * Step from a builtin that has no frame of its own: rbp points to that of JavaScript code, which has called it. Bytecode's
 * handlers and inline caches are such. A word that only looks like a return address does no harm: what the frame says of its
 * function has to fit with the code it returns to, or it is left out (v8_places.c). Context: signal.
 */
static u32 v8_bare_step_sigsafe(struct unwinder *u, const u64 *recipe, struct v8_frame *frame)
{
    u64 slot, context, ra, above, end = u->bp - SLOT_FUNCTION, function = v8_part_function_sigsafe(u, V8_FRAME_RETURN);
    u32 is_made;                          /* the builtin makes its caller's frame */
    if (!stack_word_sigsafe(u, u->bp - SLOT_CONTEXT, &context) || !is_pointer_sigsafe(context))
        return V8_NONE;
    if (end > u->sp + 8 * BARE_WORDS)
        end = u->sp + 8 * BARE_WORDS;
    for (slot = u->sp; slot < end && stack_word_sigsafe(u, slot, &ra); slot += 8) {
        const struct code_range *range = ra > PAGE_BYTES ? code_range_sigsafe(u->map, ra - 1) : (const struct code_range *)0;
        if (!range || (range->module && !is_interpreter_sigsafe(u, recipe, ra - 1)) || !follows_call_sigsafe(u, ra))
            continue;
        is_made = !range->module && baseline_prologue_sigsafe(u, ra) && stack_word_sigsafe(u, slot + 8, &above) &&
                  is_return_sigsafe(u, above);
        if (v8_leave_sigsafe(u, frame, slot + 8, ra) == 0)
            return V8_ENDED;
        if (is_made) {
            struct v8_frame caller = {ra - 1, function, 0, 0, 1, 0};
            return v8_part_step_sigsafe(u, &caller, V8_FRAME_RETURN);
        }
        u->is_bare = !range->module;
        return V8_STEPPED;
    }
    return V8_NONE;
}

/* Step from a frame that rbp points to. Context: signal. */
static u32 v8_whole_step_sigsafe(struct unwinder *u, struct v8_frame *frame)
{
    u64 saved, ra, bp = u->bp;
    if (bp & 7 || bp < u->sp || !stack_word_sigsafe(u, bp, &saved) || !stack_word_sigsafe(u, bp + 8, &ra) ||
        !(is_return_sigsafe(u, ra) || (!ra && !saved)))
        return V8_NONE;
    v8_slots_read_sigsafe(u, frame);
    frame->must_fit = u->is_bare && frame->is_machine;
    u->is_bare = 0;
    u->bp = saved;
    return v8_leave_sigsafe(u, frame, bp + 16, ra) ? V8_STEPPED : V8_ENDED;
}

/*
 * Step from the builtin that makes the frame of baseline code, while it has its return address in a register: its caller has
 * the frame that there is by then. Context: signal.
 */
static u32 v8_prologue_step_sigsafe(struct unwinder *u, const struct v8_frame *frame)
{
    static const u8 registers[] = {GREG_R15, GREG_R11};
    u64 top = 0, ra = 0, builtin = 0;
    u32 i, state, stepped;
    struct v8_frame caller = {0, v8_part_function_sigsafe(u, V8_FRAME_RETURN), 0, 0, 1, 0};
    for (i = 0; i < sizeof registers && !builtin; i++) {
        ra = u->gregs[registers[i]];
        builtin = baseline_prologue_sigsafe(u, ra);
    }
    if (!builtin || u->pc - builtin >= BASELINE_PROLOGUE_BYTES || !stack_word_sigsafe(u, u->sp, &top) || top == ra)
        return V8_NONE;
    state = v8_state_sigsafe(u, u->pc);
    caller.pc = ra - 1;
    v8_frame_add_sigsafe(u, frame);
    stepped = state == V8_FRAME_WHOLE ? v8_whole_step_sigsafe(u, &caller) : v8_part_step_sigsafe(u, &caller, state);
    u->frame_count -= stepped == V8_NONE;
    return stepped;
}

/*
 * Step from the frame at u->pc, which has no unwind information, if it is V8's, and add it to the stack, with room for
 * MANAGED_WORDS_MAX. `in_jit`: its code belongs to no file. Returns V8_NONE if it is not, or if its frame is not where it
 * should be; V8_ENDED at the end of the stack. Context: signal.
 */
static u32 v8_step_sigsafe(struct unwinder *u, u32 in_jit)
{
    const u64 *recipe = v8_recipe_sigsafe(u->agent);
    struct v8_frame frame = {0, 0, 0, 0, 0, 0};
    u32 state = V8_FRAME_WHOLE, is_leaf = u->gregs || !u->frame_count, stepped = V8_NONE;
    if (!recipe || !u->bp_known || (!in_jit && !is_builtin_sigsafe(u, recipe, u->pc)))
        return V8_NONE;
    frame.pc = u->pc;
    frame.is_machine = in_jit;
    if (u->gregs && !in_jit)
        stepped = v8_prologue_step_sigsafe(u, &frame);
    if (stepped)
        return stepped;
    if (is_leaf)
        state = v8_state_sigsafe(u, u->pc);
    if (state != V8_FRAME_WHOLE)
        return v8_part_step_sigsafe(u, &frame, state);
    if (is_leaf && !in_jit && u->bp > u->sp)
        stepped = v8_bare_step_sigsafe(u, recipe, &frame);
    return stepped ? stepped : v8_whole_step_sigsafe(u, &frame);
}
