/*
 * Run call frame programs: turn the instructions of a CIE or an FDE into rows.
 *
 * All of this may run in the handler: no libc, no locks, no allocation. Sources: DWARF 5, 6.4.2 and 7.24; libgcc's
 * unwind-dw2.c for GNU instructions and for what the document does not specify.
 */

/* Call frame instructions. The first three hold an operand in their low six bits. */
enum {
    DW_CFA_ADVANCE_LOC = 1,
    DW_CFA_OFFSET = 2,
    DW_CFA_RESTORE = 3,
    DW_CFA_NOP = 0x00,
    DW_CFA_SET_LOC = 0x01,
    DW_CFA_ADVANCE_LOC1 = 0x02,
    DW_CFA_ADVANCE_LOC2 = 0x03,
    DW_CFA_ADVANCE_LOC4 = 0x04,
    DW_CFA_OFFSET_EXTENDED = 0x05,
    DW_CFA_RESTORE_EXTENDED = 0x06,
    DW_CFA_UNDEFINED = 0x07,
    DW_CFA_SAME_VALUE = 0x08,
    DW_CFA_REGISTER = 0x09,
    DW_CFA_REMEMBER_STATE = 0x0a,
    DW_CFA_RESTORE_STATE = 0x0b,
    DW_CFA_DEF_CFA = 0x0c,
    DW_CFA_DEF_CFA_REGISTER = 0x0d,
    DW_CFA_DEF_CFA_OFFSET = 0x0e,
    DW_CFA_DEF_CFA_EXPRESSION = 0x0f,
    DW_CFA_EXPRESSION = 0x10,
    DW_CFA_OFFSET_EXTENDED_SF = 0x11,
    DW_CFA_DEF_CFA_SF = 0x12,
    DW_CFA_DEF_CFA_OFFSET_SF = 0x13,
    DW_CFA_VAL_OFFSET = 0x14,
    DW_CFA_VAL_OFFSET_SF = 0x15,
    DW_CFA_VAL_EXPRESSION = 0x16,
    DW_CFA_MIPS_ADVANCE_LOC8 = 0x1d,
    DW_CFA_GNU_WINDOW_SAVE = 0x2d,
    DW_CFA_GNU_ARGS_SIZE = 0x2e,
    DW_CFA_GNU_NEGATIVE_OFFSET_EXTENDED = 0x2f,
};

/* Deeper nesting of remember_state makes an FDE malformed; compilers nest once or twice. */
#define EH_STATE_DEPTH 64

struct eh_cie {
    u32 offset;                           /* offset of the record in the section, to which FDEs refer */
    int is_usable;
    int is_signal_frame;                  /* augmentation 'S' */
    int has_augmentation_data;            /* augmentation 'z' */
    u32 encoding;                         /* of the FDEs' pointers */
    u32 code_align;
    i32 data_align;
    struct eh_state initial;              /* after the CIE's own program */
};

/* The output of rows, and state shared by the programs of one module. */
struct eh_output {
    const struct cfi_input *input;
    struct rule_table *table;
    struct cfi_row *rows;
    u32 row_limit;
    int rows_full;
    struct cfi_result *result;
    struct eh_state *saved;               /* room for EH_STATE_DEPTH states: remember_state */
};

/* Add a row: `rule` applies from `pc_offset` on. */
static void eh_emit_sigsafe(struct eh_output *output, u32 pc_offset, u32 rule)
{
    struct cfi_result *result = output->result;
    u32 previous = result->row_count ? output->rows[result->row_count - 1].rule : 0;
    if (rule == previous)
        return;
    if (result->row_count == output->row_limit) {
        output->rows_full = 1;
        return;
    }
    output->rows[result->row_count].pc_offset = pc_offset;
    output->rows[result->row_count].rule = rule;
    result->row_count++;
    if (output->table->rules[rule].cfa_kind == CFA_UNSUPPORTED)
        result->unsupported_row_count++;
}

/*
 * Run a program on `state`, and emit rows for [location, stop), both relative to text_start; the range of a CIE is
 * empty. Returns 0 if it is malformed.
 */
