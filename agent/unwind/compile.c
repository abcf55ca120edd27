/*
 * Make the unwind information of modules ready for use: the mapped .eh_frame, a function at a time where it can be, and,
 * if a stack contains code that it does not cover, Go's own table and the file's .debug_frame. Sampler thread only.
 */

/* Returns 0 if the section contains nothing usable. */
static struct cfi_table *table_compile(struct agent *a, const struct cfi_input *input)
{
    u32 limit = cfi_row_limit(input);
    u64 scratch_bytes = limit ? cfi_scratch_bytes(input) : 0;
    void *scratch = scratch_bytes ? pages_new(scratch_bytes) : (void *)0;
    struct cfi_table *table = scratch ? table_new(a, limit, 0) : (struct cfi_table *)0;
    struct cfi_result result;
    if (table && cfi_compile(input, a->rules, table->rows, limit, scratch, &result) == 0) {
        table_trim(a, table, result.row_count);
    } else {
        table_free(a, table);
        table = (struct cfi_table *)0;
    }
    pages_free(scratch, scratch_bytes);
    return table;
}

/* Compile a copy of the mapped .eh_frame. */
static struct cfi_table *table_from_memory(struct agent *a, const struct module *m)
{
    u64 bytes = m->eh_frame_limit - m->eh_frame;
    u8 *copy = m->eh_frame && bytes <= SECTION_BYTES_MAX ? pages_new(bytes) : (u8 *)0;
    i64 got = copy ? read_memory(a, m->eh_frame + m->image_bias, copy, bytes) : -1;
    struct cfi_table *table = (struct cfi_table *)0;
    if (got > 0) {
        struct cfi_input input = {copy, (u64)got, m->eh_frame, m->text_start, m->text_end, 0};
        table = table_compile(a, &input);
    }
    pages_free(copy, bytes);
    return table;
}

static struct cfi_table *table_from_debug_frame(struct agent *a, const struct module *m, const struct elf_file *file)
{
    const struct elf_section *section = elf_section_find(file, ".debug_frame");
    u64 bytes = 0;
    u8 *data = section ? elf_section_read(a, file, section, &bytes) : (u8 *)0;
    struct cfi_table *table = (struct cfi_table *)0;
    if (data) {
        struct cfi_input input = {data, bytes, 0, m->text_start, m->text_end, 1};
        table = table_compile(a, &input);
    }
    pages_free(data, bytes);
    return table;
}

/* Publish `table` as the module's rows. */
static void module_publish(struct agent *a, struct module *m, struct cfi_table *table)
{
    struct cfi_table *old = m->table;
    if (table && table != old) {
        if (!old)
            count_up(a, COUNTER_CFI_MODULES, 1);
        if (!table->function_count)
            a->whole_rows += table->row_count - (old && !old->function_count ? old->row_count : 0);
        store_release_u64((volatile u64 *)&m->table, (u64)table);
        table_retire(a, old);
    }
    store_release_u32(&m->state, m->table ? MODULE_READY : MODULE_WITHOUT_CFI);
}

/* Read sections from the file that are not mapped, or not found without section headers. Once per module. */
static struct cfi_table *module_search_file(struct agent *a, struct module *m)
{
    struct cfi_table *found = (struct cfi_table *)0;
    struct elf_file file;
    if (!elf_file_open(a, m, &file))
        return found;
    if (!m->eh_frame) {
        const struct elf_section *section = elf_section_find(&file, ".eh_frame");
        if (section && section->addr) {
            m->eh_frame = section->addr;
            m->eh_frame_limit = section->addr + section->size;
            found = table_from_memory(a, m);
        }
    }
    found = table_join(a, found, table_from_go(a, m, &file));
    found = table_join(a, found, table_from_debug_frame(a, m, &file));
    elf_file_close(&file);
    return found;
}

/* Add the rows of the file to those of the module. Once for each module. */
static void module_add(struct agent *a, struct module *m, struct cfi_table *found)
{
    struct cfi_table *old = m->table, *merged;
    if (old && old->function_count) {
        if (found)
            a->whole_rows += found->row_count;
        store_release_u64((volatile u64 *)&old->more, (u64)found);
        return;
    }
    merged = table_merge(a, old, found);
    module_publish(a, m, merged);
    if (merged != found)
        table_free(a, found);
}

/* Replace functions by the rows of the whole module, because one of them cannot be compiled by itself: it is too long, or
 * its thread may not read memory. */
static void module_compile_whole(struct agent *a, struct module *m)
{
    struct cfi_table *old = m->table, *whole = table_from_memory(a, m), *merged = table_merge(a, whole, old->more);
    if (!whole) {
        old->is_closed = 1;
        return;
    }
    module_publish(a, m, merged);
    if (merged != whole)
        table_free(a, whole);
}

/* Make one module ready: mapped sections first, then its file. */
static void module_compile(struct agent *a, struct module *m)
{
    u64 started = now_ns_sigsafe();
    u32 wanted = m->wanted;
    struct cfi_table *found;
    m->wanted = 0;
    if (m->state == MODULE_RAW) {
        found = table_by_functions(a, m);
        if (!found)
            found = table_from_memory(a, m);
        if (!found && !m->file_searched) {
            found = module_search_file(a, m);
            m->file_searched = 1;
        }
        module_publish(a, m, found);
    } else if (wanted == WANTED_FROM_FILE && !m->file_searched) {
        module_add(a, m, module_search_file(a, m));
        /* Only after the table is published: handlers keep what they find in the rule cache. */
        store_release_u32(&m->file_searched, 1);
    } else if (wanted == WANTED_WHOLE && m->table && m->table->function_count && !m->table->is_closed) {
        module_compile_whole(a, m);
    }
    count_up(a, COUNTER_CFI_COMPILE_NS, now_ns_sigsafe() - started);
}

/* Retire the rows of an unmapped module. If it is mapped again, it is compiled again. */
static void module_forget(struct agent *a, struct module *m)
{
    struct cfi_table *table = m->table;
    m->gone = 1;
    m->wanted = 0;
    m->file_searched = !module_has_file(m);
    if (m->injected)
        return;
    store_release_u32(&m->state, MODULE_RAW);
    m->table = (struct cfi_table *)0;
    table_retire(a, table);
}

/* Compile the modules that stacks need. Called in every round: searches the modules only if one is needed. */
static void modules_compile_wanted(struct agent *a)
{
    u32 i;
    if (!a->want_modules)
        return;
    a->want_modules = 0;
    for (i = 1; i <= a->module_count; i++)
        if (a->modules[i].wanted)
            module_compile(a, &a->modules[i]);
}
