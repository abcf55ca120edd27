/*
 * Read .eh_frame and .debug_frame: bounds-checked numbers, encoded pointers, and the iteration over records.
 *
 * The bytes are not trusted. A read beyond the block fails: it returns 0, the reader moves to its end, and `failed`
 * stays set, so that callers may check once after several reads.
 *
 * All but the iteration may run in the handler: no libc, no locks, no allocation. Sources: Linux Standard Base 5.0
 * Core, 10.6 (records, pointer encodings); DWARF 5, 7.6.
 */

/* Pointer encodings (DW_EH_PE_*): low nibble the format, then what it is relative to. */
enum {
    EH_PE_ABSPTR = 0x00,
    EH_PE_ULEB128 = 0x01,
    EH_PE_UDATA2 = 0x02,
    EH_PE_UDATA4 = 0x03,
    EH_PE_UDATA8 = 0x04,
    EH_PE_SLEB128 = 0x09,
    EH_PE_SDATA2 = 0x0a,
    EH_PE_SDATA4 = 0x0b,
    EH_PE_SDATA8 = 0x0c,
    EH_PE_FORMAT_MASK = 0x0f,
    EH_PE_PCREL = 0x10,
    EH_PE_DATAREL = 0x30,                 /* relative to .eh_frame_hdr; used only there */
    EH_PE_ALIGNED = 0x50,                 /* padded to 8 bytes; not produced on x86-64 */
    EH_PE_RELATIVE_MASK = 0x70,
    EH_PE_OMIT = 0xff,
};

struct eh_reader {
    const u8 *at;
    const u8 *end;
    int failed;                           /* a read went past the end: it returned 0, `at` is `end` */
};

/* One record of the section. */
struct eh_record {
    u32 offset;                  /* of its length field */
    u32 is_cie;
    u32 cie_offset;              /* FDE only */
    struct eh_reader body;                /* what follows the CIE id or CIE pointer */
};

static u32 eh_read_u8_sigsafe(struct eh_reader *reader)
{
    if (reader->at == reader->end) {
        reader->failed = 1;
        return 0;
    }
    return *reader->at++;
}

/* Read a little-endian number of `bytes` (1 to 8) bytes. */
static u64 eh_read_fixed_sigsafe(struct eh_reader *reader, u32 bytes)
{
    u64 value = 0;
    if ((u64)(reader->end - reader->at) < bytes) {
        reader->failed = 1;
        reader->at = reader->end;
        return 0;
    }
    for (u32 i = 0; i < bytes; i++)
        value |= (u64)reader->at[i] << (8 * i);
    reader->at += bytes;
    return value;
}

static u64 eh_read_uleb_sigsafe(struct eh_reader *reader)
{
    if (reader->at != reader->end && *reader->at < 0x80)
        return *reader->at++;
    u64 value = 0;
    for (u32 shift = 0; reader->at != reader->end; shift += 7) {
        u32 byte = *reader->at++;
        if (shift < 64)
            value |= (u64)(byte & 0x7f) << shift;
        else if (byte & 0x7f)
            break;                        /* too large for any valid use */
        if (byte < 0x80)
            return value;
    }
    reader->at = reader->end;
    reader->failed = 1;
    return 0;
}

static i64 eh_read_sleb_sigsafe(struct eh_reader *reader)
{
    u64 value = 0;
    for (u32 shift = 0; reader->at != reader->end;) {
        u32 byte = *reader->at++;
        if (shift < 64) {
            value |= (u64)(byte & 0x7f) << shift;
            shift += 7;
        }
        if (byte < 0x80) {
            if ((byte & 0x40) && shift < 64)
                value |= ~0ULL << shift;
            return (i64)value;
        }
    }
    reader->failed = 1;
    return 0;
}

/* Read a number that is valid only if it fits an int: no frame is larger than 2 GiB. */
static int eh_int_sigsafe(struct eh_reader *reader, i64 value)
{
    if (value < -0x7fffffffLL || value > 0x7fffffffLL) {
        reader->failed = 1;
        return 0;
    }
    return (int)value;
}

static int eh_read_uleb_int_sigsafe(struct eh_reader *reader)
{
    u64 value = eh_read_uleb_sigsafe(reader);
    if (value > 0x7fffffffULL) {
        reader->failed = 1;
        return 0;
    }
    return (int)value;
}

static int eh_read_sleb_int_sigsafe(struct eh_reader *reader)
{
    return eh_int_sigsafe(reader, eh_read_sleb_sigsafe(reader));
}

static int eh_read_factored_sigsafe(struct eh_reader *reader, int factor)
{
    return eh_int_sigsafe(reader, (i64)eh_read_uleb_int_sigsafe(reader) * factor);
}

static int eh_read_factored_signed_sigsafe(struct eh_reader *reader, int factor)
{
    return eh_int_sigsafe(reader, (i64)eh_read_sleb_int_sigsafe(reader) * factor);
}

