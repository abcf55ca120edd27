/*
 * Compile .eh_frame or .debug_frame into rows: interpret the call frame information of one module once, for every
 * address of its code.
 *
 * The input is a copy of the section and is not trusted: every read is bounds-checked and every loop consumes input, so
 * the work is linear in the size of the section for any content (except the search for a CIE, which is binary). Steps:
 * find the records (CIEs and FDEs, one pass), sort the FDEs by address, interpret each FDE's program.
 *
 * Where FDEs overlap, the one that starts later applies from its start on; of several with the same start, the first
 * one in the section. A malformed FDE is skipped as a whole. The section ends at its first zero-length record, as for
 * libgcc (none of 2 261 binaries on one machine has records after it).
 *
 * Context: normal thread. No libc, no writable globals (they are read-only in the target).
 *
 * Sources: DWARF 5, 6.4 and 7.24; Linux Standard Base 5.0 Core, 10.6 (.eh_frame); libgcc's unwind-dw2.c for what the
 * documents do not specify.
 */

/* Alignment factors are 1 and -8 on x86-64; the bound keeps all products far from overflow. */
#define EH_FACTOR_LIMIT 65536

struct eh_fde {
    u32 start;                            /* relative to text_start */
    u32 bytes;                            /* code bytes, at least 1 */
    u32 cie;                              /* index */
    u32 program;                          /* section offsets of its instructions: start and end */
    u32 program_end;
};

/* The result of one pass over the section. All arrays are parts of the caller's scratch memory. */
struct eh_index {
    struct eh_cie *cies;                  /* in section order */
    u32 cie_count;
    struct eh_fde *fdes;                  /* in section order; only those with code in the module */
    u32 fde_count;
    u64 *order;                           /* FDEs by address: start << 32 | index */
    u64 *order_spare;                     /* same size, for the sort */
};

/* Parse the augmentation string and data of a CIE; `program` is left where its instructions begin. Returns 0 if
 * malformed. */
static int eh_parse_augmentation_sigsafe(struct eh_reader *body, const u8 *letters, struct eh_cie *cie)
{
    if (*letters == 0)
        return 1;
    if (*letters != 'z')
        return 0;
    cie->has_augmentation_data = 1;
    struct eh_reader data = eh_read_block_sigsafe(body, eh_read_uleb_sigsafe(body));
    for (letters++; *letters; letters++) {
        if (*letters == 'R')
            cie->encoding = eh_read_u8_sigsafe(&data);
        else if (*letters == 'L')
            eh_read_u8_sigsafe(&data);
        else if (*letters == 'P') {
            u32 encoding = eh_read_u8_sigsafe(&data);
            if (encoding != EH_PE_OMIT)
                eh_read_encoded_raw_sigsafe(&data, encoding);
        } else if (*letters == 'S')
            cie->is_signal_frame = 1;
        else if (*letters != 'B')
            break;                        /* unknown: the length gives its end; libgcc stops here, too */
    }
    return !data.failed && !body->failed;
}

static int eh_parse_cie_sigsafe(struct eh_output *output, struct eh_reader body, struct eh_cie *cie)
{
    cie->encoding = EH_PE_ABSPTR;
    cie->is_signal_frame = 0;
    cie->has_augmentation_data = 0;
    u32 version = eh_read_u8_sigsafe(&body);
    if (version != 1 && version != 3 && !(version == 4 && output->input->is_debug_frame))
        return 0;
    const u8 *letters = body.at;
    while (eh_read_u8_sigsafe(&body))
        ;
    if (body.failed)
        return 0;
    /* Version 4 contains the sizes of addresses and segment selectors. */
    if (version == 4 && (eh_read_u8_sigsafe(&body) != 8 || eh_read_u8_sigsafe(&body) != 0))
        return 0;
    u64 code_align = eh_read_uleb_sigsafe(&body);
    i64 data_align = eh_read_sleb_sigsafe(&body);
    u64 ra_reg = version == 1 ? eh_read_u8_sigsafe(&body) : eh_read_uleb_sigsafe(&body);
    if (code_align == 0 || code_align > EH_FACTOR_LIMIT || ra_reg != DW_REG_RA)
        return 0;
    if (data_align > EH_FACTOR_LIMIT || data_align < -EH_FACTOR_LIMIT)
        return 0;
    cie->code_align = (u32)code_align;
    cie->data_align = (int)data_align;
    if (!eh_parse_augmentation_sigsafe(&body, letters, cie))
        return 0;
    struct eh_state state = {
        .cfa_reg = DW_REG_RA, .rbp = {EH_SAME, 0}, .rsp = {EH_SAME, 0}, .ra = {EH_OTHER, 0},
    };
    cie->initial = state;
    if (!eh_run_sigsafe(output, cie, &state, body, 0, 0))
        return 0;
    cie->initial = state;
    return 1;
}

