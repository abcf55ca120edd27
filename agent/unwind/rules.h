/*
 * Unwind rules and rows: cfi.c compiles .eh_frame into them, and unwind.c interprets them.
 *
 * A rule says, for one range of code, how to get from a frame to its caller: first the canonical frame address (CFA),
 * then the return address (RA) and the caller's rbp. DWARF 5 section 6.4; System V ABI AMD64 section 3.7 for register
 * numbers (rbp 6, rsp 7, RA 16). All other registers are ignored: no caller's rule in real code needs them (see CFA_REG
 * for leaves).
 */
#ifndef FLAMETAP_RULES_H
#define FLAMETAP_RULES_H

enum cfa_kind {
    CFA_NONE = 0,          /* no unwind information for this code: the gap between two FDEs */
    CFA_RSP = 1,           /* CFA = rsp + cfa_off */
    CFA_RBP = 2,           /* CFA = rbp + cfa_off */
    CFA_REG = 3,           /* CFA = register cfa_reg + cfa_off; valid in the leaf frame only, where all are known */
    CFA_DEREF_RSP = 4,     /* CFA = *(rsp + cfa_off) + extra */
    CFA_DEREF_RBP = 5,     /* CFA = *(rbp + cfa_off) + extra */
    CFA_DEREF_REG = 6,     /* CFA = *(register cfa_reg + cfa_off) + extra; leaf only */
    CFA_PLT = 7,           /* CFA = rsp + 8 + ((pc & 15) >= extra ? 8 : 0): lazy PLT entries */
    CFA_SIGNAL = 8,        /* a signal trampoline (augmentation 'S'): registers are in the ucontext at rsp */
    CFA_UNSUPPORTED = 9,   /* a rule that is not interpreted */
    CFA_DEREF_INDEXED = 10, /* CFA = *(rsp + cfa_off + 8 * register cfa_reg) + extra; leaf only (bignum code) */
};

enum rbp_kind {
    RBP_SAME = 0,          /* unchanged */
    RBP_SAVED = 1,         /* at CFA + rbp_off */
    RBP_UNDEFINED = 2,     /* lost: treat as unknown */
    RBP_DEREF = 3,         /* *(rbp + rbp_off): an expression on rbp itself, as in realigned frames (GCC DRAP) */
};

enum ra_kind {
    RA_AT_CFA = 0,         /* at CFA + ra_off, nearly always -8 */
    RA_UNDEFINED = 1,      /* this is the outermost frame: the root of the stack */
    RA_UNSUPPORTED = 2,
    RA_REG = 3,            /* in register ra_off; leaf only (vfork keeps it in rdi) */
};

/* 20 bytes. Rule 0 of every table is the CFA_NONE rule. Rules are shared by all modules. */
struct unwind_rule {
    unsigned char cfa_kind;
    unsigned char rbp_kind;
    unsigned char ra_kind;
    unsigned char cfa_reg;        /* DWARF register number */
    int cfa_off;
    int rbp_off;
    int ra_off;
    int extra;
};

#define MAX_RULES 65535

/* Append-only, so that it is searched without the lock; `hash` holds rule index + 1 at the slot of the rule's hash, open
 * addressing, 0 = empty. */
#define RULE_HASH_SLOTS 131072
struct rule_table {
    volatile unsigned int lock;
    volatile unsigned int count;
    struct unwind_rule rules[MAX_RULES];
    unsigned int hash[RULE_HASH_SLOTS];
};

/* A row: `rule` applies from file_addr base + pc_offset up to the next row. Rows are sorted by pc_offset, without
 * duplicates; neighbours differ in rule; a gap between FDEs has a row with rule 0; the last row is always rule 0. */
struct cfi_row {
    unsigned int pc_offset;
    unsigned int rule;
};

#endif
