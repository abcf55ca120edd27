/*
 * Numbers for code objects (of HotSpot: methods and stubs), and their records for the host: names, file and line table as
 * they lie in memory. Sampler thread only.
 *
 * The object is copied, and its fingerprint compared before and after: a name is never that of another object that got
 * the same address. At three quarters full, the table is emptied and numbering continues, as with stacks.
 */

#define CODE_BYTES_MAX 320                /* of a code object itself */
#define NAME_CHARACTERS_MAX 1024
#define FILE_CHARACTERS_MAX 1024
#define STRING_HEAD_BYTES 80
#define PART_NAME 0
#define PART_QUALIFIED_NAME 1
#define PART_FILE_NAME 2
#define PART_LINE_TABLE 3

/*
 * Append a str object's characters to the record. Of a long one, the first `most` characters; of a file name, the last.
 * Returns the bytes, sets flags of the record.
 */
static u32 string_copy(struct agent *a, const u64 *recipe, u64 string, u32 part, u8 *to, u16 *flags)
{
    u64 head[STRING_HEAD_BYTES / 8 + 1], length, data;
    u32 state, kind, wide, most = part == PART_FILE_NAME ? FILE_CHARACTERS_MAX : NAME_CHARACTERS_MAX, cut = 0;
    const u8 *bytes = (const u8 *)head;
    if (!string || read_memory(a, string, head, STRING_HEAD_BYTES) != STRING_HEAD_BYTES)
        return 0;
    length = *(const u64 *)(bytes + recipe[RECIPE_STRING_LENGTH]);
    state = *(const u32 *)(bytes + recipe[RECIPE_STRING_STATE]) >> recipe[RECIPE_STRING_KIND_SHIFT];
    kind = state & 7;
    if (kind != 1 && kind != 2 && kind != 4)
        return 0;
    wide = kind == 4 ? 2 : kind - 1;
    if (!(state >> 3 & 1))                /* not compact */
        data = *(const u64 *)(bytes + recipe[RECIPE_STRING_COMPACT]);
    else
        data = string + (state >> 4 & 1 ? recipe[RECIPE_STRING_ASCII] : recipe[RECIPE_STRING_COMPACT]);
    if (length > most) {
        if (part == PART_FILE_NAME)
            data += (length - most) << wide;
        length = most;
        cut = 1;
    }
    if (read_memory(a, data, to, length << wide) != (i64)(length << wide))
        return 0;
    *flags |= (u16)(wide << (CODE_WIDE_SHIFT + 2 * part) | cut << (CODE_CUT_SHIFT + part));
    return (u32)length << wide;
}

/* Append a bytes object. Returns its bytes; sets a flag of the record if it is cut. */
static u32 bytes_object_copy(struct agent *a, const u64 *recipe, u64 object, u8 *to, u16 *flags)
{
    u64 length;
    if (!object || read_memory(a, object + recipe[RECIPE_BYTES_LENGTH], &length, 8) != 8)
        return 0;
    if (length > LINE_TABLE_BYTES_MAX) {
        length = LINE_TABLE_BYTES_MAX;
        *flags |= 1 << (CODE_CUT_SHIFT + PART_LINE_TABLE);
    }
    if (read_memory(a, object + recipe[RECIPE_BYTES_DATA], to, length) != (i64)length)
        return 0;
    return (u32)length;
}

static u64 code_word(const u8 *code, u64 offset)
{
    return offset + 8 <= CODE_BYTES_MAX ? *(const u64 *)(code + offset) : 0;
}

/* Return the fingerprint that the object has now. */
static u32 code_fingerprint_now(struct agent *a, const u64 *recipe, u64 code)
{
    u32 is_shim;
    a->parked_walk->agent = a;
    a->parked_walk->in_handler = 0;
    a->parked_walk->runtime_bytes = 0;
    managed_forget_pages_sigsafe(a->parked_walk);
    return code_fingerprint_sigsafe(a->parked_walk, recipe, code, &is_shim);
}

