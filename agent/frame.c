/*
 * The state of a walk up a stack, and what every kind of step needs: reading words and registers, moving to the
 * caller, ending. Everything here may run in the handler: no libc, no locks, no allocation.
 */

#define RED_ZONE_BYTES 128                /* below sp, kept by the kernel when it delivers a signal: ABI 3.2.2 */

struct unwinder {
    struct agent *agent;
    const struct memory_map *map;
    u64 pc;                               /* where the frame is: the interrupted instruction or a call site */
    u64 sp;
    u64 bp;
    u64 window_start;                     /* stack that may be read: runtime addresses … */
    u64 window_end;
    u64 window_delta;                     /* … and what to add to get at the bytes */
    const u64 *gregs;                     /* ucontext registers, leaf only, 0 when unknown */
    u64 *frames;
    u64 fault_pc;
    u32 frame_count;
    u32 verdict;
    u32 bp_known;
    u32 guessed;
    u32 in_handler;
    u32 scan_checks;
};

/* A caller is known by its return address, which belongs to the instruction after the call. The one place for the
 * −1. */
static u64 call_site_sigsafe(u64 return_address)
{
    return return_address - 1;
}

/* A word of the stack. 0 when it lies outside the window. */
static u32 stack_word_sigsafe(const struct unwinder *u, u64 runtime_addr, u64 *value)
{
    if (runtime_addr < u->window_start || runtime_addr + 8 > u->window_end || runtime_addr & 7)
        return 0;
    *value = *(const u64 *)(runtime_addr + u->window_delta);
    return 1;
}

/* DWARF register number → position in gregs (System V ABI AMD64 figure 3.36; sys/ucontext.h). */
static u32 leaf_register_sigsafe(const struct unwinder *u, u32 number, u64 *value)
{
    static const u8 greg_of[16] = {13, 12, 14, 11, 9, 8, 10, 15, 0, 1, 2, 3, 4, 5, 6, 7};
    if (!u->gregs || number > 15)
        return 0;
    *value = u->gregs[greg_of[number]];
    return 1;
}

static u32 is_code_sigsafe(const struct unwinder *u, u64 runtime_addr)
{
    return code_range_sigsafe(u->map, runtime_addr) != 0;
}

/* Where the readable stack begins. Compilers do not say `rbp restored` after a pop: the rule still points to its
 * slot, which then lies just below sp, and still holds the value. Context: signal. */
static u64 red_zone_sigsafe(const struct memory_range *range, u64 sp)
{
    return sp - range->start > RED_ZONE_BYTES ? (sp - RED_ZONE_BYTES) & ~7ULL : range->start;
}

static void unwind_stop_sigsafe(struct unwinder *u, u32 verdict, u64 fault_pc)
{
    u->verdict = verdict;
    u->fault_pc = fault_pc;
}

/* Move to the caller whose return address is `return_address`. 0 at the end of the stack. */
static u32 enter_caller_sigsafe(struct unwinder *u, u64 cfa, u64 return_address)
{
    if (return_address == 0) {
        unwind_stop_sigsafe(u, VERDICT_COMPLETE, 0);
        return 0;
    }
    if (cfa <= u->sp) {
        unwind_stop_sigsafe(u, VERDICT_BAD_MEMORY, u->pc);
        return 0;
    }
    u->sp = cfa;
    u->pc = call_site_sigsafe(return_address);
    u->gregs = (const u64 *)0;
    return 1;
}

/*
 * Could a frame that ends below `sp` have returned to `return_address`? Stale words are return addresses, too: of
 * calls that ended long ago. Where the code has CFI, its rule must lead to a return address again. Context: signal.
 */
static u32 is_plausible_caller_sigsafe(struct unwinder *u, u64 return_address, u64 sp, u64 bp)
{
    u32 number = rule_for_sigsafe(u->agent, u->map, call_site_sigsafe(return_address));
    const struct unwind_rule *rule;
    u64 cfa, ra;
    if (number == RULE_JIT || number == RULE_NOT_READY)
        return 1;
    if (number == RULE_NO_CODE)
        return 0;
    rule = &u->agent->rules->rules[number];
    if (rule->cfa_kind == CFA_NONE || rule->ra_kind != RA_AT_CFA)
        return 1;
    if (rule->cfa_kind == CFA_RSP)
        cfa = sp + (u64)(i64)rule->cfa_off;
    else if (rule->cfa_kind == CFA_RBP && bp >= sp)
        cfa = bp + (u64)(i64)rule->cfa_off;
    else
        return 0;
    return stack_word_sigsafe(u, cfa + (u64)(i64)rule->ra_off, &ra) && (ra == 0 || is_code_sigsafe(u, ra - 1));
}
