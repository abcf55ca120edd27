/*
 * Parts of every step up a stack: registers, moving to the caller, stopping. All of this may run in the handler: no
 * libc, no locks, no allocation.
 */

/* Return the call site of a return address, which is the address of the instruction after the call. The only place that
 * subtracts 1. */
static u64 call_site_sigsafe(u64 return_address)
{
    return return_address - 1;
}

/* Read a leaf register by its DWARF number (System V ABI AMD64 figure 3.36; sys/ucontext.h). Returns 0 if it is
 * unknown. */
static u32 leaf_register_sigsafe(const struct unwinder *u, u32 number, u64 *value)
{
    static const u8 greg_of[16] = {13, 12, 14, 11, 9, 8, 10, 15, 0, 1, 2, 3, 4, 5, 6, 7};
    if (!u->gregs || number > 15)
        return 0;
    *value = u->gregs[greg_of[number]];
    return 1;
}

/*
 * A cache of what code inspections found, since copying code costs as much as forty steps. An entry is one u64, read
 * and written whole: {address : 48, generation of the maps : 8, question : 4, answer : 4}.
 */
#define ASKED_CALL 0x10U                  /* whether a call ends there, heuristics.c */
#define ASKED_START 0x20U                 /* enum start_code, heuristics.c */
#define ASKED_RBP 0x30U                   /* enum rbp_use, jit_frame.c */
#define ASKED_GOAL 0x40U                  /* enum call_goal, bare_frame.c */
#define ASKED_EXIT 0x60U                  /* whether its way to a return is unknown, exit_path.c */
#define ASKED_PATCHPOINT 0x50U            /* whether code asks for its replacement there, replaced_frame.c */

static u64 kept_key_sigsafe(const struct agent *a, u64 runtime_addr, u32 question)
{
    return runtime_addr << 16 | (u64)(a->cache_generation & 0xff) << 8 | question;
}

static volatile u64 *kept_slot_sigsafe(const struct agent *a, u64 runtime_addr, u32 question)
{
    return &a->call_cache[(runtime_addr ^ runtime_addr >> 12 ^ question) & (CALL_CACHE_SLOTS - 1)];
}

static u32 is_code_sigsafe(const struct unwinder *u, u64 runtime_addr)
{
    return code_range_sigsafe(u->map, runtime_addr) != 0;
}

static void unwind_stop_sigsafe(struct unwinder *u, u32 verdict, u64 fault_pc)
{
    u->verdict = verdict;
    u->fault_pc = fault_pc;
}

/* Move to the caller with this return address. Returns 0 at the end of the stack. */
static u32 enter_caller_sigsafe(struct unwinder *u, u64 cfa, u64 return_address)
{
    if (return_address == 0) {
        u->ends_in_zero = 1;
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
 * Return whether a frame that ends below `sp` could have returned to `return_address`. Stale words are return
 * addresses, too: of calls that ended long ago. If the code has CFI, its rule must lead to another return address.
 * Context: signal.
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
    else if (rule->cfa_kind == CFA_DEREF_RBP && bp >= sp && stack_word_sigsafe(u, bp + (u64)(i64)rule->cfa_off, &cfa))
        cfa += (u64)(i64)rule->extra;     /* a frame with a realigned stack */
    else
        return 0;
    return stack_word_sigsafe(u, cfa + (u64)(i64)rule->ra_off, &ra) && (ra == 0 || is_code_sigsafe(u, ra - 1));
}

static u32 cfa_by_rule_sigsafe(struct unwinder *u, const struct unwind_rule *rule, u64 *cfa)
{
    u64 base = 0;
    switch (rule->cfa_kind) {
    case CFA_RSP:
        *cfa = u->sp + (u64)(i64)rule->cfa_off;
        return 1;
    case CFA_RBP:
        *cfa = u->bp + (u64)(i64)rule->cfa_off;
        return u->bp_known;
    case CFA_REG:
        *cfa = (leaf_register_sigsafe(u, rule->cfa_reg, &base) ? base : 0) + (u64)(i64)rule->cfa_off;
        return base != 0;
    case CFA_DEREF_RSP:
        base = u->sp;
        break;
    case CFA_DEREF_RBP:
        if (!u->bp_known)
            return 0;
        base = u->bp;
        break;
    case CFA_DEREF_REG:
        if (!leaf_register_sigsafe(u, rule->cfa_reg, &base))
            return 0;
        break;
    case CFA_DEREF_INDEXED:
        if (!leaf_register_sigsafe(u, rule->cfa_reg, &base))
            return 0;
        base = u->sp + 8 * base;
        break;
    case CFA_PLT:
        *cfa = u->sp + 8 + ((u->pc & 15) >= (u64)(i64)rule->extra ? 8 : 0);
        return 1;
    default:
        return 0;
    }
    if (!stack_word_sigsafe(u, base + (u64)(i64)rule->cfa_off, cfa))
        return 0;
    *cfa += (u64)(i64)rule->extra;
    return 1;
}

/* Find the caller's rbp. Returns 0 if it is unknown. */
static u32 bp_by_rule_sigsafe(struct unwinder *u, const struct unwind_rule *rule, u64 cfa, u64 *bp)
{
    *bp = u->bp;
    if (rule->rbp_kind == RBP_SAVED)
        return stack_word_sigsafe(u, cfa + (u64)(i64)rule->rbp_off, bp);
    if (rule->rbp_kind == RBP_DEREF)
        return u->bp_known && stack_word_sigsafe(u, u->bp + (u64)(i64)rule->rbp_off, bp);
    return rule->rbp_kind != RBP_UNDEFINED && u->bp_known;
}
