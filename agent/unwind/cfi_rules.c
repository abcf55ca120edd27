/*
 * The meaning of a row of call frame information, and its conversion to an unwind rule.
 *
 * Only rbp, rsp and the return address are followed: no caller's rule needs another register.
 *
 * All of this may run in the handler: no libc, no allocation. Only a rule that is new takes the table's lock; a handler gives
 * up after some tries. Sources: DWARF 5, 2.5 (expressions) and 6.4.1 (register rules).
 */

enum {
    DW_REG_RBP = 6,
    DW_REG_RSP = 7,
    DW_LAST_GENERAL_REG = 15,             /* r15; 16 is the return address */
    DW_REG_RA = 16,
};

/* The few expression operators that occur in practice. */
enum {
    DW_OP_DEREF = 0x06,
    DW_OP_MUL = 0x1e,
    DW_OP_PLUS = 0x22,
    DW_OP_PLUS_UCONST = 0x23,
    DW_OP_LIT0 = 0x30,
    DW_OP_LIT8 = 0x38,
    DW_OP_LIT15 = 0x3f,
    DW_OP_LIT31 = 0x4f,
    DW_OP_BREG0 = 0x70,
    DW_OP_BREG31 = 0x8f,
    DW_OP_BREGX = 0x92,
};

/* In glibc's __restore_rt the RA is at rsp + 168: the saved rip of the ucontext that rsp points to. */
#define EH_UCONTEXT_RIP_OFFSET 168

enum eh_form {
    EH_FORM_REG,                          /* register + offset */
    EH_FORM_DEREF,                        /* *(register + offset) + extra */
    EH_FORM_INDEXED,                      /* *(rsp + offset + 8 * register) + extra */
    EH_FORM_PLT,                          /* rsp + 8 + ((pc & 15) >= extra ? 8 : 0) */
    EH_FORM_OTHER,
};

/* An expression of a supported form. */
struct eh_expression {
    enum eh_form form;
    u32 reg;
    int off;
    int extra;
};

enum eh_how {
    EH_SAME,                              /* also: never mentioned */
    EH_UNDEFINED,
    EH_AT_CFA,                            /* saved at CFA + value */
    EH_IN_REGISTER,                       /* held by register value */
    EH_AT_RBP,                            /* saved at rbp + value */
    EH_IN_UCONTEXT,                       /* saved at rsp + EH_UCONTEXT_RIP_OFFSET */
    EH_OTHER,
};

struct eh_register {
    enum eh_how how;
    int value;
};

/*
 * The current row while a program runs. After def_cfa_expression the old register and offset are kept beside the
 * expression: def_cfa_register uses them (libgcc and binutils agree).
 */
struct eh_state {
    u32 rule;                    /* index of this state's rule; 0: not looked up since the last change */
    u32 cfa_is_expression;
    u32 cfa_reg;
    int cfa_off;
    struct eh_expression cfa_expression;
    struct eh_register rbp;
    struct eh_register rsp;
    struct eh_register ra;
};

/* `breg7 8; breg16 0; lit15; and; litK; ge; lit3; shl; plus`, which GNU ld emits for .plt; this is the part after
 * `breg7 8`. */
static int eh_parse_plt_tail_sigsafe(const struct eh_reader *block, int *threshold)
{
    const u8 *at = block->at;
    if (block->end - at != 9)
        return 0;
    if (at[0] != 0x80 || at[1] != 0 || at[2] != DW_OP_LIT15 || at[3] != 0x1a || at[5] != 0x2a || at[6] != 0x33 ||
        at[7] != 0x24 || at[8] != 0x22)
        return 0;
    if (at[4] < DW_OP_LIT0 || at[4] > DW_OP_LIT15)
        return 0;
    *threshold = at[4] - DW_OP_LIT0;
    return 1;
}

/* `breg7 n; breg9 0; lit8; mul; plus; deref`, by which OpenSSL's bignum code finds the stack it came from; this is the
 * part after the first operation. The block is not advanced unless all of it matches. */
