/*
 * Registers and a stack → the pcs of all frames, by CFI rules, with frame pointers for code that has none.
 *
 * The same code walks a live stack from the handler (memory read in place, inside the mapping that holds sp) and the
 * copied stack of a parked thread. Everything here may run in the handler: no libc, no locks, no allocation, bounded
 * loops. System V ABI AMD64 3.4.1 for frames, DWARF 5 6.4 for rules.
 */

#define RED_ZONE_BYTES 128                /* below sp, kept by the kernel when it delivers a signal: ABI 3.2.2 */
#define SCAN_WORDS 512                    /* how far a return address is looked for when there is nothing better */
#define SCAN_CHECKS_MAX 96                /* code reads a stack may cost in such searches */

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

/* A caller is known by its return address, which belongs to the instruction after the call. The one place for the −1. */
static u64 call_site_sigsafe(u64 return_address)
{
    return return_address - 1;
}

static const struct code_range *code_range_sigsafe(const struct memory_map *map, u64 pc)
{
    u32 low = 0, high = map->code_count;
    while (low < high) {
        u32 middle = (low + high) / 2;
        if (map->code[middle].end <= pc)
            low = middle + 1;
        else
            high = middle;
    }
    return low < map->code_count && map->code[low].start <= pc ? &map->code[low] : (const struct code_range *)0;
}

/* The readable and writable mapping that holds `sp`; 0 when none is known. */
static const struct memory_range *stack_range_sigsafe(const struct memory_map *map, u64 sp)
{
    u32 low = 0, high = map->stack_count;
    while (low < high) {
        u32 middle = (low + high) / 2;
        if (map->stacks[middle].end <= sp)
            low = middle + 1;
        else
            high = middle;
    }
    return low < map->stack_count && map->stacks[low].start <= sp ? &map->stacks[low] : (const struct memory_range *)0;
}

static u32 rule_in_module_sigsafe(const struct module *m, u64 pc)
{
    u32 offset = (u32)(pc - m->load_bias - m->text_start);
    u32 low = 0, high = m->row_count;
    if (!m->row_count || offset < m->rows[0].pc_offset)
        return 0;
    while (high - low > 1) {
        u32 middle = (low + high) / 2;
        if (m->rows[middle].pc_offset <= offset)
            low = middle;
        else
            high = middle;
    }
    return m->rows[low].rule;
}

/*
 * The cache of rules by pc. An entry is one u64 {pc >> 16 : 32, generation : 8, rule : 24}, read and written whole, so
 * handlers on several threads can share the cache without a lock. The index folds bits 16..31 into 0..15 and can be undone
 * with the tag.
 *
 * Nine rules of ten are CFA = rsp|rbp + n, RA at CFA-8, rbp unchanged or saved close below the CFA. Those are kept in
 * the entry itself, so that a step touches one line of the cache and the stack, and nothing else:
 *
 *   bit 23  1: packed; 0: bits 22..0 are a rule number
 *   bit 22  base register: 0 rsp, 1 rbp
 *   bits 21..8  n / 8
 *   bits 7..0   0: rbp unchanged; k: saved at CFA - 8k
 */
#define PACKED 0x800000U
#define PACKED_RBP 0x400000U
#define PACKED_OFFSET_MAX (0x3fff * 8)

static u32 rule_pack_sigsafe(const struct unwind_rule *rule, u32 number)
{
    u32 saved = 0;
    if ((rule->cfa_kind != CFA_RSP && rule->cfa_kind != CFA_RBP) || rule->ra_kind != RA_AT_CFA || rule->ra_off != -8 ||
        rule->cfa_off <= 0 || rule->cfa_off > PACKED_OFFSET_MAX || rule->cfa_off & 7)
        return number;
    if (rule->rbp_kind == RBP_SAVED) {
        if (rule->rbp_off >= 0 || rule->rbp_off < -255 * 8 || rule->rbp_off & 7)
            return number;
        saved = (u32)(-rule->rbp_off / 8);
    } else if (rule->rbp_kind != RBP_SAME) {
        return number;
    }
    return PACKED | (rule->cfa_kind == CFA_RBP ? PACKED_RBP : 0) | (u32)(rule->cfa_off / 8) << 8 | saved;
}

static u32 cache_index_sigsafe(u64 pc)
{
    return (u32)(pc ^ pc >> 16) & (RULE_CACHE_SLOTS - 1);
}

