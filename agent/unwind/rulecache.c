/*
 * Find the unwind rule for a pc: the map of code, the rows of its module, and a cache of both. All of this may run in
 * the handler: no libc, no allocation, bounded loops.
 */

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

/* Return the readable and writable mapping that contains `sp`; 0 if none is known. */
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

/*
 * The cache of rules by pc. An entry is one u64 {pc >> 16 : 32, generation : 8, rule : 24}, read and written whole, so
 * that handlers on several threads share the cache without a lock. The index combines bits 16..31 with bits 0..15;
 * together with the tag it identifies the pc.
 *
 * Nine of ten rules are CFA = rsp|rbp + n, RA at CFA-8, rbp unchanged or saved close below the CFA. Those are packed
 * into the entry, so that a step touches only one cache line and the stack:
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

/* Return the registered object with the code at `pc`; 0 if there is none. */
static const struct registered_object *registered_of_sigsafe(const struct agent *a, u64 pc)
{
    u32 count = load_acquire_u32(&a->registered_count), i;
    for (i = 0; i < count; i++)
        if (pc >= a->registered[i].start && pc < a->registered[i].end)
            return &a->registered[i];
    return (const struct registered_object *)0;
}

/* Return the rule for code without a file; RULE_JIT if its compiler has registered none. It is not cached: the code may be
 * replaced. */
static u32 registered_rule_sigsafe(struct agent *a, u64 pc)
{
    const struct registered_object *object = registered_of_sigsafe(a, pc);
    const struct cfi_table *table = object ? object->table : (const struct cfi_table *)0;
    u64 offset = object ? pc - object->start : 0;
    u32 rule = 0;
    if (!object)
        a->want_registered = 1;
    if (table && offset >= table->rows[0].pc_offset && offset < 0xffffffffULL)
        rule = table->rows[last_before_sigsafe(table->rows, table->row_count, (u32)offset)].rule;
    return rule ? rule : RULE_JIT;
}

/* Return the rule for `pc`: a rule number, 0 (no CFI there), or RULE_NOT_READY, RULE_JIT or RULE_NO_CODE. */
static u32 rule_for_sigsafe(struct agent *a, const struct memory_map *map, u64 pc)
{
    u64 tag = pc >> 16;
    u32 index = cache_index_sigsafe(pc);
    u32 generation = a->cache_generation & 0xff;
    u64 entry = a->rule_cache[index];
    const struct code_range *range;
    struct rows_view view;
    enum rows_found found;
    struct module *m;
    u32 rule, searched;

    if (entry >> 32 == tag && ((entry >> 24) & 0xff) == generation && !(entry & PACKED))
        return (u32)entry & 0xffffff;
    range = code_range_sigsafe(map, pc);
    if (!range) {
        a->want_refresh = 1;
        return RULE_NO_CODE;
    }
    if (!range->module)
        return registered_rule_sigsafe(a, pc);
    m = &a->modules[range->module];
    if (m->state == MODULE_RAW) {
        m->wanted = 1;
        a->want_modules = 1;
        return RULE_NOT_READY;
    }
    searched = load_acquire_u32(&m->file_searched); /* before the look-up: see module_compile */
    found = m->state == MODULE_READY ? rows_around_sigsafe(a, m, pc, &view) : ROWS_NONE;
    if (found == ROWS_NOT_READY)
        return RULE_NOT_READY;
    rule = found == ROWS_HERE ? view.rows[view.at].rule : 0;
    if (!rule && !searched) {
        m->wanted = WANTED_FROM_FILE;
        a->want_modules = 1;
        return RULE_NOT_READY;
    }
    if (tag >> 32 == 0)
        a->rule_cache[index] = tag << 32 | (u64)generation << 24 | rule_pack_sigsafe(&a->rules->rules[rule], rule);
    return rule;
}
