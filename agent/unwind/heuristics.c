/*
 * Steps without call frame information: JIT code, Go, and sleeping threads, whose rbp is not in procfs. All of this may
 * run in the handler: no libc, no locks, no allocation; code is read with process_vm_readv.
 */

#define SCAN_WORDS 512                    /* stack words searched for a return address when there is nothing better */
#define BETTER_WORDS 128                  /* stack words above the first match in which a better one may be */
#define NEAR_CODE_BYTES 16384             /* larger than nearly all functions */
#define NEAR_WORDS 12                     /* stack words of alignment and arguments below the simplest frames */
#define SEARCH_STEPS 4                    /* steps by which a possible caller is checked */

/* Read the seven bytes of code before `return_address`. It may be a stale word whose code was unmapped since the maps
 * were read, so the kernel copies it. Context: signal. */
static u32 code_before_sigsafe(struct unwinder *u, const struct code_range *range, u64 return_address, u8 *code)
{
    if (return_address > range->end || u->scan_checks >= SCAN_CHECKS_MAX)
        return 0;
    u->scan_checks++;
    return read_memory_sigsafe(u->agent, return_address - 7, code, 7) == 7;
}

/* Return whether these seven bytes end in a call instruction. Intel SDM volume 2, CALL. */
static u32 ends_in_call_sigsafe(const u8 *code)
{
    if (code[2] == 0xe8)                                        /* call rel32 */
        return 1;
    if (code[5] == 0xff && (code[6] & 0xf8) == 0xd0)            /* call reg */
        return 1;
    if (code[5] == 0xff && (code[6] & 0xf8) == 0x10 && (code[6] & 7) != 4 && (code[6] & 7) != 5) /* call [reg] */
        return 1;
    if (code[4] == 0xff && ((code[5] & 0xf8) == 0x50 || code[5] == 0x14)) /* call [reg+8], [sib] */
        return 1;
    if (code[3] == 0xff && code[4] == 0x54)                     /* call [sib+8] */
        return 1;
    if (code[1] == 0xff && ((code[2] & 0xf8) == 0x90 || code[2] == 0x15)) /* call [reg+32], [rip+32] */
        return 1;
    return code[0] == 0xff && (code[1] == 0x94 || code[1] == 0x14); /* call [sib+32] */
}

/* Return whether this is code of Frida's agent, which ran on the main thread during the attach, or ours, which has
 * handled a signal there: the target's stacks contain such stale words since. While we sample, Frida runs only on its
 * own threads, which are not sampled, and our unwinding starts at what our handler interrupted. Context: signal. */
static u32 is_injected_sigsafe(const struct unwinder *u, const struct code_range *range)
{
    return range->module ? u->agent->modules[range->module].injected
                         : u->agent->own_code >= range->start && u->agent->own_code < range->end;
}

/*
 * Return whether a call instruction ends just before `return_address`. For code without a file only positive results
 * are kept: a JIT may write a call where there was none. Context: signal.
 */
static u32 follows_call_sigsafe(struct unwinder *u, u64 return_address)
{
    volatile u64 *slot = kept_slot_sigsafe(u->agent, return_address, ASKED_CALL);
    u64 key = kept_key_sigsafe(u->agent, return_address, ASKED_CALL), entry = *slot;
    const struct code_range *range;
    u8 code[8];
    u32 is_call;
    if ((entry & ~0xfULL) == key)
        return entry & 1;
    range = return_address < 4096 ? (const struct code_range *)0 : code_range_sigsafe(u->map, return_address - 8);
    if (!range || is_injected_sigsafe(u, range) || !code_before_sigsafe(u, range, return_address, code))
        return 0;
    is_call = ends_in_call_sigsafe(code);
    if (is_call || range->module)
        *slot = key | is_call;
    return is_call;
}

/* Return whether the rows, if there are any, allow that the function of `pc` begins at `target`. The gaps between
 * functions have rows of their own. Context: signal. */
