/*
 * .eh_frame → rows (implemented in cfi.c). Runs on normal threads only.
 */
#ifndef FLAMETAP_CFI_H
#define FLAMETAP_CFI_H

struct cfi_input {
    const unsigned char *section;         /* copy of .eh_frame; need not end with a zero terminator */
    unsigned long long section_bytes;
    unsigned long long section_file_addr; /* address of its first byte as linked */
    unsigned long long text_start;        /* executable part of the module, file_addr: FDEs outside are ignored */
    unsigned long long text_end;          /* at most 4 GiB above text_start */
};

struct cfi_result {
    unsigned int row_count;               /* rows written */
    unsigned int fde_count;
    unsigned int bad_fde_count;           /* FDEs skipped because malformed: their code gets rule 0 */
    unsigned int unsupported_row_count;
    unsigned int rules_full;              /* 1: the rule table had no room; such rows are rule 0 */
};

/*
 * Rows that the section may need at most (a cheap over-estimate from one pass over it), so that the caller can allocate.
 * 0 if there is no usable FDE.
 */
unsigned int cfi_row_limit(const struct cfi_input *input);

/*
 * Compile. `rows` has room for `row_limit` rows (as given by cfi_row_limit); pc_offset is relative to text_start;
 * `scratch` is working memory of cfi_scratch_bytes(input) bytes. New rules are added to `table`, never removed.
 * Never reads outside the section, whatever it holds. Returns 0, or -1 if nothing usable was found.
 */
unsigned long long cfi_scratch_bytes(const struct cfi_input *input);
int cfi_compile(const struct cfi_input *input, struct rule_table *table, struct cfi_row *rows, unsigned int row_limit,
                void *scratch, struct cfi_result *result);

#endif
