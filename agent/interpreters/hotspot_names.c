/*
 * Records of Java's methods and of the virtual machine's stubs for the host: names, file and line table as they lie in
 * memory. Sampler thread only.
 *
 * What tells the method from others is compared before and after: a name is never that of another method that got the same
 * address.
 */

#define CLASS_BYTES_MAX 2048
#define METHOD_BYTES_MAX 1024
#define SIGNATURE_BYTES_MAX 4096
#define SOURCE_BYTES_MAX 1024
#define STUB_BYTES_MAX 128
#define PART_CLASS 0
#define PART_METHOD 1
#define PART_SOURCE 2
#define PART_LINES 3
#define STUB_FINGERPRINT 1                /* in place of a method's: the address is that of the stub's name … */
#define ROUTINES_FINGERPRINT 2            /* … of a blob with many routines */
#define NUMBER_HIGH 192                   /* bytes of a compressed number from here on are followed by more */

static u32 memory_u64(struct agent *a, u64 runtime_addr, u64 *value)
{
    return read_memory(a, runtime_addr, value, 8) == 8;
}

static u32 memory_u16(struct agent *a, u64 runtime_addr, u32 *value)
{
    u16 read;
    if (read_memory(a, runtime_addr, &read, 2) != 2)
        return 0;
    *value = read;
    return 1;
}

/* Read a compressed number: unsigned5.hpp. Returns 0 if it does not end. */
static u32 number_read(const u64 *recipe, const u8 *bytes, u32 limit, u32 *at, u32 *value)
{
    u32 base = (u32)recipe[HOTSPOT_NUMBER_BASE], shift, byte;
    *value = 0;
    for (shift = 0; shift <= 24 && *at < limit; shift += 6) {
        byte = bytes[(*at)++];
        *value += (byte - base) << shift;
        if (byte < NUMBER_HIGH || shift == 24)
            return 1;
    }
    return 0;
}

/* Return the fingerprint that a method has now; 0 if it is none. */
static u32 java_fingerprint_now(struct agent *a, const u64 *recipe, u64 method)
{
    struct java_method found;
    return java_method_sigsafe(sampler_walk(a), recipe, method, &found) ? found.fingerprint : 0;
}

/* Append the characters of a symbol, at most `most` bytes. Returns the bytes; sets `flag` of the record if it is cut. */
static u32 symbol_copy(struct agent *a, const u64 *recipe, u64 symbol, u8 *to, u32 most, struct code_record *record, u32 flag)
{
    u32 length;
    if (!symbol || !memory_u16(a, symbol + recipe[HOTSPOT_SYMBOL_LENGTH], &length))
        return 0;
    if (length > most) {
        length = most;
        record->flags |= (u16)(1U << flag);
    }
    return read_memory(a, symbol + recipe[HOTSPOT_SYMBOL_BODY], to, length) == (i64)length ? length : 0;
}

/* Append the symbol at the index that `field` holds. */
static u32 pool_symbol_copy(struct agent *a, const u64 *recipe, u64 pool, u64 field, u8 *to, u32 most,
                            struct code_record *record, u32 part)
{
    u64 symbol;
    u32 index;
    if (!memory_u16(a, field, &index) || !index ||
        !memory_u64(a, pool + recipe[HOTSPOT_POOL_BYTES] + (u64)index * POOL_ENTRY_BYTES, &symbol))
        return 0;
    return symbol_copy(a, recipe, symbol, to, most, record, CODE_CUT_SHIFT + part);
}

/* Append the line table of a method, which follows its bytecode. Returns the bytes, without what follows the table. */
static u32 java_lines_copy(struct agent *a, const u64 *recipe, u64 constant, u32 code_bytes, u8 *to, struct code_record *record)
{
    u64 start = constant + recipe[HOTSPOT_CONST_BYTES] + code_bytes, bytes;
    u32 flags = 0, words = 0, at = 0, ignored;
    i64 got;
    if (!memory_u16(a, constant + recipe[HOTSPOT_CONST_FLAGS], &flags) || !(flags & recipe[HOTSPOT_CONST_LINES_FLAG]) ||
        read_memory(a, constant + recipe[HOTSPOT_CONST_WORDS], &words, 4) != 4)
        return 0;
    bytes = constant + 8 * (u64)words - start;
    if (bytes > LINE_TABLE_BYTES_MAX)
        bytes = LINE_TABLE_BYTES_MAX;
    got = read_memory(a, start, to, bytes);
    while (at < got && to[at]) {
        if (to[at++] == 0xff && (!number_read(recipe, to, (u32)got, &at, &ignored) ||
                                 !number_read(recipe, to, (u32)got, &at, &ignored)))
            break;
    }
    if (at >= got)
        record->flags |= 1 << (CODE_CUT_SHIFT + PART_LINES);
    return at;
}