/* Return a reader of the next `bytes` bytes, and skip them here. */
static struct eh_reader eh_read_block_sigsafe(struct eh_reader *reader, u64 bytes)
{
    struct eh_reader block;
    block.failed = 0;
    if ((u64)(reader->end - reader->at) < bytes) {
        reader->failed = 1;
        block.at = block.end = reader->at = reader->end;
        return block;
    }
    block.at = reader->at;
    reader->at += bytes;
    block.end = reader->at;
    return block;
}

/* Read an encoded pointer without applying its base. */
static u64 eh_read_encoded_raw_sigsafe(struct eh_reader *reader, u32 encoding)
{
    if ((encoding & EH_PE_RELATIVE_MASK) == EH_PE_ALIGNED) {
        reader->failed = 1;
        return 0;
    }
    switch (encoding & EH_PE_FORMAT_MASK) {
    case EH_PE_SDATA4:
        return (u64)(i64)(int)(u32)eh_read_fixed_sigsafe(reader, 4);
    case EH_PE_UDATA4:
        return eh_read_fixed_sigsafe(reader, 4);
    case EH_PE_ABSPTR:
    case EH_PE_UDATA8:
    case EH_PE_SDATA8:
        return eh_read_fixed_sigsafe(reader, 8);
    case EH_PE_UDATA2:
        return eh_read_fixed_sigsafe(reader, 2);
    case EH_PE_SDATA2:
        return (u64)(i64)(short)(unsigned short)eh_read_fixed_sigsafe(reader, 2);
    case EH_PE_ULEB128:
        return eh_read_uleb_sigsafe(reader);
    case EH_PE_SLEB128:
        return (u64)eh_read_sleb_sigsafe(reader);
    default:
        reader->failed = 1;
        return 0;
    }
}

/* Read an encoded code address, as file_addr. Only the encodings that linkers produce on x86-64: absolute or
 * pc-relative. */
static u64 eh_read_code_addr_sigsafe(const struct cfi_input *input, struct eh_reader *reader, u32 encoding)
{
    u64 base = 0;
    if ((encoding & ~(u32)EH_PE_FORMAT_MASK) == EH_PE_PCREL)
        base = input->section_file_addr + (u64)(reader->at - input->section);
    else if (encoding & ~(u32)EH_PE_FORMAT_MASK)
        reader->failed = 1;
    return base + eh_read_encoded_raw_sigsafe(reader, encoding);
}

/*
 * Read the next record of the section from `*offset` on, and move `*offset` after it. Returns 0 at the end: no more
 * bytes, a zero-length record, or a length that exceeds the section.
 *
 * A CIE has the id 0 in .eh_frame and all ones in .debug_frame. An FDE's pointer to its CIE is relative to itself,
 * backwards, in .eh_frame, and to the section's start in .debug_frame. 64-bit records (their length follows 0xffffffff)
 * have ids and pointers of eight bytes in .debug_frame; in .eh_frame linkers do not produce them, and they are returned
 * empty: as FDEs without a CIE.
 */
static int eh_next_record(const struct cfi_input *input, u64 *offset, struct eh_record *record)
{
    struct eh_reader reader;
    reader.at = input->section + *offset;
    reader.end = input->section + input->section_bytes;
    reader.failed = 0;
    u64 bytes = eh_read_fixed_sigsafe(&reader, 4);
    int is_64_bit = bytes == 0xffffffffULL;
    if (is_64_bit)
        bytes = eh_read_fixed_sigsafe(&reader, 8);
    if (reader.failed || bytes == 0)
        return 0;
    record->offset = (u32)*offset;
    record->body = eh_read_block_sigsafe(&reader, bytes);
    if (reader.failed)
        return 0;
    *offset = (u64)(reader.at - input->section);
    if (input->is_debug_frame) {
        u64 all_ones = is_64_bit ? ~0ULL : 0xffffffffULL;
        u64 pointer = eh_read_fixed_sigsafe(&record->body, is_64_bit ? 8 : 4);
        record->is_cie = pointer == all_ones && !record->body.failed;
        record->cie_offset = pointer < 0xffffffffULL ? (u32)pointer : 0xffffffffU;
        return 1;
    }
    if (is_64_bit)
        record->body.at = record->body.end;
    u64 id_offset = (u64)(record->body.at - input->section);
    u64 id = eh_read_fixed_sigsafe(&record->body, 4);
    record->is_cie = id == 0 && !record->body.failed;
    /* A pointer outside of the section becomes an offset that no CIE has. */
    record->cie_offset = id <= id_offset ? (u32)(id_offset - id) : 0xffffffffU;
    return 1;
}

/* Offsets are kept in 32 bits. */
static int eh_is_usable(const struct cfi_input *input)
{
    return input->section_bytes > 0 && input->section_bytes < 0xffffffffULL && input->text_start < input->text_end;
}
