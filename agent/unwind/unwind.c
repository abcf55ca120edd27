/*
 * Unwind registers and a stack to the pcs of all frames: by CFI rules, and by frame pointers for code without CFI.
 *
 * The same code unwinds a running thread, in its handler, and a sleeping one; stack_reader.c reads both stacks. All of
 * this may run in the handler: no libc, no locks, no allocation, bounded loops. System V ABI AMD64 3.4.1 for frames,
 * DWARF 5 6.4 for rules.
 */

/* Continue the walk on another stack. Returns 0 if it has switched too often. Context: signal. */
static u32 stack_switch_sigsafe(struct unwinder *u, u64 sp)
{
    if (u->switches++ >= STACK_SWITCHES_MAX)
        return 0;
    window_open_sigsafe(u, sp, 0);
    return 1;
}

/* Step over a signal frame of the target's: take the registers that the kernel saved. */
static u32 step_signal_frame_sigsafe(struct unwinder *u)
{
    u64 gregs = u->sp + UCONTEXT_GREGS, pc = 0, sp;
    u32 i, all = stack_word_sigsafe(u, gregs + 8 * GREG_RIP, &pc);
    for (i = 0; i < 16; i++)
        all &= stack_word_sigsafe(u, gregs + 8 * i, &u->signal_gregs[i]);
    sp = u->signal_gregs[GREG_RSP];
    /* A handler on an alternate stack leads back to the interrupted stack, wherever that is. */
    if (!all || ((sp <= u->sp || sp >= u->stack_end) && !stack_switch_sigsafe(u, sp))) {
        unwind_stop_sigsafe(u, VERDICT_BAD_MEMORY, u->pc);
        return 0;
    }
    /* Unlike a caller, the interrupted frame has all its registers, and its pc is exact. */
    u->gregs = u->signal_gregs;
    u->pc = pc;
    u->sp = sp;
    u->bp = u->signal_gregs[GREG_RBP];
    u->bp_known = 1;
    return 1;
}

static u32 step_by_rule_sigsafe(struct unwinder *u, const struct unwind_rule *rule)
{
    u64 cfa = 0, ra = 0, bp = 0;

    if (rule->cfa_kind == CFA_SIGNAL)
        return step_signal_frame_sigsafe(u);
    if (rule->ra_kind == RA_UNDEFINED) {
        unwind_stop_sigsafe(u, VERDICT_COMPLETE, 0);
        return 0;
    }
    if (rule->cfa_kind == CFA_UNSUPPORTED || rule->ra_kind == RA_UNSUPPORTED) {
        unwind_stop_sigsafe(u, VERDICT_UNSUPPORTED_RULE, u->pc);
        return 0;
    }
    if (!cfa_by_rule_sigsafe(u, rule, &cfa)) {
        /* A sleeping thread's rbp is not in procfs: search for the frame of code that keeps it in rbp. */
        if (!u->bp_known && (rule->cfa_kind == CFA_RBP || rule->cfa_kind == CFA_DEREF_RBP))
            return step_by_search_sigsafe(u);
        /* These registers are known in the leaf only. */
        unwind_stop_sigsafe(u, !u->gregs && (rule->cfa_kind == CFA_REG || rule->cfa_kind == CFA_DEREF_REG ||
                                             rule->cfa_kind == CFA_DEREF_INDEXED) ? VERDICT_UNSUPPORTED_RULE
                                                                                  : VERDICT_BAD_MEMORY, u->pc);
        return 0;
    }
    /* A rule may lead to another stack (split stacks, Rust's psm), except one relative to rsp. */
    if ((cfa <= u->sp || cfa > u->stack_end) && !u->guessed && rule->cfa_kind != CFA_RSP && rule->cfa_kind != CFA_PLT &&
        window_is_elsewhere_sigsafe(u, cfa - 8) && stack_switch_sigsafe(u, cfa - 8))
        u->sp = cfa - 8;
    if (rule->ra_kind == RA_REG ? !leaf_register_sigsafe(u, (u32)rule->ra_off, &ra)
                                : !stack_word_sigsafe(u, cfa + (u64)(i64)rule->ra_off, &ra)) {
        unwind_stop_sigsafe(u, VERDICT_BAD_MEMORY, u->pc);
        return 0;
    }
    u->bp_known = bp_by_rule_sigsafe(u, rule, cfa, &bp);
    u->bp = bp;
    return enter_caller_sigsafe(u, cfa, ra);
}