/* Copy what the record of a method says. Returns its bytes behind the record; 0 if the method is gone. */
static u32 java_method_copy(struct agent *a, const u64 *recipe, u64 method, u32 fingerprint, struct code_record *record, u8 *to)
{
    u64 constant, pool, klass, class_name;
    u32 used, code_bytes, name_bytes, source;
    if (java_fingerprint_now(a, recipe, method) != fingerprint ||
        !memory_u64(a, method + recipe[HOTSPOT_METHOD_CONST], &constant) ||
        !memory_u64(a, constant + recipe[HOTSPOT_CONST_POOL], &pool) ||
        !memory_u16(a, constant + recipe[HOTSPOT_CONST_CODE_BYTES], &code_bytes) ||
        !memory_u64(a, pool + recipe[HOTSPOT_POOL_HOLDER], &klass) ||
        !memory_u64(a, klass + recipe[HOTSPOT_KLASS_NAME], &class_name))
        return 0;
    used = record->part_bytes[PART_CLASS] =
        symbol_copy(a, recipe, class_name, to, CLASS_BYTES_MAX, record, CODE_CUT_SHIFT + PART_CLASS);
    name_bytes = pool_symbol_copy(a, recipe, pool, constant + recipe[HOTSPOT_CONST_NAME], to + used, METHOD_BYTES_MAX, record,
                                  PART_METHOD);
    if (!used || !name_bytes)
        return 0;
    record->part_bytes[PART_METHOD] =
        name_bytes + pool_symbol_copy(a, recipe, pool, constant + recipe[HOTSPOT_CONST_SIGNATURE], to + used + name_bytes,
                                      SIGNATURE_BYTES_MAX, record, PART_METHOD);
    used += record->part_bytes[PART_METHOD];
    source = record->part_bytes[PART_SOURCE] = pool_symbol_copy(
        a, recipe, pool, recipe[HOTSPOT_POOL_SOURCE] != ABSENT ? pool + recipe[HOTSPOT_POOL_SOURCE]
                                                               : klass + recipe[HOTSPOT_KLASS_SOURCE],
        to + used, SOURCE_BYTES_MAX, record, PART_SOURCE);
    used += source;
    used += record->part_bytes[PART_LINES] = java_lines_copy(a, recipe, constant, code_bytes, to + used, record);
    record->detail[0] = name_bytes;
    record->detail[1] = code_bytes;
    return java_fingerprint_now(a, recipe, method) == fingerprint ? used : 0;
}

static const char call_stub[] = "call stub";

/* Copy the name of a stub, which stays where it is as long as the virtual machine runs. That by which C++ calls Java is one of
 * many among its stubs: it goes by where Java returns to. */
static u32 java_stub_copy(struct agent *a, const u64 *recipe, u64 name, struct code_record *record, u8 *to)
{
    i64 got = name == recipe[HOTSPOT_CALL_STUB_RETURN] ? (i64)sizeof call_stub : read_memory(a, name, to, STUB_BYTES_MAX);
    u32 length = 0;
    if (name == recipe[HOTSPOT_CALL_STUB_RETURN])
        bytes_copy(to, call_stub, sizeof call_stub);
    while (length < got && to[length])
        length++;
    record->part_bytes[PART_METHOD] = length;
    return length;
}

/* Copy the name of a blob with many routines, and say where it begins. */
static u32 java_routines_copy(struct agent *a, const u64 *recipe, u64 blob, struct code_record *record, u8 *to)
{
    u64 name;
    record->detail[1] = blob;
    return memory_u64(a, blob + recipe[HOTSPOT_BLOB_NAME], &name) ? java_stub_copy(a, recipe, name, record, to) : 0;
}

/* The same for each of them. */
static u32 java_code_copy(struct agent *a, const u64 *recipe, u64 code, u32 fingerprint, struct code_record *record, u8 *to)
{
    if (fingerprint == ROUTINES_FINGERPRINT)
        return java_routines_copy(a, recipe, code, record, to);
    return fingerprint == STUB_FINGERPRINT ? java_stub_copy(a, recipe, code, record, to)
                                           : java_method_copy(a, recipe, code, fingerprint, record, to);
}