static u32 is_entry_of_sigsafe(struct unwinder *u, u64 target, u64 pc)
{
    const struct code_range *range = code_range_sigsafe(u->map, pc);
    struct module *m = range && range->module ? &u->agent->modules[range->module] : (struct module *)0;
    const struct unwind_rule *rules = u->agent->rules->rules, *first;
    struct rows_view at_target, at_pc;
    u32 row;
    if (!m || m->state != MODULE_READY || target < m->start || !m->table ||
        rows_around_sigsafe(u->agent, m, pc, &at_pc) == ROWS_NOT_READY)
        return 1;
    if (rows_around_sigsafe(u->agent, m, target, &at_target) != ROWS_HERE)
        return 0;
    for (row = at_pc.rows == at_target.rows ? at_pc.at : at_target.at; row > at_target.at; row--)
        if (rules[at_pc.rows[row].rule].cfa_kind == CFA_NONE)
            return 0;
    first = &rules[at_target.rows[at_target.at].rule];
    return at_pc.rows == at_target.rows && first->cfa_kind == CFA_RSP && first->cfa_off == 8;
}

/* Return whether the call before `return_address` calls the current function: its target is a little before our pc.
 * Context: signal. */
static u32 is_call_to_here_sigsafe(struct unwinder *u, u64 return_address)
{
    u8 code[5];
    u64 target;
    if (u->scan_checks >= SCAN_CHECKS_MAX)
        return 0;
    u->scan_checks++;
    if (read_memory_sigsafe(u->agent, return_address - 5, code, 5) != 5 || code[0] != 0xe8)
        return 0;
    target = return_address + (u64)(i64)(i32)(code[1] | (u32)code[2] << 8 | (u32)code[3] << 16 | (u32)code[4] << 24);
    return target <= u->pc && u->pc - target < NEAR_CODE_BYTES && is_entry_of_sigsafe(u, target, u->pc);
}

/*
 * Step to the first word up the stack that can be a return address; better is one a little further up that follows a
 * call to the current function, since stale return addresses are in the frame below it. Returns 0 at the end of the
 * stack. Context: signal.
 */
static u32 step_by_scan_sigsafe(struct unwinder *u, u64 limit)
{
    u64 slot, found = 0, saved = 0, word = 0;
    u32 is_proved = 0;
    for (slot = u->sp & ~7ULL; slot < limit; slot += 8) {
        u64 bp;
        if (!stack_word_sigsafe(u, slot, &word))
            break;
        if (word <= 4096 || !is_code_sigsafe(u, word - 1) || !follows_call_sigsafe(u, word))
            continue;
        bp = slot >= u->sp + 8 && stack_word_sigsafe(u, slot - 8, &saved) ? saved : u->bp_known ? u->bp : 0;
        if (!is_plausible_caller_sigsafe(u, word, slot + 8, bp))
            continue;
        if (!found) {
            found = slot;
            if (limit > slot + BETTER_WORDS * 8)
                limit = slot + BETTER_WORDS * 8;
        }
        if (is_call_to_here_sigsafe(u, word)) {
            found = slot;
            is_proved = 1;
            break;
        }
    }
    if (!found || !stack_word_sigsafe(u, found, &word)) {
        unwind_stop_sigsafe(u, VERDICT_NO_UNWIND_INFO, u->pc);
        return 0;
    }
    if (!is_proved && !u->scanned_pc)
        u->scanned_pc = u->pc;
    if (found >= u->sp + 8 && stack_word_sigsafe(u, found - 8, &saved)) {
        u->bp = saved;
        u->bp_known = saved > found && saved < u->stack_end;
    }
    return enter_caller_sigsafe(u, found + 8, word);
}

/*
 * Stop the walk (1) at JIT code whose functions keep their frames in rbp, if rbp is known for certain and points to no
 * frame on this stack. Words further up are of no use: Erlang's processes have small stacks within their heaps, with
 * remains of others' above each. A chain of frames ends with an rbp of 0 (ABI 3.4.1). If rbp came from code with CFI,
 * the frame is on another stack, or there is none.
 */
static u32 frames_end_sigsafe(struct unwinder *u)
{
    u32 is_end = u->chained && u->chained + 1 == u->frame_count && u->bp == 0;
    u32 is_exact = !u->guessed && u->frame_count > 1;
    if (!u->bp_known || !(is_end || is_exact) || rbp_use_sigsafe(u, u->pc) != RBP_IS_FRAME)
        return 0;
    unwind_stop_sigsafe(u, is_end ? VERDICT_COMPLETE : VERDICT_NO_UNWIND_INFO, is_end ? 0 : u->pc);
    return 1;
}

