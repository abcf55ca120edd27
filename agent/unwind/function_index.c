/*
 * Tables whose rows are compiled a function at a time (function_rows.c): made from the sorted table of functions in
 * .eh_frame_hdr. Sampler thread only.
 *
 * Sources: Linux Standard Base 5.0 Core, 10.6.2.
 */

#define HDR_TABLE_BYTES_MAX (64ULL << 20)
#define ROWS_PER_FUNCTION 4               /* room for rows of all functions; pages that are never used cost nothing */
#define ROWS_LEAST 4096
#define PAGES_READ 64                     /* at a time */
#define AFTER_LAST_BYTES 65536            /* read behind the last FDE's start */

/* Turn entries of .eh_frame_hdr into functions, in place: both addresses are relative to the header. Returns their number,
 * and in `*last` the highest offset of an FDE; 0 if the entries are not what function_rows.c needs. */
static u32 functions_convert(const struct module *m, struct function_entry *functions, u32 count, u64 *last)
{
    u32 i, kept = 0;
    for (i = 0; i < count; i++) {
        u64 start = m->eh_frame_hdr + (u64)(i64)(i32)functions[i].start;
        u64 record = m->eh_frame_hdr + (u64)(i64)(i32)functions[i].rows_at - m->eh_frame;
        if (start < m->text_start || start >= m->text_end)
            continue;                     /* in another part of the file */
        if (record >= FUNCTION_HAS_ROWS || record >= m->eh_frame_limit - m->eh_frame || start - m->text_start >= 0xffffffffULL)
            return 0;
        *last = record > *last ? record : *last;
        start -= m->text_start;
        if (kept && (u32)start < functions[kept - 1].start)
            return 0;
        /* One of two FDEs with the same start is that of an empty function, which stands before the other. */
        if (kept && (u32)start == functions[kept - 1].start) {
            if ((u32)record > functions[kept - 1].rows_at)
                functions[kept - 1].rows_at = (u32)record;
            continue;
        }
        functions[kept].start = (u32)start;
        functions[kept++].rows_at = (u32)record;
    }
    return kept;
}

/* Read a byte of each page, so that it is in memory: a handler must not wait for a disk. */
static void pages_fetch(const struct agent *a, u64 runtime_addr, u64 limit)
{
    struct io_vector remote[PAGES_READ], local;
    u8 bytes[PAGES_READ];
    runtime_addr &= ~(PAGE_BYTES - 1);
    while (runtime_addr < limit) {
        u32 count = 0;
        for (; count < PAGES_READ && runtime_addr < limit; count++, runtime_addr += PAGE_BYTES) {
            remote[count].base = runtime_addr;
            remote[count].bytes = 1;
        }
        local.base = (u64)bytes;
        local.bytes = count;
        if (permitted_call(a, NR_PROCESS_VM_READV, a->pid, (u64)&local, 1, (u64)remote, count) != (i64)count)
            return;
    }
}

/* Return a table without rows yet; 0 if the module has no such .eh_frame_hdr. */
static struct cfi_table *table_by_functions(struct agent *a, const struct module *m)
{
    u8 head[12];
    u32 count;
    u64 hdr = m->eh_frame_hdr + m->image_bias, bytes, last = 0;
    struct cfi_table *table;
    /* Version, then how the pointer to .eh_frame, the number of entries, and entries are encoded: each in four bytes. */
    if (!m->eh_frame || !m->eh_frame_hdr || read_memory(a, hdr, head, sizeof head) != sizeof head ||
        head[0] != 1 || (head[1] & 7) != EH_PE_UDATA4 || head[2] != EH_PE_UDATA4 ||
        head[3] != (EH_PE_DATAREL | EH_PE_SDATA4))
        return (struct cfi_table *)0;
    count = *(u32 *)(head + 8);
    if (!count || (u64)count * sizeof(struct function_entry) > HDR_TABLE_BYTES_MAX)
        return (struct cfi_table *)0;
    bytes = (u64)count * sizeof(struct function_entry);
    table = table_new(a, count * ROWS_PER_FUNCTION + ROWS_LEAST, count);
    if (!table)
        return table;
    if (read_memory(a, hdr + sizeof head, table->functions, bytes) == (i64)bytes)
        table->function_count = functions_convert(m, table->functions, count, &last);
    if (!table->function_count) {
        table_free(a, table);
        return (struct cfi_table *)0;
    }
    table->section_file_addr = m->eh_frame;
    last += m->eh_frame + AFTER_LAST_BYTES;
    pages_fetch(a, m->eh_frame + m->image_bias, (last < m->eh_frame_limit ? last : m->eh_frame_limit) + m->image_bias);
    return table;
}