/*
 * Step in code of no file; it continues at `pc`. Best is rbp; but kernels that a library has made (oneDNN) keep data there,
 * and functions of registered code without rules leave it alone: those are read up to their return.
 */
static u32 step_in_jit_sigsafe(struct unwinder *u, u64 pc)
{
    u32 is_registered = registered_of_sigsafe(u->agent, u->pc) != 0;
    u32 stepped = is_registered ? STEP_LOST : step_by_frame_pointer_sigsafe(u, 1);
    struct unwind_rule rule;
    if (stepped != STEP_LOST)
        return stepped;
    if (exit_rule_for_sigsafe(u, pc, 0, &rule))
        return step_by_rule_sigsafe(u, &rule);
    return is_registered ? step_by_guess_sigsafe(u, 1) : step_by_scan_sigsafe(u, u->sp + SCAN_WORDS * 8);
}

/* Step in code without CFI: by what its bytes prove, else by a guess. */
static u32 step_without_rule_sigsafe(struct unwinder *u, u32 in_jit)
{
    u32 is_exact = u->gregs || u->frame_count < 2;       /* pc is that of the next instruction, not before it */
    u32 start = in_jit || is_exact ? START_OTHER : start_code_sigsafe(u, u->pc + 1);
    struct unwind_rule rule;
    if (start == START_OTHER) {
        if (in_jit)
            return step_in_jit_sigsafe(u, u->pc + !is_exact);
        if (step_to_first_call_sigsafe(u))
            return 1;
        /* In a Java program the walk goes on at the anchor instead, which knows rbp of the innermost Java frame. */
        if (!code_heaps_sigsafe(u->agent) && exit_rule_for_sigsafe(u, u->pc + !is_exact, 1, &rule))
            return step_by_rule_sigsafe(u, &rule);
        return step_bare_sigsafe(u) || step_by_guess_sigsafe(u, 0);
    }
    if (start == START_CALLER) {
        unwind_stop_sigsafe(u, VERDICT_COMPLETE, 0);
        return 0;
    }
    u->frames[u->frame_count - 1] = u->pc + 1; /* the return address itself: it is not a call site */
    if (start == START_SIGRETURN)
        return step_signal_frame_sigsafe(u);
    unwind_stop_sigsafe(u, VERDICT_COMPLETE, 0);
    return 0;
}

/*
 * Step as long as rules are packed: the common case, free of calls because it takes most of the handler's time. Leaves
 * `u` at the first frame that needs more. Returns 0 at the end of the stack. Context: signal.
 */