static int eh_parse_index_sigsafe(struct eh_reader *block, u32 *reg)
{
    const u8 *at = block->at;
    if (block->end - at < 6 || at[0] < DW_OP_BREG0 || at[0] > DW_OP_BREG0 + DW_LAST_GENERAL_REG || at[1] != 0 ||
        at[2] != DW_OP_LIT8 || at[3] != DW_OP_MUL || at[4] != DW_OP_PLUS || at[5] != DW_OP_DEREF)
        return 0;
    *reg = at[0] - (u32)DW_OP_BREG0;
    block->at += 6;
    return 1;
}

/* Read what an expression adds at its end: `plus_uconst m`, or `lit m; plus` as in hand-written rules; 0 for
 * nothing. */
static int eh_parse_addend_sigsafe(struct eh_reader *block)
{
    const u8 *at = block->at;
    if (block->end - at == 2 && at[0] >= DW_OP_LIT0 && at[0] <= DW_OP_LIT31 && at[1] == DW_OP_PLUS) {
        block->at += 2;
        return at[0] - DW_OP_LIT0;
    }
    if (at == block->end || *at != DW_OP_PLUS_UCONST)
        return 0;
    block->at++;
    return eh_read_uleb_int_sigsafe(block);
}

/*
 * Recognise the expressions that occur: breg n; breg n, deref; either with an addend; the two above. All others,
 * malformed ones included, are EH_FORM_OTHER.
 */
static struct eh_expression eh_parse_expression_sigsafe(struct eh_reader block)
{
    struct eh_expression other = {EH_FORM_OTHER, 0, 0, 0};
    struct eh_expression result = {EH_FORM_REG, 0, 0, 0};
    u32 op = eh_read_u8_sigsafe(&block);
    int addend;
    if (op >= DW_OP_BREG0 && op <= DW_OP_BREG31)
        result.reg = op - DW_OP_BREG0;
    else if (op == DW_OP_BREGX)
        result.reg = (u32)eh_read_uleb_int_sigsafe(&block);
    else
        return other;
    result.off = eh_read_sleb_int_sigsafe(&block);
    if (block.failed || result.reg > DW_LAST_GENERAL_REG)
        return other;
    if (result.reg == DW_REG_RSP && result.off == 8 && eh_parse_plt_tail_sigsafe(&block, &result.extra)) {
        result.form = EH_FORM_PLT;
        return result;
    }
    if (result.reg == DW_REG_RSP && eh_parse_index_sigsafe(&block, &result.reg)) {
        result.form = EH_FORM_INDEXED;
    } else if (block.at != block.end && *block.at == DW_OP_DEREF) {
        result.form = EH_FORM_DEREF;
        block.at++;
    }
    addend = eh_parse_addend_sigsafe(&block);
    if (result.form != EH_FORM_REG)
        result.extra = addend;
    else
        result.off = eh_int_sigsafe(&block, (i64)result.off + addend);
    return block.failed || block.at != block.end ? other : result;
}

static void eh_set_register_sigsafe(struct eh_state *state, u64 reg, enum eh_how how, int value)
{
    struct eh_register *slot;
    if (reg == DW_REG_RBP)
        slot = &state->rbp;
    else if (reg == DW_REG_RA)
        slot = &state->ra;
    else if (reg == DW_REG_RSP)
        slot = &state->rsp;
    else
        return;
    slot->how = how;
    slot->value = value;
    state->rule = 0;
}

static void eh_restore_register_sigsafe(struct eh_state *state, u64 reg, const struct eh_state *initial)
{
    if (reg == DW_REG_RBP)
        eh_set_register_sigsafe(state, reg, initial->rbp.how, initial->rbp.value);
    else if (reg == DW_REG_RA)
        eh_set_register_sigsafe(state, reg, initial->ra.how, initial->ra.value);
    else if (reg == DW_REG_RSP)
        eh_set_register_sigsafe(state, reg, initial->rsp.how, initial->rsp.value);
}

