/*
 * Compile .eh_frame or .debug_frame into rows (cfi_read.c, cfi_rules.c, cfi_program.c and cfi.c). Runs on normal
 * threads only.
 */
#ifndef FLAMETAP_CFI_H
#define FLAMETAP_CFI_H

struct cfi_input {
    const unsigned char *section;         /* a copy; .eh_frame may end with a zero terminator */
    unsigned long long section_bytes;
    unsigned long long section_file_addr; /* address of its first byte as linked */
    unsigned long long text_start;        /* executable part of the module, file_addr: FDEs outside are ignored */
    unsigned long long text_end;          /* at most 4 GiB above text_start */
    unsigned int is_debug_frame;          /* 1: the records are from .debug_frame */
};

struct cfi_result {
    unsigned int row_count;               /* rows written */
    unsigned int fde_count;               /* FDEs with code in the text, including malformed programs */
    unsigned int bad_fde_count;           /* malformed FDEs, skipped: their code gets rule 0 */
    unsigned int unsupported_row_count;
    unsigned int rules_full;              /* 1: the rule table was full; such rows are rule 0 */
    unsigned int lock_tries;              /* how often a thread tries to have the rule table's lock; 0: until it has it */
    unsigned int rules_busy;              /* 1: it never had it; such rows are rule 0 */
};

/*
 * Return the most rows that the section may need, so that the caller can allocate: an overestimate from one cheap pass,
 * two to three times what is used. Best allocated by mmap, where unused rows cost nothing. 0 if there is no FDE.
 */
unsigned int cfi_row_limit(const struct cfi_input *input);

/*
 * Compile a section. `rows` has room for `row_limit` rows (from cfi_row_limit); pc_offset is relative to text_start;
 * `scratch` is working memory of cfi_scratch_bytes(input) bytes, aligned to 8. New rules are added to `table`, never
 * removed; an all-zero table gets its rule 0 first. A rule is complete before a row refers to it. Rules that cannot be
 * interpreted (RA_UNSUPPORTED included) are one rule, CFA_UNSUPPORTED; another one is CFA_UNSUPPORTED with
 * RA_UNDEFINED, the root of a stack. Never reads outside of the section. Returns 0, or -1 if nothing usable was found
 * or `row_limit` is too small.
 */
unsigned long long cfi_scratch_bytes(const struct cfi_input *input);
int cfi_compile(const struct cfi_input *input, struct rule_table *table, struct cfi_row *rows, unsigned int row_limit,
                void *scratch, struct cfi_result *result);

#endif