static u32 steps_by_packed_rules_sigsafe(struct unwinder *u)
{
    const volatile u64 *cache = u->agent->rule_cache;
    u64 generation = u->agent->cache_generation & 0xff;
    u64 *cfas = u->cfas;
    u64 pc = u->pc, sp = u->sp, bp = u->bp, ra = 1;
    u32 count = u->frame_count, first = count, bp_known = u->bp_known;
    while (count < MAX_FRAMES) {
        u64 entry = cache[(pc ^ pc >> 16) & (RULE_CACHE_SLOTS - 1)];
        u64 cfa, saved;
        if ((entry >> 24) != ((pc >> 16) << 8 | generation) || !(entry & PACKED))
            break;
        if (entry & PACKED_RBP) {
            if (!bp_known)
                break;
            cfa = bp;
        } else {
            cfa = sp;
        }
        cfa += ((entry >> 8) & 0x3fff) * 8;
        saved = entry & 0xff;
        if (cfa <= sp || cfa & 7)
            break;
        if (cfa > u->window_end || cfa - (saved ? saved : 1) * 8 < u->window_start) {
            u->sp = sp;
            if (!window_holds_sigsafe(u, cfa - (saved ? saved : 1) * 8, cfa))
                break;
        }
        if (cfas)
            cfas[count] = cfa;
        u->frames[count++] = pc;
        ra = *(const u64 *)(cfa - 8 + u->window_delta);
        if (ra == 0)
            break;
        if (saved) {
            bp = *(const u64 *)(cfa - saved * 8 + u->window_delta);
            bp_known = 1;
        }
        sp = cfa;
        pc = call_site_sigsafe(ra);
    }
    u->frame_count = count;
    u->pc = pc;
    u->sp = sp;
    u->bp = bp;
    u->bp_known = bp_known;
    if (count != first)
        u->gregs = (const u64 *)0;
    if (ra == 0) {
        u->ends_in_zero = 1;
        unwind_stop_sigsafe(u, VERDICT_COMPLETE, 0);
    }
    return ra != 0;
}

#define FORESEEN_WORDS 512                /* 30 us, a few times in all: the first samples of a thread */

/*
 * Ask for the rows of all modules whose code the stack further up may return to. A stack is only known once each of its
 * modules is compiled; if each sample asked for one, a thread that runs little would lose its first ones. Context: signal.
 */
static void modules_foresee_sigsafe(struct unwinder *u)
{
    u64 slot = u->sp & ~7ULL, end = slot + FORESEEN_WORDS * 8, word;
    for (; slot < end && stack_word_sigsafe(u, slot, &word); slot += 8) {
        const struct code_range *range = word > 4096 ? code_range_sigsafe(u->map, word - 1) : (const struct code_range *)0;
        struct module *m = range ? &u->agent->modules[range->module] : (struct module *)0;
        if (m && range->module && m->state == MODULE_RAW)
            m->wanted = 1;
    }
}

/* Note that the caller of the last frame is one that only may be right. Context: signal. */
static void guess_mark_sigsafe(struct unwinder *u)
{
    if (u->cfas)
        u->cfas[u->frame_count] = u->sp;
    u->frames[u->frame_count++] = GUESSED_CALLER;
}