/*
 * Step without CFI by rbp: to the frame that it points to or, where the code does not change rbp, by a slot just below a
 * return address that holds the same value. Returns 0 at the end of the stack, and STEP_LOST where rbp says nothing.
 */
#define STEP_LOST 2U
static u32 step_by_frame_pointer_sigsafe(struct unwinder *u, u32 in_jit)
{
    u64 ra = 0, saved = 0, slot, limit;
    u32 bp_is_frame = u->bp_known && u->bp >= u->sp && !(u->bp & 7) && stack_word_sigsafe(u, u->bp, &saved) &&
                      stack_word_sigsafe(u, u->bp + 8, &ra) && (ra == 0 ? saved == 0 : is_code_sigsafe(u, ra - 1));
    u32 bp_is_ours = bp_is_frame && !(in_jit && rbp_use_sigsafe(u, u->pc) == RBP_LEFT_ALONE);
    if (in_jit && !bp_is_frame && frames_end_sigsafe(u)) {
        u->guessed = 1;
        return 0;
    }
    u->guessed = 1;
    limit = u->sp + SCAN_WORDS * 8;
    if (u->bp_known && u->bp == 0 && !in_jit) { /* entry points clear rbp (ABI 3.4.1, Go's gogo); a JIT may just use
                                                 * it */
        if (step_by_scan_sigsafe(u, limit))
            return 1;                     /* assembly or its caller may, too */
        unwind_stop_sigsafe(u, VERDICT_COMPLETE, 0);
        return 0;
    }
    if (u->bp_known && !bp_is_ours) {
        for (slot = u->sp & ~7ULL; slot < limit && slot < u->bp; slot += 8) {
            u64 word, above;
            if (!stack_word_sigsafe(u, slot, &word) || !stack_word_sigsafe(u, slot + 8, &above))
                break;
            if (word == u->bp && is_code_sigsafe(u, above - 1) && follows_call_sigsafe(u, above))
                return enter_caller_sigsafe(u, slot + 16, above);
        }
    }
    if (bp_is_frame) {
        u64 cfa = u->bp + 16;
        leave_replaced_sigsafe(u, saved, &cfa, &ra);
        u->bp = saved;
        if (in_jit && rbp_use_sigsafe(u, u->pc) == RBP_IS_FRAME)
            u->chained = u->frame_count;
        return enter_caller_sigsafe(u, cfa, ra);
    }
    return STEP_LOST;
}

/* The same; if rbp says nothing, by a word further up that is a return address after a call, with the saved rbp below
 * it. Returns 0 at the end of the stack. */
static u32 step_by_guess_sigsafe(struct unwinder *u, u32 in_jit)
{
    u32 stepped = step_by_frame_pointer_sigsafe(u, in_jit);
    return stepped == STEP_LOST ? step_by_scan_sigsafe(u, u->sp + SCAN_WORDS * 8) : stepped;
}

/* A possible caller, and how much supports it: return addresses on the way up that follow a call to the function they
 * return from, frames of exactly the size that their code makes. */
struct caller {
    u64 cfa;
    u64 return_address;
    u64 bp;
    u32 bp_known;
    u32 support;
};

/* Return whether a frame can return to this address: after a call, or at the end of a signal. Context: signal. */
static u32 is_returned_to_sigsafe(struct unwinder *u, u64 return_address)
{
    u32 number;
    if (!is_code_sigsafe(u, call_site_sigsafe(return_address)))
        return 0;
    if (follows_call_sigsafe(u, return_address))
        return 1;
    number = rule_for_sigsafe(u->agent, u->map, call_site_sigsafe(return_address));
    return number < RULE_NOT_READY && u->agent->rules->rules[number].cfa_kind == CFA_SIGNAL;
}

#define SUPPORT_UNCOUNTED ~0U             /* counting it reads the code of each call, 0.5 us */