/* Return the index of the CIE whose record is at `offset`; cie_count if there is none. CIEs are sorted by offset. */
static u32 eh_find_cie(const struct eh_index *index, u32 offset)
{
    u32 low = 0, high = index->cie_count;
    while (low < high) {
        u32 middle = low + (high - low) / 2;
        if (index->cies[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low < index->cie_count && index->cies[low].offset == offset ? low : index->cie_count;
}

/* Index one FDE. Returns 0 if it is malformed. An FDE outside of the text is valid and is ignored. */
static int eh_add_fde_sigsafe(struct eh_index *index, const struct cfi_input *input, struct eh_reader body, u32 cie_index)
{
    const struct eh_cie *cie = &index->cies[cie_index];
    u64 start = eh_read_code_addr_sigsafe(input, &body, cie->encoding);
    u64 bytes = eh_read_encoded_raw_sigsafe(&body, cie->encoding & EH_PE_FORMAT_MASK);
    if (cie->has_augmentation_data)
        eh_read_block_sigsafe(&body, eh_read_uleb_sigsafe(&body));
    if (body.failed)
        return 0;
    if (start < input->text_start || start >= input->text_end || bytes == 0)
        return 1;
    /* The end is at 2^32 - 1 at most: the last row is there. */
    u64 start_offset = start - input->text_start, room = input->text_end - start;
    if (start_offset >= 0xffffffffULL)
        return 1;
    if (bytes > room)
        bytes = room;
    if (bytes > 0xffffffffULL - start_offset)
        bytes = 0xffffffffULL - start_offset;
    index->order[index->fde_count] = start_offset << 32 | index->fde_count;
    struct eh_fde *fde = &index->fdes[index->fde_count++];
    fde->start = (u32)start_offset;
    fde->bytes = (u32)bytes;
    fde->cie = cie_index;
    fde->program = (u32)(body.at - input->section);
    fde->program_end = (u32)(body.end - input->section);
    return 1;
}

/* Fill `index` with all CIEs and FDEs of the section. */
static void eh_index_records(struct eh_index *index, struct eh_output *output)
{
    struct eh_record record;
    u64 offset = 0;
    u32 last_cie = 0;
    while (eh_next_record(output->input, &offset, &record)) {
        if (record.is_cie) {
            struct eh_cie *cie = &index->cies[index->cie_count];
            cie->offset = record.offset;
            cie->is_usable = eh_parse_cie_sigsafe(output, record.body, cie);
            last_cie = index->cie_count++;
            continue;
        }
        u32 cie_index = last_cie;
        if (cie_index >= index->cie_count || index->cies[cie_index].offset != record.cie_offset)
            cie_index = eh_find_cie(index, record.cie_offset);
        if (cie_index == index->cie_count || !index->cies[cie_index].is_usable ||
            !eh_add_fde_sigsafe(index, output->input, record.body, cie_index))
            output->result->bad_fde_count++;
        else
            last_cie = cie_index;
    }
}

/* Sort `order` by start; FDEs with the same start stay in section order. Four counting passes, one byte each. */
static void eh_sort_fdes(struct eh_index *index)
{
    u32 count = index->fde_count;
    int is_sorted = 1;
    for (u32 i = 1; i < count && is_sorted; i++)
        is_sorted = index->order[i - 1] <= index->order[i];
    if (is_sorted)
        return;
    for (u32 shift = 32; shift < 64; shift += 8) {
        u32 counts[256];
        for (u32 i = 0; i < 256; i++)
            counts[i] = 0;
        for (u32 i = 0; i < count; i++)
            counts[index->order[i] >> shift & 0xff]++;
        for (u32 i = 0, sum = 0; i < 256; i++) {
            u32 here = counts[i];
            counts[i] = sum;
            sum += here;
        }
        for (u32 i = 0; i < count; i++)
            index->order_spare[counts[index->order[i] >> shift & 0xff]++] = index->order[i];
        u64 *swap = index->order;
        index->order = index->order_spare;
        index->order_spare = swap;
    }
}

/* Emit the rows of one FDE up to `stop`. If its program is malformed, its code gets no rules. */
static void eh_compile_fde_sigsafe(const struct eh_index *index, const struct eh_fde *fde, u32 stop, struct eh_output *output)
{
    struct cfi_result *result = output->result;
    const struct eh_cie *cie = &index->cies[fde->cie];
    u32 row_count = result->row_count, unsupported = result->unsupported_row_count;
    struct eh_state state = cie->initial;
    struct eh_reader program;
    program.at = output->input->section + fde->program;
    program.end = output->input->section + fde->program_end;
    program.failed = 0;
    if (eh_run_sigsafe(output, cie, &state, program, fde->start, stop))
        return;
    result->row_count = row_count;
    result->unsupported_row_count = unsupported;
    result->bad_fde_count++;
    eh_emit_sigsafe(output, fde->start, 0);
}

static void eh_compile_fdes(const struct eh_index *index, struct eh_output *output)
{
    u32 count = index->fde_count;
    u32 covered = 0;                      /* end of the code that has rows */
    for (u32 i = 0; i < count; i++) {
        const struct eh_fde *fde = &index->fdes[index->order[i] & 0xffffffffU];
        if (i && fde->start == (u32)(index->order[i - 1] >> 32))
            continue;
        u32 stop = fde->start + fde->bytes, next = i + 1;
        while (next < count && (u32)(index->order[next] >> 32) == fde->start)
            next++;
        if (next < count && (u32)(index->order[next] >> 32) < stop)
            stop = (u32)(index->order[next] >> 32);
        if (fde->start > covered)
            eh_emit_sigsafe(output, covered, 0);
        eh_compile_fde_sigsafe(index, fde, stop, output);
        covered = stop;
    }
    eh_emit_sigsafe(output, covered, 0);
}

u32 cfi_row_limit(const struct cfi_input *input)
{
    struct eh_record record;
    u64 offset = 0, limit = 0;
    if (!eh_is_usable(input))
        return 0;
    while (eh_next_record(input, &offset, &record)) {
        /* A first row, one for every pair of an advance and a change, and one after its end. */
        if (!record.is_cie)
            limit += 2 + (u64)(record.body.end - record.body.at) / 2;
    }
    return (u32)limit;
}

static void eh_count_records(const struct cfi_input *input, u64 *cie_count, u64 *fde_count)
{
    struct eh_record record;
    u64 offset = 0;
    *cie_count = *fde_count = 0;
    while (eh_next_record(input, &offset, &record)) {
        if (record.is_cie)
            ++*cie_count;
        else
            ++*fde_count;
    }
}

u64 cfi_scratch_bytes(const struct cfi_input *input)
{
    u64 cie_count, fde_count;
    if (!eh_is_usable(input))
        return 0;
    eh_count_records(input, &cie_count, &fde_count);
    return fde_count * (2 * sizeof(u64) + sizeof(struct eh_fde)) + EH_STATE_DEPTH * sizeof(struct eh_state) +
           cie_count * sizeof(struct eh_cie);
}

int cfi_compile(const struct cfi_input *input, struct rule_table *table, struct cfi_row *rows, u32 row_limit,
                void *scratch, struct cfi_result *result)
{
    u64 cie_count, fde_count;
    result->row_count = result->fde_count = result->bad_fde_count = 0;
    result->unsupported_row_count = result->rules_full = result->lock_tries = result->rules_busy = 0;
    if (!eh_is_usable(input))
        return -1;
    if (table->count == 0) {
        struct unwind_rule none = {CFA_NONE, RBP_SAME, RA_AT_CFA, 0, 0, 0, 0, 0};
        table->rules[0] = none;
        table->count = 1;
    }
    /* In the order of cfi_scratch_bytes; the array with the strictest alignment comes first. */
    eh_count_records(input, &cie_count, &fde_count);
    u64 *order = scratch;
    struct eh_state *saved = (struct eh_state *)(void *)(order + 2 * fde_count);
    struct eh_fde *fdes = (struct eh_fde *)(void *)(saved + EH_STATE_DEPTH);
    struct eh_cie *cies = (struct eh_cie *)(void *)(fdes + fde_count);
    struct eh_index index = {cies, 0, fdes, 0, order, order + fde_count};
    struct eh_output output = {input, table, rows, row_limit, 0, result, saved};

    eh_index_records(&index, &output);
    result->fde_count = index.fde_count;
    eh_sort_fdes(&index);
    eh_compile_fdes(&index, &output);
    return output.rows_full || result->row_count == 0 ? -1 : 0;
}
