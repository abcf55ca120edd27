/*
 * Steps from a leaf without CFI in a file that has CFI elsewhere: hand-written kernels (OpenBLAS, codecs, crypto). All of
 * this may run in the handler: no libc, no locks, no allocation; code is read with process_vm_readv.
 *
 * Such code uses rbp as it likes, so rbp may point to a frame far above, and a step by it would leave out the callers
 * between. But its callers have CFI. The return address is looked for from sp, and from each register that points to the
 * stack: kernels with buffers of some 10 KiB keep the old sp in one. It counts only if
 *   - a call ends there, which, if it names its target, calls this function;
 *   - the rules of that code and of its callers lead to return addresses behind calls, SEARCH_STEPS times, or to the root.
 */

#define BARE_WORDS 64                     /* searched from each start: saved registers, arguments */
#define BARE_REACH (256ULL << 10)         /* most bytes between sp and what a register points to */

enum call_goal {
    GOAL_ROWS = 0,                        /* a direct call to code with rows, or not to be read */
    GOAL_ANY = 1,                         /* a call through a pointer, or to a jump through one (PLT) */
    GOAL_DIRECT = 2,                      /* a direct call to code without rows */
};

/* Return whether code begins with a jump through a pointer (PLT). Context: signal. */
static u32 is_pointer_jump_sigsafe(const u8 *code)
{
    u32 at = code[0] == 0xf3 && code[1] == 0x0f && code[2] == 0x1e ? 4 : 0;     /* endbr64 */
    at += code[at] == 0xf2;                                                   /* bnd */
    return code[at] == 0xff && (at == 5 || code[at + 1] == 0x25);               /* jmp *n(%rip) */
}

/* Read the target of the call before `return_address`; 0 if it is not a direct one. Returns 0 if the code cannot be read.
 * Context: signal. */
static u32 call_target_sigsafe(struct unwinder *u, u64 return_address, u64 *target)
{
    u8 code[5];
    if (u->scan_checks >= SCAN_CHECKS_MAX)
        return 0;
    u->scan_checks++;
    if (read_memory_sigsafe(u->agent, return_address - 5, code, 5) != 5)
        return 0;
    *target = code[0] != 0xe8 ? 0 : return_address + (u64)(i64)(i32)(code[1] | (u32)code[2] << 8 | (u32)code[3] << 16 |
                                                                    (u32)code[4] << 24);
    return 1;
}

/* Return what the call before `return_address` calls, enum call_goal. Remembered for code of files. Context: signal. */
static u32 call_goal_sigsafe(struct unwinder *u, u64 return_address)
{
    volatile u64 *slot = kept_slot_sigsafe(u->agent, return_address, ASKED_GOAL);
    u64 key = kept_key_sigsafe(u->agent, return_address, ASKED_GOAL), entry = *slot, target;
    const struct code_range *range;
    u32 goal = GOAL_ANY, number;
    u8 code[8];
    if ((entry & ~0xfULL) == key)
        return entry & 0xf;
    if (!call_target_sigsafe(u, return_address, &target))
        return GOAL_ROWS;
    if (target) {
        if (u->scan_checks++ >= SCAN_CHECKS_MAX || read_memory_sigsafe(u->agent, target, code, 8) != 8)
            return GOAL_ROWS;
        number = rule_for_sigsafe(u->agent, u->map, target);
        if (!is_pointer_jump_sigsafe(code))
            goal = number < RULE_NOT_READY && u->agent->rules->rules[number].cfa_kind != CFA_NONE ? GOAL_ROWS : GOAL_DIRECT;
    }
    range = code_range_sigsafe(u->map, return_address - 1);
    if (range && range->module)
        *slot = key | goal;
    return goal;
}

/* Return whether the call before `return_address` may have called the function of u->pc, which has no rows: a direct call
 * goes to the same gap between functions with rows. Context: signal. */
static u32 may_call_bare_sigsafe(struct unwinder *u, const struct code_range *range, u64 return_address)
{
    struct module *m = &u->agent->modules[range->module];
    struct rows_view at_target, at_pc;
    u64 target;
    u32 goal = call_goal_sigsafe(u, return_address);
    if (goal != GOAL_DIRECT)
        return goal == GOAL_ANY;
    return call_target_sigsafe(u, return_address, &target) && target && target <= u->pc && target >= range->start &&
           rows_around_sigsafe(u->agent, m, target, &at_target) == ROWS_HERE &&
           rows_around_sigsafe(u->agent, m, u->pc, &at_pc) == ROWS_HERE &&
           at_target.rows + at_target.at == at_pc.rows + at_pc.at;
}

/* Return whether `return_address` in the word below `cfa` is that of the leaf's caller; sets the caller's rbp. Context:
 * signal. */
static u32 is_bare_caller_sigsafe(struct unwinder *u, u64 cfa, u64 return_address, u64 *bp, u32 *bp_known)
{
    u64 pc = u->pc, sp = u->sp, own_bp = u->bp;
    u32 own_bp_known = u->bp_known, leads_on;
    const u64 *gregs = u->gregs;
    struct caller first;
    *bp_known = stack_word_sigsafe(u, cfa - 16, bp) && *bp > cfa && *bp < u->stack_end && !(*bp & 7);
    u->pc = call_site_sigsafe(return_address);
    u->sp = cfa;
    u->bp = *bp;
    u->bp_known = *bp_known;
    u->gregs = (const u64 *)0;
    leads_on = leads_on_sigsafe(u, SUPPORT_UNCOUNTED, &first);
    u->pc = pc;
    u->sp = sp;
    u->bp = own_bp;
    u->bp_known = own_bp_known;
    u->gregs = gregs;
    return leads_on;
}

/* Search for the caller from `start` on. Returns 1 after a step there. Context: signal. */
static u32 step_bare_from_sigsafe(struct unwinder *u, const struct code_range *range, u64 start)
{
    u64 slot, word, bp = 0;
    u32 bp_known = 0;
    for (slot = start; slot < start + BARE_WORDS * 8 && stack_word_sigsafe(u, slot, &word); slot += 8) {
        if (word <= 4096 || !is_code_sigsafe(u, word - 1) || !follows_call_sigsafe(u, word) ||
            !may_call_bare_sigsafe(u, range, word) || !is_bare_caller_sigsafe(u, slot + 8, word, &bp, &bp_known))
            continue;
        u->bp = bp;
        u->bp_known = bp_known;
        return enter_caller_sigsafe(u, slot + 8, word);
    }
    return 0;
}

/* Step from a leaf without CFI to a caller that is certain in this sense. Returns 0, and changes nothing, if there is none.
 * Context: signal. */
static u32 step_bare_sigsafe(struct unwinder *u)
{
    const struct code_range *range = code_range_sigsafe(u->map, u->pc);
    u64 starts[16], start;
    u32 count = 1, i, j;
    if (!u->gregs || !range || !range->module || !u->agent->modules[range->module].table)
        return 0;
    starts[0] = u->sp & ~7ULL;
    for (i = 0; i < GREG_RSP; i++) {
        start = u->gregs[i];
        if ((start & 7) || start <= u->sp || start - u->sp > BARE_REACH || start >= u->stack_end)
            continue;
        for (j = count++; j > 1 && starts[j - 1] > start; j--)
            starts[j] = starts[j - 1];
        starts[j] = start;
    }
    for (i = 0; i < count; i++)
        if (step_bare_from_sigsafe(u, range, starts[i])) {
            u->guessed = 1;
            return 1;
        }
    return 0;
}
