/*
 * Tables of rows that modules point to: create, merge, free. Sampler thread only; handlers read them meanwhile.
 *
 * A table is not changed after a module points to it. One that is replaced, or whose module was unmapped, is freed when
 * no handler can still use it.
 */

static void table_free(struct agent *a, struct cfi_table *table)
{
    while (table) {
        struct cfi_table *more = table->more;
        a->held_bytes -= table->bytes;
        pages_free(table, table->bytes);
        table = more;
    }
}

/* Return a table with room for rows and, if they are compiled one at a time, for functions. */
static struct cfi_table *table_new(struct agent *a, u32 row_limit, u32 functions)
{
    u64 rows_at = sizeof(struct cfi_table) + (u64)functions * sizeof(struct function_entry);
    u64 bytes = (rows_at + (u64)row_limit * sizeof(struct cfi_row) + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
    struct cfi_table *table = agent_pages(a, bytes);
    if (table) {
        table->bytes = bytes;
        table->row_limit = row_limit;
        table->functions = (struct function_entry *)(table + 1);
        table->rows = (struct cfi_row *)(table->functions + functions);
    }
    return table;
}

/* Free the pages after the last row: the number of rows was overestimated. */
static void table_trim(struct agent *a, struct cfi_table *table, u32 row_count)
{
    u64 used = (sizeof *table + (u64)row_count * sizeof(struct cfi_row) + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
    table->row_count = table->row_limit = row_count;
    if (table->bytes > used) {
        pages_free((u8 *)table + used, table->bytes - used);
        a->held_bytes -= table->bytes - used;
        table->bytes = used;
    }
}

/* Merge two tables of whole modules: `second` applies where `first` has no rule. Returns one of them if the other is 0;
 * `first` if there is no memory. */
static struct cfi_table *table_merge(struct agent *a, struct cfi_table *first, struct cfi_table *second)
{
    struct cfi_table *merged;
    u32 i = 0, j = 0, count = 0, first_rule = 0, second_rule = 0, rule, at;
    if (!first || !second)
        return first ? first : second;
    merged = table_new(a, first->row_count + second->row_count, 0);
    if (!merged)
        return first;
    while (i < first->row_count || j < second->row_count) {
        at = i < first->row_count ? first->rows[i].pc_offset : 0xffffffffU;
        if (j < second->row_count && second->rows[j].pc_offset < at)
            at = second->rows[j].pc_offset;
        if (i < first->row_count && first->rows[i].pc_offset == at)
            first_rule = first->rows[i++].rule;
        if (j < second->row_count && second->rows[j].pc_offset == at)
            second_rule = second->rows[j++].rule;
        rule = first_rule ? first_rule : second_rule;
        if (rule == (count ? merged->rows[count - 1].rule : 0))
            continue;
        merged->rows[count].pc_offset = at;
        merged->rows[count++].rule = rule;
    }
    table_trim(a, merged, count);
    return merged;
}

/* As table_merge; tables that are not the result are freed. */
static struct cfi_table *table_join(struct agent *a, struct cfi_table *first, struct cfi_table *second)
{
    struct cfi_table *joined = table_merge(a, first, second);
    if (first != joined)
        table_free(a, first);
    if (second != joined)
        table_free(a, second);
    return joined;
}

/* Retire a table that handlers may still use: see retired_free. */
static void table_retire(struct agent *a, struct cfi_table *table)
{
    if (!table)
        return;
    table->next_retired = a->retired_tables;
    a->retired_tables = table;
}

static void tables_free_retired(struct agent *a)
{
    while (a->retired_tables) {
        struct cfi_table *table = a->retired_tables;
        a->retired_tables = table->next_retired;
        table_free(a, table);
    }
}
