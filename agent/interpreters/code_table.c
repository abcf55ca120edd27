/*
 * Numbers for code objects (of HotSpot: methods and stubs), and their records for the host: names, file and line table as
 * they lie in memory. Sampler thread only.
 *
 * The target goes on meanwhile, and may free the object and use its memory again, in parts. So a record is sent only if it
 * holds what the handler found in the living object (code_content_sigsafe). At three quarters full, the table is emptied
 * and numbering continues, as with stacks.
 */

#define RECORD_BYTES_MAX ((2 * NAME_CHARACTERS_MAX + FILE_CHARACTERS_MAX) * 4 + LINE_TABLE_BYTES_MAX + 8)

/* Copy one part of a code object to the record, and mix it in. Returns its bytes. */
static u32 code_part_copy(struct agent *a, const u64 *recipe, u64 code, u32 part, struct code_record *record, u8 *to, u64 *hash)
{
    struct python_text text;
    if (!code_part_sigsafe(a->parked_walk, recipe, code, part, &text) ||
        read_memory(a, text.data + text_skipped_sigsafe(&text), to, text.bytes) != (i64)text.bytes) {
        *hash = code_mix_sigsafe(*hash, part);
        return 0;
    }
    text_mix_sigsafe(a->parked_walk, &text, to, hash);
    if (part != PART_LINE_TABLE)
        record->flags |= (u16)(text.wide << (CODE_WIDE_SHIFT + 2 * part));
    record->flags |= (u16)(text.is_cut << (CODE_CUT_SHIFT + part));
    record->part_bytes[part] = text.bytes;
    return text.bytes;
}

/* Copy what the record of a code object says. Returns its bytes behind the record; 0 if the object is gone: it does not
 * hold `content` now. */
static u32 code_copy(struct agent *a, const u64 *recipe, u64 code, u64 content, struct code_record *record, u8 *to)
{
    struct managed_walk *w = sampler_walk(a);
    u64 hash = 0;
    u32 used = 0, part, first_line = 0;
    for (part = 0; part < CODE_PARTS; part++)
        used += code_part_copy(a, recipe, code, part, record, to + used, &hash);
    managed_u32_sigsafe(w, code + recipe[RECIPE_CODE_FIRST_LINE], &first_line);
    record->detail[0] = first_line;
    return (code_mix_sigsafe(hash, first_line) & CONTENT_MASK) == content ? used : 0;
}

/* Fill in the record from the note of a handler. Returns its bytes behind the record; 0 if there is none. */
static u32 code_copy_noted(struct agent *a, const u64 *recipe, u64 code, u32 fingerprint, struct code_record *record, u8 *to)
{
    u32 part = shown_name_sigsafe(recipe);
    struct code_note note;
    if (!code_note_find(a->noted_by, code, fingerprint, &note))
        return 0;
    bytes_copy(to, note.name.words, note.name.bytes);
    bytes_copy(to + note.name.bytes, note.file.words, note.file.bytes);
    record->part_bytes[part] = note.name.bytes;
    record->part_bytes[PART_FILE_NAME] = note.file.bytes;
    record->detail[0] = note.first_line;
    record->flags = (u16)(note.name.is_cut << (CODE_CUT_SHIFT + part) | note.file.is_cut << (CODE_CUT_SHIFT + PART_FILE_NAME) |
                          note.name.wide << (CODE_WIDE_SHIFT + 2 * part) |
                          note.file.wide << (CODE_WIDE_SHIFT + 2 * PART_FILE_NAME));
    return note.name.bytes + note.file.bytes;
}

static void record_part_clear(struct code_record *record)
{
    u32 part;
    for (part = 0; part < CODE_PARTS; part++)
        record->part_bytes[part] = 0;
    record->detail[0] = record->detail[1] = 0;
}

/* Send a code object to the host. `owner`: of Ruby, the class that has it. `content`: what it holds. Returns its number; 0 if there is no room. */
static u32 code_send(struct agent *a, u32 recipe_index, u64 code, u32 fingerprint, u64 owner, u64 content)
{
    const u64 *recipe = a->recipes[recipe_index];
    u32 most = (u32)sizeof(struct code_record) + RECORD_BYTES_MAX;
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
    else if (recipe[RECIPE_RUNTIME] == RUNTIME_RUBY)
        used = ruby_code_copy(a, recipe, code, owner, content, record, (u8 *)(record + 1));
    else
        used = code_copy(a, recipe, code, content, record, (u8 *)(record + 1));
    if (!used && recipe[RECIPE_RUNTIME] != RUNTIME_HOTSPOT) {
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

/* Empty the table. Handlers read it meanwhile, so each word changes at once: half a number would be another's. */
static void codes_forget(struct agent *a)
{
    u32 i;
    for (i = 0; i < CODE_TABLE_SLOTS; i++) {
        store_release_u64((volatile u64 *)&a->codes[i].known, 0);
        store_release_u64((volatile u64 *)&a->codes[i].code, 0);
    }
    a->code_count = 0;
}

/* Keep the number of a code object for the handlers. */
static void code_keep(struct agent *a, u64 code, u32 fingerprint, u32 code_id)
{
    u32 at = code_slot_first_sigsafe(code), probes;
    if (a->code_count >= CODE_TABLE_SLOTS / 4 * 3)
        codes_forget(a);
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