/* Copy what the record of a code object says. Returns its bytes behind the record; 0 if the object is gone. */
static u32 code_copy(struct agent *a, const u64 *recipe, u64 code, u32 fingerprint, struct code_record *record, u8 *to)
{
    u64 words[CODE_BYTES_MAX / 8];
    const u8 *bytes = (const u8 *)words;
    u32 used = 0;
    i32 part;
    bytes_zero(words, sizeof words);
    if (code_fingerprint_now(a, recipe, code) != fingerprint || read_memory(a, code, words, CODE_BYTES_MAX) < 64)
        return 0;
    for (part = PART_NAME; part <= PART_FILE_NAME; part++) {
        u64 offset = part == PART_NAME ? recipe[RECIPE_CODE_NAME]
                                       : part == PART_FILE_NAME ? recipe[RECIPE_CODE_FILE_NAME] : recipe[RECIPE_CODE_QUALIFIED_NAME];
        record->part_bytes[part] =
            offset == ABSENT ? 0 : string_copy(a, recipe, code_word(bytes, offset), (u32)part, to + used, &record->flags);
        used += record->part_bytes[part];
    }
    record->part_bytes[PART_LINE_TABLE] =
        bytes_object_copy(a, recipe, code_word(bytes, recipe[RECIPE_CODE_LINE_TABLE]), to + used, &record->flags);
    used += record->part_bytes[PART_LINE_TABLE];
    record->detail[0] = (u32)code_word(bytes, recipe[RECIPE_CODE_FIRST_LINE]);
    return code_fingerprint_now(a, recipe, code) == fingerprint ? used : 0;
}

/* Fill in the record from the note of a handler. Returns its bytes behind the record; 0 if there is none. */
static u32 code_copy_noted(struct agent *a, const u64 *recipe, u64 code, u32 fingerprint, struct code_record *record, u8 *to)
{
    u32 part = recipe[RECIPE_CODE_QUALIFIED_NAME] == ABSENT ? PART_NAME : PART_QUALIFIED_NAME;
    struct code_note note;
    if (!code_note_find(a->noted_by, code, fingerprint, &note))
        return 0;
    bytes_copy(to, note.name, note.name_bytes);
    bytes_copy(to + note.name_bytes, note.file, note.file_bytes);
    record->part_bytes[part] = note.name_bytes;
    record->part_bytes[PART_FILE_NAME] = note.file_bytes;
    record->detail[0] = note.first_line;
    record->flags = (u16)(note.name_cut << (CODE_CUT_SHIFT + part) | note.file_cut << (CODE_CUT_SHIFT + PART_FILE_NAME));
    return note.name_bytes + note.file_bytes;
}

static void record_part_clear(struct code_record *record)
{
    u32 part;
    for (part = 0; part < CODE_PARTS; part++)
        record->part_bytes[part] = 0;
    record->detail[0] = record->detail[1] = 0;
}

/* Send a code object to the host. Returns its number; 0 if there is no room. */
static u32 code_send(struct agent *a, u32 recipe_index, u64 code, u32 fingerprint)
{
    const u64 *recipe = a->recipes[recipe_index];
    u32 most = (u32)sizeof(struct code_record) + (2 * NAME_CHARACTERS_MAX + FILE_CHARACTERS_MAX) * 4 + LINE_TABLE_BYTES_MAX + 8;
    struct code_record *record = record_new(a, &a->codes_out, most);
    u32 used;
    if (!record)
        return 0;
    record->code_id = ++a->next_code_id;
    record->recipe_id = (u16)recipe[RECIPE_ID];
    record->flags = 0;
    record_part_clear(record);
    if (recipe[RECIPE_RUNTIME] == RUNTIME_HOTSPOT)
        used = java_code_copy(a, recipe, code, fingerprint, record, (u8 *)(record + 1));
    else
        used = code_copy(a, recipe, code, fingerprint, record, (u8 *)(record + 1));
    if (!used && recipe[RECIPE_RUNTIME] == RUNTIME_PYTHON) {
        record_part_clear(record);
        record->flags = 0;
        used = code_copy_noted(a, recipe, code, fingerprint, record, (u8 *)(record + 1));
    }
    count_up(a, used ? COUNTER_CODES : COUNTER_CODES_LOST, 1);
    if (!used) {
        record_part_clear(record);
        record->flags = CODE_GONE;
    }
    while (used & 7)
        ((u8 *)(record + 1))[used++] = 0;
    a->codes_out.used -= most - (u32)sizeof *record - used;
    return record->code_id;
}

/* Keep the number of a code object for the handlers. */
static void code_keep(struct agent *a, u64 code, u32 fingerprint, u32 code_id)
{
    u32 at = code_slot_first_sigsafe(code), probes;
    if (a->code_count >= CODE_TABLE_SLOTS / 4 * 3) {
        bytes_zero(a->codes, sizeof(struct code_slot) * CODE_TABLE_SLOTS);
        a->code_count = 0;
    }
    for (probes = 0; probes < CODE_PROBES_MAX; probes++, at = (at + 1) & (CODE_TABLE_SLOTS - 1)) {
        struct code_slot *slot = &a->codes[at];
        if (slot->code && slot->code != code)
            continue;
        a->code_count += !slot->code;
        store_release_u64((volatile u64 *)&slot->known, (u64)fingerprint << 32 | code_id);
        store_release_u64((volatile u64 *)&slot->code, code);
        return;
    }
}
