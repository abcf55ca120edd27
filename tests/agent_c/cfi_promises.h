/*
 * What agent/unwind/cfi.h promises of rows, whatever the section holds; checked by cfi_driver.c and the fuzzer. Aborts on a
 * broken promise. Included behind the agent's sources.
 */
#ifndef CFI_PROMISES_H
#define CFI_PROMISES_H

#include "require.h"

struct run {
    int code;
    unsigned int row_limit;
    struct cfi_row *rows;
    struct cfi_result result;
};

static void check_promises(const struct cfi_input *input, const struct rule_table *table, const struct run *run)
{
    const struct cfi_row *rows = run->rows;
    unsigned int count = run->result.row_count;
    require(count <= run->row_limit, "at most cfi_row_limit rows");
    require(table->count <= MAX_RULES, "at most MAX_RULES rules");
    if (run->code) {
        require(count == 0, "-1 only if nothing usable was found, as cfi_row_limit is enough");
        return;
    }
    require(count >= 2 && rows[count - 1].rule == 0, "the last row is rule 0");
    require(rows[0].rule != 0, "the first row has a rule");
    for (unsigned int i = 0; i < count; i++) {
        require(rows[i].rule < table->count, "a row's rule exists");
        require(rows[i].pc_offset <= input->text_end - input->text_start, "rows lie in the text");
        require(i == 0 || rows[i - 1].pc_offset < rows[i].pc_offset, "rows are sorted, no two alike");
        require(i == 0 || rows[i - 1].rule != rows[i].rule, "neighbours differ");
    }
}

#endif
