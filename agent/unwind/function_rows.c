/*
 * The rows around an address. Those of a function are compiled when a stack contains the function for the first time, by
 * whichever thread meets it: a stack needs some tens of functions, and a program has 100 000.
 *
 * All of this may run in the handler: no libc, no allocation, bounded loops. Its one lock is never waited for: who cannot
 * have it within some microseconds goes without the rows, and has the stack taken again.
 */

#define FUNCTION_HAS_ROWS 0x80000000U     /* in rows_at */
#define FUNCTION_RECORD_BYTES 16384       /* of the longest FDE that is compiled here; most have 30 */
#define FUNCTION_FIRST_BYTES 256          /* read at once */
#define FUNCTION_CIE_BYTES 256
#define FUNCTION_STACK_BYTES 2048         /* build.py checks it */
#define KNOWN_CIES 64
#define FUNCTION_LOCK_TRIES 400           /* 20 us: ten times as long as a function takes */

/* Working memory. The thread that has the lock uses it. */
struct function_scratch {
    u8 stack[FUNCTION_STACK_BYTES];       /* an alternate signal stack has no room for this */
    const struct module *module;
    struct cfi_table *table;
    struct function_entry *entry;         /* the function to compile */
    u8 record[FUNCTION_RECORD_BYTES];
    u8 cie_record[FUNCTION_CIE_BYTES];
    struct eh_state saved[EH_STATE_DEPTH];
    struct known_cie {
        u64 file_addr;
        u32 module_id;                    /* 0: none */
        struct eh_cie cie;
    } cies[KNOWN_CIES];
};

/* Rows of one function, or of all of a module, and the one that holds for an address. */
struct rows_view {
    const struct cfi_row *rows;
    u32 count;
    u32 at;
};

enum rows_found { ROWS_NONE = 0, ROWS_HERE = 1, ROWS_NOT_READY = 2 };

static u32 rows_lock_sigsafe(struct agent *a)
{
    u32 tries;
    for (tries = 0; tries < FUNCTION_LOCK_TRIES; tries++) {
        if (try_lock_sigsafe(&a->rows_lock))
            return 1;
        cpu_pause_sigsafe();
    }
    return 0;
}

static void rows_unlock_sigsafe(struct agent *a)
{
    store_release_u32(&a->rows_lock, 0);
}

/* Copy the record at `file_addr`. Returns its bytes; 0 if it cannot be read or has not so much room. */
static u32 record_read_sigsafe(const struct agent *a, const struct module *m, u64 file_addr, u8 *to, u32 room)
{
    u64 runtime_addr = file_addr + m->image_bias, first = room < FUNCTION_FIRST_BYTES ? room : FUNCTION_FIRST_BYTES;
    i64 got = read_memory_sigsafe(a, runtime_addr, to, first);
    u64 bytes = got >= 8 ? *(const u32 *)to + 4ULL : 0; /* 64-bit records, which linkers do not write, are too long */
    if (bytes < 8 || bytes > room || (bytes > first && read_memory_sigsafe(a, runtime_addr, to, bytes) != (i64)bytes))
        return 0;
    return bytes > first || got >= (i64)bytes ? (u32)bytes : 0;
}

/* Return the CIE at `file_addr`; 0 if it cannot be read. Context: signal, with the lock. */
static const struct eh_cie *cie_known_sigsafe(struct agent *a, const struct module *m, u64 file_addr)
{
    struct function_scratch *scratch = a->function_scratch;
    struct known_cie *known = &scratch->cies[(file_addr >> 3 ^ m->module_id * 7) % KNOWN_CIES];
    u32 bytes;
    if (known->module_id == m->module_id && known->file_addr == file_addr)
        return &known->cie;
    known->module_id = 0;
    bytes = record_read_sigsafe(a, m, file_addr, scratch->cie_record, FUNCTION_CIE_BYTES);
    if (!bytes || *(const u32 *)(scratch->cie_record + 4))
        return (const struct eh_cie *)0;
    struct cfi_input input = {scratch->cie_record, bytes, file_addr, m->text_start, m->text_end, 0};
    struct cfi_result result = {0, 0, 0, 0, 0, FUNCTION_LOCK_TRIES, 0};
    struct eh_output output = {&input, a->rules, (struct cfi_row *)0, 0, 0, &result, scratch->saved};
    struct eh_reader body = {scratch->cie_record + 8, scratch->cie_record + bytes, 0};
    known->cie.is_usable = eh_parse_cie_sigsafe(&output, body, &known->cie);
    known->file_addr = file_addr;
    known->module_id = m->module_id;
    return &known->cie;
}

/* Compile a function's rows behind those that there are. Sets its rows_at, unless that cannot be done here. Context: signal,
 * with the lock, on a stack of its own. */
