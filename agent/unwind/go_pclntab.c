/*
 * Compile Go's table of functions into rows. Go programs have no .eh_frame for their own code, but a table, .gopclntab,
 * by which their runtime unwinds: for every pc, by how much the stack pointer has moved since the function was entered.
 * It is mapped, and kept when a program is stripped. Formats of Go 1.18 and 1.20. Sampler thread only. Since Go 1.26
 * the table no longer contains the start of the code; the runtime's moduledata does, which has a section of its own
 * since then.
 *
 * Functions that the table marks as the top of a stack are roots. So are functions that move to another stack and leave
 * no frame on the one they came from (mcall, systemstack, calls into C): the frame above them is not their caller.
 *
 * The bytes are not trusted: every read is bounds-checked, and the work is linear in the number of functions and
 * values. Sources: go/src/debug/gosym/pclntab.go, go/src/runtime/symtab.go and runtime2.go (struct _func),
 * traceback.go.
 */

#define GO_MAGIC_1_18 0xfffffff0U
#define GO_MAGIC_1_20 0xfffffff1U
#define GO_HEADER_BYTES 72
#define GO_FUNCTIONS_MAX (4U << 20)
#define GO_MODULE_TEXT 176                /* offset of `text` in the runtime's moduledata */
#define GO_TOP_OF_STACK 1                 /* abi.FuncFlagTopFrame */
#define GO_WRITES_SP 2                    /* abi.FuncFlagSPWrite */
#define GO_PREEMPTION "runtime.asyncPreempt"

struct go_table {
    const u8 *data;
    u64 bytes;
    u64 text;                             /* file_addr to which functions are relative */
    u64 names, values, functions;         /* offsets of the parts */
    u32 count;
    u32 flag_offset;                      /* offset of the flags in a function's record */
};

static u32 go_u32(const struct go_table *t, u64 at)
{
    if (at > t->bytes || t->bytes - at < 4)
        return 0;
    return t->data[at] | (u32)t->data[at + 1] << 8 | (u32)t->data[at + 2] << 16 | (u32)t->data[at + 3] << 24;
}

static u64 go_u64(const struct go_table *t, u64 at)
{
    return go_u32(t, at) | (u64)go_u32(t, at + 4) << 32;
}

/* Return whether these bytes begin with a table. `text` is the start of the code if the table does not contain it. The
 * image's bias may have been added to both. */
static u32 go_table_open(struct go_table *t, const u8 *data, u64 bytes, const struct module *m, u64 text)
{
    u32 magic;
    t->data = data;
    t->bytes = bytes;
    magic = go_u32(t, 0);
    /* Two zeros, code in steps of one byte, pointers of eight. */
    if ((magic != GO_MAGIC_1_18 && magic != GO_MAGIC_1_20) || go_u32(t, 4) != 0x08010000 || bytes < GO_HEADER_BYTES)
        return 0;
    t->flag_offset = magic == GO_MAGIC_1_18 ? 37 : 41;
    t->text = go_u64(t, 24);
    if (!t->text)
        t->text = text;
    if (t->text >= m->text_start + m->image_bias && t->text < m->text_end + m->image_bias)
        t->text -= m->image_bias;
    t->names = go_u64(t, 32);
    t->values = go_u64(t, 56);
    t->functions = go_u64(t, 64);
    if (go_u64(t, 8) > GO_FUNCTIONS_MAX || t->names >= bytes || t->values >= bytes || t->functions >= bytes)
        return 0;
    t->count = (u32)go_u64(t, 8);
    return t->text >= m->text_start && t->text < m->text_end && (bytes - t->functions) / 8 > t->count;
}

/* Return whether the name at `offset` begins with `what`. */
static u32 go_name_begins(const struct go_table *t, u64 offset, const char *what)
{
    u64 at = t->names + offset, i;
    for (i = 0; what[i]; i++)
        if (at + i >= t->bytes || t->data[at + i] != (u8)what[i])
            return 0;
    return 1;
}