static void eh_set_register_expression_sigsafe(struct eh_state *state, u64 reg, struct eh_reader block)
{
    struct eh_expression expression = eh_parse_expression_sigsafe(block);
    enum eh_how how = EH_OTHER;
    if (expression.form == EH_FORM_REG && expression.reg == DW_REG_RBP)
        how = EH_AT_RBP;
    else if (expression.form == EH_FORM_REG && expression.reg == DW_REG_RSP && expression.off == EH_UCONTEXT_RIP_OFFSET)
        how = EH_IN_UCONTEXT;
    eh_set_register_sigsafe(state, reg, how, expression.off);
}

static void eh_set_cfa_sigsafe(struct eh_state *state, u64 reg, int off)
{
    state->cfa_is_expression = 0;
    state->cfa_reg = reg > DW_LAST_GENERAL_REG ? DW_REG_RA : (u32)reg;
    state->cfa_off = off;
    state->rule = 0;
}

/*
 * Fill the CFA part of `rule`; CFA_UNSUPPORTED if it cannot be expressed. The unwinder takes the CFA as the caller's
 * rsp, as the ABI defines it, so a state with another rule for rsp can be expressed only if nothing else depends on its
 * CFA: longjmp, about to jump, has rsp and RA in registers.
 */
static void eh_rule_cfa_sigsafe(const struct eh_state *state, struct unwind_rule *rule)
{
    u32 form = EH_FORM_REG, reg = state->cfa_reg;
    rule->cfa_off = state->cfa_off;
    if (state->cfa_is_expression) {
        form = state->cfa_expression.form;
        reg = state->cfa_expression.reg;
        rule->cfa_off = form == EH_FORM_PLT ? 0 : state->cfa_expression.off;
        rule->extra = state->cfa_expression.extra;
    }
    if (state->rsp.how > EH_UNDEFINED) {
        if (state->rsp.how != EH_IN_REGISTER || state->ra.how != EH_IN_REGISTER || state->rbp.how == EH_AT_CFA)
            form = EH_FORM_OTHER;
        else {
            form = EH_FORM_REG;
            reg = (u32)state->rsp.value;
            rule->cfa_off = 0;
            rule->extra = 0;
        }
    }
    if (form == EH_FORM_PLT)
        rule->cfa_kind = CFA_PLT;
    else if (form == EH_FORM_OTHER || reg > DW_LAST_GENERAL_REG)
        rule->cfa_kind = CFA_UNSUPPORTED;
    else if (form == EH_FORM_INDEXED) {
        rule->cfa_kind = CFA_DEREF_INDEXED;
        rule->cfa_reg = (u8)reg;
    } else if (reg == DW_REG_RSP)
        rule->cfa_kind = form == EH_FORM_REG ? CFA_RSP : CFA_DEREF_RSP;
    else if (reg == DW_REG_RBP)
        rule->cfa_kind = form == EH_FORM_REG ? CFA_RBP : CFA_DEREF_RBP;
    else {
        rule->cfa_kind = form == EH_FORM_REG ? CFA_REG : CFA_DEREF_REG;
        rule->cfa_reg = (u8)reg;
    }
}

static void eh_rule_registers_sigsafe(const struct eh_state *state, struct unwind_rule *rule)
{
    switch (state->rbp.how) {
    case EH_SAME:
        rule->rbp_kind = RBP_SAME;
        break;
    case EH_AT_CFA:
        rule->rbp_kind = RBP_SAVED;
        rule->rbp_off = state->rbp.value;
        break;
    case EH_AT_RBP:
        rule->rbp_kind = RBP_DEREF;
        rule->rbp_off = state->rbp.value;
        break;
    default:
        rule->rbp_kind = RBP_UNDEFINED;
    }
    switch (state->ra.how) {
    case EH_AT_CFA:
        rule->ra_kind = RA_AT_CFA;
        rule->ra_off = state->ra.value;
        break;
    case EH_UNDEFINED:
        rule->ra_kind = RA_UNDEFINED;
        break;
    case EH_IN_REGISTER:
        rule->ra_kind = state->ra.value <= DW_LAST_GENERAL_REG ? RA_REG : RA_UNSUPPORTED;
        rule->ra_off = state->ra.value <= DW_LAST_GENERAL_REG ? state->ra.value : 0;
        break;
    default:
        rule->ra_kind = RA_UNSUPPORTED;
    }
}