static void function_compile_sigsafe(struct agent *a)
{
    struct function_scratch *scratch = a->function_scratch;
    const struct module *m = scratch->module;
    struct cfi_table *table = scratch->table;
    struct function_entry *entry = scratch->entry;
    u64 file_addr = table->section_file_addr + entry->rows_at, order;
    u32 bytes = record_read_sigsafe(a, m, file_addr, scratch->record, FUNCTION_RECORD_BYTES);
    u32 back = bytes ? *(const u32 *)(scratch->record + 4) : 0, at = table->row_count, stop;
    const struct eh_cie *cie = back ? cie_known_sigsafe(a, m, file_addr + 4 - back) : (const struct eh_cie *)0;
    if (!cie || at + 2 > table->row_limit)
        return;
    struct cfi_input input = {scratch->record, bytes, file_addr, m->text_start, m->text_end, 0};
    struct cfi_result result = {0, 0, 0, 0, 0, FUNCTION_LOCK_TRIES, 0};
    struct eh_output output = {&input, a->rules, table->rows + at + 1, table->row_limit - at - 1, 0, &result, scratch->saved};
    struct eh_reader body = {scratch->record + 8, scratch->record + bytes, 0};
    struct eh_fde fde;
    struct eh_index index = {(struct eh_cie *)cie, 1, &fde, 0, &order, (u64 *)0};
    if (cie->is_usable && eh_add_fde_sigsafe(&index, &input, body, 0)) {
        if (!index.fde_count || fde.start != entry->start)
            return;                       /* the table and the section contradict each other */
        stop = fde.start + fde.bytes;
        if (entry + 1 < table->functions + table->function_count && entry[1].start < stop)
            stop = entry[1].start;
        eh_compile_fde_sigsafe(&index, &fde, stop, &output);
        eh_emit_sigsafe(&output, stop, 0);
    }
    if (output.rows_full || result.rules_busy)
        return;
    table->rows[at].pc_offset = result.row_count;
    table->row_count = at + 1 + result.row_count;
    a->function_rows += result.row_count;
    store_release_u32(&entry->rows_at, at | FUNCTION_HAS_ROWS);
}

/* Compile the rows of a function, unless another thread has done so. Context: signal. */
static void function_prepare_sigsafe(struct agent *a, struct module *m, struct cfi_table *table, struct function_entry *entry)
{
    struct function_scratch *scratch = a->function_scratch;
    if (table->is_closed || !rows_lock_sigsafe(a))
        return;
    if (!(entry->rows_at & FUNCTION_HAS_ROWS)) {
        scratch->module = m;
        scratch->table = table;
        scratch->entry = entry;
        call_on_stack_sigsafe(function_compile_sigsafe, a, scratch->stack + FUNCTION_STACK_BYTES);
        if (!(entry->rows_at & FUNCTION_HAS_ROWS)) {
            m->wanted = WANTED_WHOLE;
            a->want_modules = 1;
        }
    }
    rows_unlock_sigsafe(a);
}

/* Return the last of `count` rows or functions that begins at `offset` or before; the first if none does. Both begin with
 * the offset, and have eight bytes. */
static u32 last_before_sigsafe(const struct cfi_row *rows, u32 count, u32 offset)
{
    u32 low = 0, high = count;
    while (high - low > 1) {
        u32 middle = (low + high) / 2;
        if (rows[middle].pc_offset <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/*
 * Find the rows around `pc`: of its function and the gap behind it, or of the whole module. Context: signal; `m` has been
 * seen to be ready, and the sampler may take its rows away at any moment, but keeps them in memory.
 */
static enum rows_found rows_around_sigsafe(struct agent *a, struct module *m, u64 pc, struct rows_view *view)
{
    u32 offset = (u32)(pc - m->load_bias - m->text_start);
    enum rows_found found = ROWS_NONE;
    struct cfi_table *table;
    for (table = m->table; table; table = table->more) {
        const struct cfi_row *rows = table->rows;
        u32 count = table->row_count, at;
        if (table->function_count) {
            struct function_entry *entry =
                table->functions + last_before_sigsafe((const struct cfi_row *)table->functions, table->function_count, offset);
            if (offset < entry->start)
                continue;
            if (!(entry->rows_at & FUNCTION_HAS_ROWS))
                function_prepare_sigsafe(a, m, table, entry);
            if (!(entry->rows_at & FUNCTION_HAS_ROWS)) {
                if (table->is_closed)
                    continue;
                return ROWS_NOT_READY;
            }
            rows += (entry->rows_at & ~FUNCTION_HAS_ROWS) + 1;
            count = rows[-1].pc_offset;
        }
        if (!count || offset < rows->pc_offset)
            continue;
        at = last_before_sigsafe(rows, count, offset);
        if (found == ROWS_HERE && !rows[at].rule)
            continue;
        view->rows = rows;
        view->count = count;
        view->at = at;
        found = ROWS_HERE;
        if (rows[at].rule)
            break;
    }
    return found;
}