/* Read a base-128 number of at most five bytes; 0, with `*at` at the end, if there is none. */
static u32 go_varint(const struct go_table *t, u64 *at)
{
    u32 value = 0, shift;
    for (shift = 0; shift < 35; shift += 7) {
        u32 byte;
        if (*at >= t->bytes)
            break;
        byte = t->data[(*at)++];
        value |= (byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
    *at = t->bytes;
    return 0;
}

/* The output. With `rows` 0, rows are only counted. */
struct go_rows {
    struct agent *agent;
    struct cfi_row *rows;
    u32 count;
    u32 last_rule;
    struct cfi_result result;             /* for the rule table */
};

static void go_row(struct go_rows *out, u64 pc_offset, const struct unwind_rule *rule)
{
    u32 number;
    if (!out->rows) {
        out->count++;
        return;
    }
    number = rule->cfa_kind == CFA_NONE ? 0 : eh_intern_rule_sigsafe(out->agent->rules, rule, &out->result);
    if (number == out->last_rule)
        return;
    /* A function may begin where the row before was to begin: a signal's return address is looked up a byte below. */
    if (out->count && out->rows[out->count - 1].pc_offset >= pc_offset)
        out->count--;
    out->rows[out->count].pc_offset = (u32)pc_offset;
    out->rows[out->count++].rule = number;
    out->last_rule = number;
}

/* A range of code in which the stack pointer does not move. */
struct go_run {
    u64 at;                               /* position of the next run's numbers */
    u64 start, end;                       /* relative to the module's text */
    i64 moved;                            /* bytes, downwards, since the function was entered */
};

/* Read the next run. Returns 0 if there is none, or if it is implausible. */
static u32 go_next_run(const struct go_table *t, struct go_run *run)
{
    u32 is_first = run->moved == -1 && run->start == run->end;
    u32 change = go_varint(t, &run->at), length;
    if (change == 0 && !is_first)
        return 0;
    length = go_varint(t, &run->at);
    run->moved += (i64)(change >> 1) ^ -(i64)(change & 1);
    run->start = run->end;
    run->end += length;
    return run->at < t->bytes && length && run->moved > -0x7fffffff && run->moved < 0x7ffffff0;
}

static struct go_run go_runs_begin(const struct go_table *t, u64 record, u64 start)
{
    struct go_run run = {t->values + go_u32(t, record + 16), start, start, -1};
    if (!go_u32(t, record + 16))          /* offset 0: no values */
        run.at = t->bytes;
    return run;
}

/* Ways to find the frames of a function. */
enum go_frames { GO_BY_RSP, GO_BY_RBP, GO_ROOT };

/*
 * A function that moves to another stack leaves rbp pointing to its frame on the old stack, if it has one there: calls
 * into the vDSO, callbacks from C. mcall keeps a word on the stack, and no rbp.
 */
static enum go_frames go_frames_of(const struct go_table *t, u64 record, u64 start, u64 end)
{
    u64 name = go_u32(t, record + 4);
    u32 flags = record + t->flag_offset < t->bytes ? t->data[record + t->flag_offset] : 0;
    struct go_run run = go_runs_begin(t, record, start);
    if (!(flags & (GO_TOP_OF_STACK | GO_WRITES_SP)) || go_name_begins(t, name, "runtime.sigtramp"))
        return GO_BY_RSP;
    if (!(flags & GO_TOP_OF_STACK) && !go_name_begins(t, name, "runtime.mcall"))
        while (run.end < end && go_next_run(t, &run))
            if (run.moved > 0)
                return GO_BY_RBP;
    return GO_ROOT;
}

/* Add the rows of the function at [start, end), relative to the module's text, whose record is at `record`. */
static void go_function_rows(const struct go_table *t, u64 record, u64 start, u64 end, struct go_rows *out)
{
    struct unwind_rule rule = {CFA_RSP, RBP_SAME, RA_AT_CFA, 0, 8, 0, -8, 0};
    struct unwind_rule none = {CFA_NONE, RBP_SAME, RA_AT_CFA, 0, 0, 0, 0, 0};
    enum go_frames frames = go_frames_of(t, record, start, end);
    struct go_run run = go_runs_begin(t, record, start);
    if (go_name_begins(t, go_u32(t, record + 4), "runtime.sigreturn")) {
        struct unwind_rule signal = {CFA_SIGNAL, RBP_SAME, RA_AT_CFA, 0, 0, 0, 0, 0};
        go_row(out, start ? start - 1 : start, &signal); /* reached by a return, not by a call */
        return;
    }
    if (frames == GO_ROOT) {
        rule.ra_kind = RA_UNDEFINED;
        go_row(out, start, &rule);
        return;
    }
    while (run.end < end && go_next_run(t, &run)) {
        u32 has_frame = run.moved > 0;
        rule.cfa_kind = has_frame && frames == GO_BY_RBP ? CFA_RBP : CFA_RSP;
        rule.cfa_off = rule.cfa_kind == CFA_RBP ? 16 : (i32)run.moved + 8;
        /* Functions with a frame keep the caller's rbp at its upper end. */
        rule.rbp_kind = has_frame ? RBP_SAVED : RBP_SAME;
        rule.rbp_off = has_frame ? -16 : 0;
        /* Below zero: it has popped its own return address. */
        go_row(out, run.start, run.moved < 0 || run.moved & 7 ? &none : &rule);
    }
    if (run.end < end)
        go_row(out, run.end, &none);
}

/* Note where the runtime's handler makes an interrupted thread call (injected_call_leave_sigsafe). `start` is relative to
 * the module's text. */
static void go_preemption_note(const struct go_table *t, const struct module *m, u64 record, u64 start, struct agent *a)
{
    u64 name = t->names + go_u32(t, record + 4), end = name + sizeof GO_PREEMPTION - 1;
    if (go_name_begins(t, name - t->names, GO_PREEMPTION) && end < t->bytes && !t->data[end])
        store_release_u64(&a->injected_entry, m->load_bias + m->text_start + start);
}

static void go_rows_of(const struct go_table *t, const struct module *m, struct go_rows *out)
{
    struct unwind_rule none = {CFA_NONE, RBP_SAME, RA_AT_CFA, 0, 0, 0, 0, 0};
    u64 bias = t->text - m->text_start, last = 0;
    u32 i;
    for (i = 0; i < t->count; i++) {
        u64 entry = t->functions + 8ULL * i;
        u64 start = bias + go_u32(t, entry), end = bias + go_u32(t, entry + 8);
        if (start < last || start >= end || end > m->text_end - m->text_start)
            continue;
        go_function_rows(t, t->functions + go_u32(t, entry + 4), start, end, out);
        go_preemption_note(t, m, t->functions + go_u32(t, entry + 4), start, out->agent);
        last = end;
    }
    go_row(out, last, &none);
}

/* Return the rows of a Go table; 0 if there are none. */
static struct cfi_table *go_compile(struct agent *a, const struct module *m, const struct go_table *t)
{
    struct go_rows out = {a, (struct cfi_row *)0, 0, 0, {0}};
    struct cfi_table *table;
    go_rows_of(t, m, &out);
    table = out.count > 1 ? table_new(a, out.count, 0) : (struct cfi_table *)0;
    if (!table)
        return table;
    out.rows = table->rows;
    out.count = 0;
    go_rows_of(t, m, &out);
    table_trim(a, table, out.count);
    return table;
}

/* Return the start of the code from moduledata, 0 if moduledata is not found. */
static u64 go_module_text(struct agent *a, const struct module *m, const struct elf_file *file)
{
    const struct elf_section *section = elf_section_find(file, ".go.module");
    u64 text = 0;
    if (section && section->addr && section->size >= GO_MODULE_TEXT + 8
        && read_memory(a, section->addr + GO_MODULE_TEXT + m->image_bias, &text, 8) != 8)
        text = 0;
    return text;
}

/* Find the table: in a section of its own, or inside another one if gcc linked the program (-buildmode=pie). */
static struct cfi_table *table_from_go(struct agent *a, const struct module *m, const struct elf_file *file)
{
    static const char sections[][24] = {".gopclntab", ".data.rel.ro.gopclntab", ".data.rel.ro"};
    struct cfi_table *table = (struct cfi_table *)0;
    struct go_table go;
    u64 text;
    u32 i;
    if (!elf_section_find(file, ".go.buildinfo"))
        return table;
    text = go_module_text(a, m, file);
    for (i = 0; i < 3 && !table; i++) {
        const struct elf_section *section = elf_section_find(file, sections[i]);
        u64 bytes = section ? section->size : 0, at;
        u8 *copy = section && section->addr && bytes <= SECTION_BYTES_MAX ? pages_new(bytes) : (u8 *)0;
        i64 got = copy ? read_memory(a, section->addr + m->image_bias, copy, bytes) : -1;
        for (at = 0; (i64)at + GO_HEADER_BYTES <= got && !table; at += 8)
            if (go_table_open(&go, copy + at, (u64)got - at, m, text))
                table = go_compile(a, m, &go);
        pages_free(copy, bytes);
    }
    return table;
}