/* Walk on to the root from where `u` is. Context: signal. */
static void unwind_on_sigsafe(struct unwinder *u)
{
    u->verdict = VERDICT_TRUNCATED_DEPTH;
    u->fault_pc = 0;
    while ((u->anchor_sp || steps_by_packed_rules_sigsafe(u)) && u->frame_count + MANAGED_WORDS_MAX <= MAX_FRAMES) {
        u32 rule, has_stepped, was_guessed = u->guessed, java, is_bare_code, v8;
        u32 was_scanned = u->scanned_pc != 0;
        u64 sp;
        if (u->anchor_sp)
            anchor_compare_sigsafe(u);
        if (java_steps_by_cache_sigsafe(u))
            continue;
        java = java_step_sigsafe(u);
        if (java == JAVA_STEPPED)
            continue;
        if (java == JAVA_LOST) {
            has_stepped = step_by_guess_sigsafe(u, 1);
            if (!was_guessed && u->guessed)
                u->guessed_at = u->frame_count - 1;
            if (!has_stepped)
                break;
            if (!was_scanned && u->scanned_pc)
                guess_mark_sigsafe(u);
            continue;
        }
        rule = rule_for_sigsafe(u->agent, u->map, u->pc);
        if (rule == RULE_NOT_READY) {
            modules_foresee_sigsafe(u);
            unwind_stop_sigsafe(u, VERDICT_RETRY, u->pc);
            return;
        }
        if (rule == RULE_NO_CODE && anchor_take_sigsafe(u))
            continue;
        if (rule == RULE_NO_CODE) {
            /* A call through a null or invalid pointer has no frame of its own; anything else is a lost stack. */
            unwind_stop_sigsafe(u, VERDICT_BAD_MEMORY, u->frame_count ? u->frames[u->frame_count - 1] : u->pc);
            return;
        }
        is_bare_code = rule == RULE_JIT || u->agent->rules->rules[rule].cfa_kind == CFA_NONE;
        v8 = is_bare_code ? v8_step_sigsafe(u, rule == RULE_JIT) : V8_NONE;
        if (v8 == V8_ENDED)
            break;
        if (v8 == V8_STEPPED)
            continue;
        if (u->cfas)
            u->cfas[u->frame_count] = 0;
        u->frames[u->frame_count++] = u->pc;
        sp = u->sp;
        if (is_bare_code)
            has_stepped = step_without_rule_sigsafe(u, rule == RULE_JIT);
        else
            has_stepped = step_by_rule_sigsafe(u, &u->agent->rules->rules[rule]);
        if (!was_guessed && u->guessed) {
            u->guessed_at = u->frame_count - 1;
            anchor_find_sigsafe(u, sp);
        }
        if (!has_stepped && anchor_take_sigsafe(u))
            continue;
        if (!has_stepped)
            break;
        if (u->cfas)
            u->cfas[u->frame_count - 1] = u->sp;
        if (!was_scanned && u->scanned_pc)
            guess_mark_sigsafe(u);
    }
    /* A stale return address leads along a stale stack, which ends where later calls have written over it. */
    if (u->verdict == VERDICT_COMPLETE && u->scanned_pc && u->ends_in_zero)
        unwind_stop_sigsafe(u, VERDICT_NO_UNWIND_INFO, u->scanned_pc);
    if (u->verdict == VERDICT_COMPLETE && u->guessed)
        u->verdict = u->scanned_pc ? VERDICT_SCANNED : VERDICT_GUESSED;
    if (u->verdict == VERDICT_BAD_MEMORY && u->moves >= WINDOW_MOVES_MAX)
        unwind_stop_sigsafe(u, VERDICT_TRUNCATED_DEPTH, 0);
}

/*
 * Leave a call that a handler of the target has made the thread begin, and of which no instruction has run. Go preempts
 * that way: its handler pushes the interrupted pc and returns to asyncPreempt. Our signal waits until that handler ends, so
 * it is delivered there each time both were on their way, which on a busy CPU is often: the thread had no CPU in between.
 * The time before was the interrupted code's. Context: signal.
 */
static void injected_call_leave_sigsafe(struct unwinder *u)
{
    u64 pc = 0;
    if (!u->gregs || !u->pc || u->pc != u->agent->injected_entry || !stack_word_sigsafe(u, u->sp, &pc))
        return;
    u->pc = pc;                           /* exact, as in a signal frame: all other registers are as they were */
    u->sp += 8;
}

/*
 * Walk from the leaf (pc, sp, bp, gregs, own stack, copy, frames and cfas are set) to the root. Sets frame_count, verdict
 * and fault_pc. Context: signal; may not: allocate, lock, call libc, read memory that may be unmapped.
 */
static void unwind_sigsafe(struct unwinder *u)
{
    u->frame_count = 0;
    u->guessed = u->guessed_at = u->ends_in_zero = 0;
    u->scanned_pc = 0;
    u->scan_checks = 0;
    u->entry_reads = 0;
    u->chained = 0;
    u->moves = 0;
    u->switches = 0;
    u->managed_verdict = MANAGED_NONE;
    u->is_bare = 0;
    u->anchor_sp = 0;
    u->anchor_asked = 0;
    window_open_sigsafe(u, u->sp, 1);
    injected_call_leave_sigsafe(u);
    unwind_on_sigsafe(u);
}