static int eh_run_sigsafe(struct eh_output *output, const struct eh_cie *cie, struct eh_state *state,
                          struct eh_reader program, u64 location, u64 stop)
{
    struct eh_reader *reader = &program;
    u32 depth = 0;
    while (reader->at != reader->end) {
        u32 op = *reader->at++;
        u64 next = location, reg;
        switch (op >> 6) {
        case DW_CFA_ADVANCE_LOC:
            next += (u64)(op & 0x3f) * cie->code_align;
            break;
        case DW_CFA_OFFSET:
            eh_set_register_sigsafe(state, op & 0x3f, EH_AT_CFA, eh_read_factored_sigsafe(reader, cie->data_align));
            break;
        case DW_CFA_RESTORE:
            eh_restore_register_sigsafe(state, op & 0x3f, &cie->initial);
            break;
        default:
            switch (op) {
            case DW_CFA_NOP:
            case DW_CFA_GNU_WINDOW_SAVE:
                break;
            case DW_CFA_DEF_CFA_OFFSET:
                state->cfa_off = eh_read_uleb_int_sigsafe(reader);
                state->rule = 0;
                break;
            case DW_CFA_REMEMBER_STATE:
                if (depth == EH_STATE_DEPTH)
                    return 0;
                output->saved[depth++] = *state;
                break;
            case DW_CFA_RESTORE_STATE:
                if (depth == 0)
                    return 0;
                *state = output->saved[--depth];
                break;
            case DW_CFA_ADVANCE_LOC1:
                next += eh_read_fixed_sigsafe(reader, 1) * cie->code_align;
                break;
            case DW_CFA_ADVANCE_LOC2:
                next += eh_read_fixed_sigsafe(reader, 2) * cie->code_align;
                break;
            case DW_CFA_ADVANCE_LOC4:
                next += eh_read_fixed_sigsafe(reader, 4) * cie->code_align;
                break;
            case DW_CFA_MIPS_ADVANCE_LOC8: {
                u64 delta = eh_read_fixed_sigsafe(reader, 8);
                if (delta > 0xffffffffULL)
                    return 0;
                next += delta * cie->code_align;
                break;
            }
            case DW_CFA_SET_LOC:
                next = eh_read_code_addr_sigsafe(output->input, reader, cie->encoding);
                if (next < output->input->text_start + location)
                    return 0;
                next -= output->input->text_start;
                break;
            case DW_CFA_DEF_CFA:
                reg = eh_read_uleb_sigsafe(reader);
                eh_set_cfa_sigsafe(state, reg, eh_read_uleb_int_sigsafe(reader));
                break;
            case DW_CFA_DEF_CFA_SF:
                reg = eh_read_uleb_sigsafe(reader);
                eh_set_cfa_sigsafe(state, reg, eh_read_factored_signed_sigsafe(reader, cie->data_align));
                break;
            case DW_CFA_DEF_CFA_REGISTER:
                eh_set_cfa_sigsafe(state, eh_read_uleb_sigsafe(reader), state->cfa_off);
                break;
            case DW_CFA_DEF_CFA_OFFSET_SF:
                state->cfa_off = eh_read_factored_signed_sigsafe(reader, cie->data_align);
                state->rule = 0;
                break;
            case DW_CFA_DEF_CFA_EXPRESSION:
                state->cfa_is_expression = 1;
                state->cfa_expression =
                    eh_parse_expression_sigsafe(eh_read_block_sigsafe(reader, eh_read_uleb_sigsafe(reader)));
                state->rule = 0;
                break;
            case DW_CFA_OFFSET_EXTENDED:
                reg = eh_read_uleb_sigsafe(reader);
                eh_set_register_sigsafe(state, reg, EH_AT_CFA, eh_read_factored_sigsafe(reader, cie->data_align));
                break;
            case DW_CFA_OFFSET_EXTENDED_SF:
                reg = eh_read_uleb_sigsafe(reader);
                eh_set_register_sigsafe(state, reg, EH_AT_CFA, eh_read_factored_signed_sigsafe(reader, cie->data_align));
                break;
            case DW_CFA_GNU_NEGATIVE_OFFSET_EXTENDED:
                reg = eh_read_uleb_sigsafe(reader);
                eh_set_register_sigsafe(state, reg, EH_AT_CFA, eh_read_factored_sigsafe(reader, -cie->data_align));
                break;
            case DW_CFA_RESTORE_EXTENDED:
                eh_restore_register_sigsafe(state, eh_read_uleb_sigsafe(reader), &cie->initial);
                break;
            case DW_CFA_UNDEFINED:
                eh_set_register_sigsafe(state, eh_read_uleb_sigsafe(reader), EH_UNDEFINED, 0);
                break;
            case DW_CFA_SAME_VALUE:
                eh_set_register_sigsafe(state, eh_read_uleb_sigsafe(reader), EH_SAME, 0);
                break;
            case DW_CFA_REGISTER:
                reg = eh_read_uleb_sigsafe(reader);
                eh_set_register_sigsafe(state, reg, EH_IN_REGISTER, eh_read_uleb_int_sigsafe(reader));
                break;
            case DW_CFA_EXPRESSION:
                reg = eh_read_uleb_sigsafe(reader);
                eh_set_register_expression_sigsafe(state, reg, eh_read_block_sigsafe(reader, eh_read_uleb_sigsafe(reader)));
                break;
            case DW_CFA_VAL_EXPRESSION:
                reg = eh_read_uleb_sigsafe(reader);
                eh_read_block_sigsafe(reader, eh_read_uleb_sigsafe(reader));
                eh_set_register_sigsafe(state, reg, EH_OTHER, 0);
                break;
            case DW_CFA_VAL_OFFSET: {
                /* rsp = CFA + 0 is the default. */
                reg = eh_read_uleb_sigsafe(reader);
                int off = eh_read_factored_sigsafe(reader, cie->data_align);
                eh_set_register_sigsafe(state, reg, reg == DW_REG_RSP && off == 0 ? EH_SAME : EH_OTHER, 0);
                break;
            }
            case DW_CFA_VAL_OFFSET_SF: {
                reg = eh_read_uleb_sigsafe(reader);
                int off = eh_read_factored_signed_sigsafe(reader, cie->data_align);
                eh_set_register_sigsafe(state, reg, reg == DW_REG_RSP && off == 0 ? EH_SAME : EH_OTHER, 0);
                break;
            }
            case DW_CFA_GNU_ARGS_SIZE:
                eh_read_uleb_sigsafe(reader);
                break;
            default:
                return 0;
            }
        }
        if (reader->failed)
            return 0;
        if (next != location) {
            if (location >= stop)
                return 1;
            if (!state->rule)
                state->rule = eh_state_rule_sigsafe(state, cie->is_signal_frame, output->table, output->result);
            eh_emit_sigsafe(output, (u32)location, state->rule);
            location = next;
        }
    }
    if (location < stop) {
        if (!state->rule)
            state->rule = eh_state_rule_sigsafe(state, cie->is_signal_frame, output->table, output->result);
        eh_emit_sigsafe(output, (u32)location, state->rule);
    }
    return 1;
}