/*
 * Step up some frames by rules, from the frame of `u`, until `enough` supports the path; the first step leads to
 * `first`. Returns 0 if a word is not a return address after a call. Moves `u`. Context: signal.
 */
static u32 leads_on_sigsafe(struct unwinder *u, u32 enough, struct caller *first)
{
    u32 i;
    first->support = 0;
    for (i = 0; i < SEARCH_STEPS && first->support < enough; i++) {
        u32 number = rule_for_sigsafe(u->agent, u->map, u->pc);
        const struct unwind_rule *rule;
        u64 cfa, ra;
        if (number >= RULE_NOT_READY)
            return i > 0;
        rule = &u->agent->rules->rules[number];
        first->support += rule->cfa_kind == CFA_SIGNAL;
        if (rule->cfa_kind == CFA_NONE || rule->cfa_kind == CFA_SIGNAL || rule->ra_kind != RA_AT_CFA)
            return i > 0;
        if (i > 0 && rule->cfa_kind == CFA_RBP && u->bp_known)
            first->support += u->bp - u->sp == frame_bytes_below_rbp_sigsafe(u, u->pc);
        if (!cfa_by_rule_sigsafe(u, rule, &cfa))
            return i > 0 && !u->bp_known;
        if (cfa <= u->sp || !stack_word_sigsafe(u, cfa + (u64)(i64)rule->ra_off, &ra))
            return 0;
        if (ra == 0)
            return i > 0;
        if (ra <= 4096 || !is_returned_to_sigsafe(u, ra))
            return 0;
        if (enough != SUPPORT_UNCOUNTED)
            first->support += is_call_to_here_sigsafe(u, ra);
        u->bp_known = bp_by_rule_sigsafe(u, rule, cfa, &u->bp);
        u->sp = cfa;
        u->pc = call_site_sigsafe(ra);
        if (i == 0) {
            first->cfa = cfa;
            first->return_address = ra;
            first->bp = u->bp;
            first->bp_known = u->bp_known;
        }
    }
    return 1;
}

/*
 * Find where rbp points, from `slot` up to `limit`: the lowest place with the most support, into `best`. A call leaves
 * rsp at a multiple of 16 (ABI 3.2.2). `likely` is taken unless something contradicts it. Returns 1 if it or a place
 * with any support was found. Context: signal.
 */
static u32 search_sigsafe(struct unwinder *u, u64 slot, u64 limit, u64 likely, struct caller *best)
{
    u64 pc = u->pc, sp = u->sp, word;
    for (; slot < limit && stack_word_sigsafe(u, slot, &word); slot += 8) {
        struct caller caller;
        u32 leads_on;
        u->bp = slot;
        u->bp_known = 1;
        leads_on = leads_on_sigsafe(u, slot == likely ? 1 : 2 * SEARCH_STEPS, &caller);
        u->pc = pc;
        u->sp = sp;
        if (leads_on && !(caller.cfa & 15) && (!best->cfa || caller.support > best->support))
            *best = caller;
        if (slot == likely && best->cfa)
            return 1;
    }
    return best->support > 0;
}

/*
 * Step for a sleeping thread, whose rbp is not in procfs, by a rule that needs rbp. Stale frames are among the locals
 * below the address in rbp, so the space that the code is known to make is skipped. In most code rbp points right after
 * that; arguments on the stack and alignment add a little; code that computes the size of its frame, any amount.
 * Context: signal.
 */
static u32 step_by_search_sigsafe(struct unwinder *u)
{
    struct caller best = {0, 0, 0, 0, 0};
    u64 first = (u->sp & ~7ULL) + frame_bytes_below_rbp_sigsafe(u, u->pc);
    u->guessed = 1;
    if (!search_sigsafe(u, first, first + NEAR_WORDS * 8, first, &best))
        search_sigsafe(u, first + NEAR_WORDS * 8, first + SCAN_WORDS * 8, 0, &best);
    u->bp = best.bp;
    u->bp_known = best.bp_known;
    if (!best.cfa) {
        unwind_stop_sigsafe(u, VERDICT_NO_UNWIND_INFO, u->pc);
        return 0;
    }
    return enter_caller_sigsafe(u, best.cfa, best.return_address);
}