/* Bounds the search if offsets were chosen to collide; at half load real ones need fewer than ten probes. */
#define RULE_PROBES 256

/* Find `rule` in the table. Returns its index + 1; 0 if it is new, with `*empty` where it belongs, or RULE_HASH_SLOTS if
 * there is no place for it. */
static u32 eh_find_rule_sigsafe(const struct rule_table *table, const struct unwind_rule *rule, u32 *empty)
{
    u32 kinds = rule->cfa_kind | (u32)rule->rbp_kind << 4 | (u32)rule->ra_kind << 8 |
                         (u32)rule->cfa_reg << 12;
    u32 hash = kinds * 0x9e3779b1U + (u32)rule->cfa_off * 0x85ebca6bU + (u32)rule->rbp_off * 0xc2b2ae35U +
                        (u32)rule->ra_off * 0x27d4eb2fU + (u32)rule->extra * 0x165667b1U;
    u32 slot = (hash ^ hash >> 15) & (RULE_HASH_SLOTS - 1), probes = 0;
    for (; load_acquire_u32(&table->hash[slot]); slot = (slot + 1) & (RULE_HASH_SLOTS - 1)) {
        const struct unwind_rule *known = &table->rules[table->hash[slot] - 1];
        if (known->cfa_off == rule->cfa_off && known->rbp_off == rule->rbp_off && known->ra_off == rule->ra_off &&
            known->extra == rule->extra && known->cfa_kind == rule->cfa_kind && known->rbp_kind == rule->rbp_kind &&
            known->ra_kind == rule->ra_kind && known->cfa_reg == rule->cfa_reg)
            return table->hash[slot];
        if (++probes > RULE_PROBES)
            break;
    }
    *empty = table->count >= MAX_RULES || probes > RULE_PROBES ? RULE_HASH_SLOTS : slot;
    return 0;
}

/* Return the index of `rule` in the table, added if new; 0 if there is no room, or another thread adds one. */
static u32 eh_intern_rule_sigsafe(struct rule_table *table, const struct unwind_rule *rule, struct cfi_result *result)
{
    u32 slot, tries = 0, number = eh_find_rule_sigsafe(table, rule, &slot);
    if (number)
        return number - 1;
    while (!try_lock_sigsafe(&table->lock)) {
        if (++tries == result->lock_tries) {
            result->rules_busy = 1;
            return 0;
        }
        cpu_pause_sigsafe();
    }
    number = eh_find_rule_sigsafe(table, rule, &slot);
    if (!number && slot < RULE_HASH_SLOTS) {
        table->rules[table->count] = *rule;
        number = ++table->count;
        store_release_u32(&table->hash[slot], number);
    }
    store_release_u32(&table->lock, 0);
    result->rules_full |= !number;
    return number ? number - 1 : 0;
}

static u32 eh_state_rule_sigsafe(const struct eh_state *state, int is_signal_frame, struct rule_table *table,
                                 struct cfi_result *result)
{
    struct unwind_rule rule = {CFA_NONE, RBP_SAME, RA_AT_CFA, 0, 0, 0, 0, 0};
    if (is_signal_frame && state->ra.how == EH_IN_UCONTEXT) {
        rule.cfa_kind = CFA_SIGNAL;
        return eh_intern_rule_sigsafe(table, &rule, result);
    }
    eh_rule_cfa_sigsafe(state, &rule);
    eh_rule_registers_sigsafe(state, &rule);
    if (rule.cfa_kind == CFA_UNSUPPORTED || rule.ra_kind == RA_UNSUPPORTED) {
        /* One rule for all of them; but a frame can be known as the root without its CFA. */
        struct unwind_rule unsupported = {CFA_UNSUPPORTED, RBP_UNDEFINED, RA_UNSUPPORTED, 0, 0, 0, 0, 0};
        if (rule.ra_kind == RA_UNDEFINED)
            unsupported.ra_kind = RA_UNDEFINED;
        rule = unsupported;
    }
    return eh_intern_rule_sigsafe(table, &rule, result);
}