/* The rule for `pc`: a rule number, 0 (a module without CFI there) or one of RULE_NOT_READY, RULE_JIT, RULE_NO_CODE. */
static u32 rule_for_sigsafe(struct agent *a, const struct memory_map *map, u64 pc)
{
    u64 tag = pc >> 16;
    u32 index = cache_index_sigsafe(pc);
    u32 generation = a->cache_generation & 0xff;
    u64 entry = a->rule_cache[index];
    const struct code_range *range;
    struct module *m;
    u32 rule;

    if (entry >> 32 == tag && ((entry >> 24) & 0xff) == generation && !(entry & PACKED))
        return (u32)entry & 0xffffff;
    range = code_range_sigsafe(map, pc);
    if (!range) {
        a->want_refresh = 1;
        return RULE_NO_CODE;
    }
    if (!range->module)
        return RULE_JIT;
    m = &a->modules[range->module];
    if (m->state == MODULE_RAW) {
        m->wanted = 1;
        return RULE_NOT_READY;
    }
    rule = m->state == MODULE_READY ? rule_in_module_sigsafe(m, pc) : 0;
    if (tag >> 32 == 0)
        a->rule_cache[index] = tag << 32 | (u64)generation << 24 | rule_pack_sigsafe(&a->rules->rules[rule], rule);
    return rule;
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

/* Does a call instruction end just before `return_address`? Read safely: the candidate may be a stale word. */
static u32 follows_call_sigsafe(struct unwinder *u, u64 return_address)
{
    u8 code[8];
    u64 word = 0;
    u32 i;
    if (return_address < 8 || !code_range_sigsafe(u->map, return_address - 8) || u->scan_checks >= SCAN_CHECKS_MAX)
        return 0;
    u->scan_checks++;
    if (read_memory_sigsafe(u->agent->pid, return_address - 7, &word, 7) != 7)
        return 0;
    for (i = 0; i < 7; i++)
        code[i] = (u8)(word >> (8 * i));
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

static u32 is_code_sigsafe(const struct unwinder *u, u64 runtime_addr)
{
    return code_range_sigsafe(u->map, runtime_addr) != 0;
}

/* Where the readable stack begins. Compilers do not say `rbp restored` after a pop: the rule still points to its slot, which
 * then lies just below sp, and still holds the value. Context: signal. */
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
 * Could a frame that ends below `sp` have returned to `return_address`? Stale words are return addresses, too: of calls that
 * ended long ago. Where the code has CFI, its rule must lead to a return address again. Context: signal.
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
    if (rule->ra_kind != RA_AT_CFA)
        return 1;
    if (rule->cfa_kind == CFA_RSP)
        cfa = sp + (u64)(i64)rule->cfa_off;
    else if (rule->cfa_kind == CFA_RBP && bp >= sp)
        cfa = bp + (u64)(i64)rule->cfa_off;
    else
        return 0;
    return stack_word_sigsafe(u, cfa + (u64)(i64)rule->ra_off, &ra) && (ra == 0 || is_code_sigsafe(u, ra - 1));
}

/*
 * Without CFI. Three guesses, best first: a slot that holds our own rbp just below a return address (compiled code that
 * saved rbp and left it alone, as HotSpot's does); the frame that rbp points to; the first word further up that is a
 * return address after a call, with the saved rbp below it. Returns 0 at the end of the stack.
 */
static u32 step_by_guess_sigsafe(struct unwinder *u, u32 in_jit)
{
    u64 ra = 0, saved = 0, slot, limit;
    u32 bp_is_frame = u->bp_known && u->bp >= u->sp && !(u->bp & 7) && stack_word_sigsafe(u, u->bp, &saved) &&
                      stack_word_sigsafe(u, u->bp + 8, &ra) && (ra == 0 || is_code_sigsafe(u, ra - 1));
    u->guessed = 1;
    if (u->bp_known && u->bp == 0 && !in_jit) { /* entry points clear rbp (ABI 3.4.1, Go's gogo); a JIT may just use it */
        unwind_stop_sigsafe(u, VERDICT_COMPLETE, 0);
        return 0;
    }
    limit = u->sp + SCAN_WORDS * 8;
    if (u->bp_known) {
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
        u->bp = saved;
        return enter_caller_sigsafe(u, cfa, ra);
    }
    for (slot = u->sp & ~7ULL; slot < limit; slot += 8) {
        u64 word;
        if (!stack_word_sigsafe(u, slot, &word))
            break;
        if (word > 4096 && is_code_sigsafe(u, word - 1) && follows_call_sigsafe(u, word)) {
            u32 has_saved = slot >= u->sp + 8 && stack_word_sigsafe(u, slot - 8, &saved);
            if (!is_plausible_caller_sigsafe(u, word, slot + 8, has_saved ? saved : u->bp_known ? u->bp : 0))
                continue;
            if (has_saved) {
                u->bp = saved;
                u->bp_known = saved > slot && saved < u->window_end;
            }
            return enter_caller_sigsafe(u, slot + 8, word);
        }
    }
    unwind_stop_sigsafe(u, VERDICT_NO_UNWIND_INFO, u->pc);
    return 0;
}

/* The thread was interrupted by a signal of the target's own: take the registers the kernel saved. */
static u32 step_signal_frame_sigsafe(struct unwinder *u)
{
    u64 gregs = u->sp + UCONTEXT_GREGS, pc = 0, sp = 0, bp = 0;
    const struct memory_range *range;
    if (!stack_word_sigsafe(u, gregs + 8 * GREG_RIP, &pc) || !stack_word_sigsafe(u, gregs + 8 * GREG_RSP, &sp) ||
        !stack_word_sigsafe(u, gregs + 8 * GREG_RBP, &bp)) {
        unwind_stop_sigsafe(u, VERDICT_BAD_MEMORY, u->pc);
        return 0;
    }
    /* Unlike a caller, the interrupted frame has all its registers, and its pc is exact. */
    u->gregs = (const u64 *)(gregs + u->window_delta);
    u->pc = pc;
    u->bp = bp;
    u->bp_known = 1;
    if (sp < u->window_start || sp >= u->window_end) {  /* the handler ran on an alternate stack */
        range = stack_range_sigsafe(u->map, sp);
        if (!u->in_handler || !range) {
            unwind_stop_sigsafe(u, VERDICT_BAD_MEMORY, pc);
            return 0;
        }
        u->window_start = red_zone_sigsafe(range, sp);
        u->window_end = range->end;
    }
    u->sp = sp;
    return 1;
}

static u32 cfa_by_rule_sigsafe(const struct unwinder *u, const struct unwind_rule *rule, u64 *cfa)
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

static u32 step_by_rule_sigsafe(struct unwinder *u, const struct unwind_rule *rule)
{
    u64 cfa = 0, ra = 0, bp = u->bp;
    u32 bp_known = u->bp_known;

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
        /* A parked thread's rbp is not in procfs: code that keeps its frame there needs a guess. */
        if (!u->bp_known && (rule->cfa_kind == CFA_RBP || rule->cfa_kind == CFA_DEREF_RBP))
            return step_by_guess_sigsafe(u, 0);
        unwind_stop_sigsafe(u, rule->cfa_kind == CFA_REG || rule->cfa_kind == CFA_DEREF_REG ? VERDICT_UNSUPPORTED_RULE
                                                                                            : VERDICT_BAD_MEMORY, u->pc);
        return 0;
    }
    if (rule->ra_kind == RA_REG ? !leaf_register_sigsafe(u, (u32)rule->ra_off, &ra)
                                : !stack_word_sigsafe(u, cfa + (u64)(i64)rule->ra_off, &ra)) {
        unwind_stop_sigsafe(u, VERDICT_BAD_MEMORY, u->pc);
        return 0;
    }
    if (rule->rbp_kind == RBP_SAVED)
        bp_known = stack_word_sigsafe(u, cfa + (u64)(i64)rule->rbp_off, &bp);
    else if (rule->rbp_kind == RBP_DEREF)
        bp_known = u->bp_known && stack_word_sigsafe(u, u->bp + (u64)(i64)rule->rbp_off, &bp);
    else if (rule->rbp_kind == RBP_UNDEFINED)
        bp_known = 0;
    u->bp = bp;
    u->bp_known = bp_known;
    return enter_caller_sigsafe(u, cfa, ra);
}

/*
 * As many steps as packed rules carry: the common case, kept free of calls because it is most of the handler's time.
 * Leaves `u` at the first frame that needs more. 0 at the end of the stack. Context: signal.
 */
static u32 steps_by_packed_rules_sigsafe(struct unwinder *u)
{
    const volatile u64 *cache = u->agent->rule_cache;
    u64 generation = u->agent->cache_generation & 0xff;
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
        if (cfa <= sp || cfa > u->window_end || cfa & 7 || cfa - saved * 8 < u->window_start)
            break;
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
    if (ra == 0)
        unwind_stop_sigsafe(u, VERDICT_COMPLETE, 0);
    return ra != 0;
}

/*
 * Walk from the leaf (pc, sp, bp, gregs, window and frames are set) to the root. Sets frame_count, verdict, fault_pc.
 * Context: signal; may not: allocate, lock, call libc, read outside the window.
 */
static void unwind_sigsafe(struct unwinder *u)
{
    u->frame_count = 0;
    u->verdict = VERDICT_TRUNCATED_DEPTH;
    u->fault_pc = 0;
    u->guessed = 0;
    u->scan_checks = 0;
    while (steps_by_packed_rules_sigsafe(u) && u->frame_count < MAX_FRAMES) {
        u32 rule = rule_for_sigsafe(u->agent, u->map, u->pc);
        if (rule == RULE_NOT_READY) {
            unwind_stop_sigsafe(u, VERDICT_RETRY, u->pc);
            return;
        }
        if (rule == RULE_NO_CODE) {
            /* A call through a null or wild pointer has no frame of its own; anything else is a lost stack. */
            unwind_stop_sigsafe(u, VERDICT_BAD_MEMORY, u->frame_count ? u->frames[u->frame_count - 1] : u->pc);
            return;
        }
        u->frames[u->frame_count++] = u->pc;
        if (rule == RULE_JIT || u->agent->rules->rules[rule].cfa_kind == CFA_NONE) {
            if (!step_by_guess_sigsafe(u, rule == RULE_JIT))
                break;
        } else if (!step_by_rule_sigsafe(u, &u->agent->rules->rules[rule])) {
            break;
        }
    }
    if (u->verdict == VERDICT_COMPLETE && u->guessed)
        u->verdict = VERDICT_GUESSED;
}
