/*
 * Records of Ruby's functions for the host. Sampler thread only.
 *
 * The target goes on meanwhile, and may free the function and use its memory again, in parts. So a record is sent only if the
 * texts that were copied, and what the function is known by after all was copied, make the fingerprint that the handler saw.
 */

/* Copy a text or table. Returns its bytes; 0 if it cannot be read. */
static u32 ruby_part_copy(struct agent *a, const struct python_text *text, u32 part, struct code_record *record, u8 *to)
{
    if (read_memory(a, text->data + text_skipped_sigsafe(text), to, text->bytes) != (i64)text->bytes)
        return 0;
    record->flags |= (u16)(text->is_cut << (CODE_CUT_SHIFT + part));
    return text->bytes;
}

/* Copy what the record of a function says. Returns its bytes behind the record; 0 if the function is gone. */
static u32 ruby_code_copy(struct agent *a, const u64 *recipe, u64 code, u64 owner, u32 fingerprint, struct code_record *record,
                          u8 *to)
{
    struct managed_walk *w = sampler_walk(a);
    struct ruby_texts copied;
    struct python_text text;
    u64 body = 0, now = code;
    u32 used = 0, part, line = 0, lines = 0, is_singleton = 0;
    for (part = 0; part < PART_LINE_TABLE; part++) {
        copied.at[part] = to + used;
        if (ruby_text_sigsafe(w, recipe, code, owner, part, &is_singleton, &text))
            used += record->part_bytes[part] = ruby_part_copy(a, &text, part, record, to + used);
    }
    copied.bytes = record->part_bytes;
    if (ruby_body_sigsafe(w, recipe, &now, &body)) {
        ruby_first_line_sigsafe(w, recipe, code, &line);
        if (ruby_lines_sigsafe(w, recipe, body, &text))
            lines = ruby_part_copy(a, &text, PART_LINE_TABLE, record, to + used);
        record->part_bytes[PART_LINE_TABLE] = lines;
        if (lines && ruby_places_sigsafe(w, recipe, body, &text))
            record->part_bytes[PART_LINE_TABLE] += ruby_part_copy(a, &text, PART_LINE_TABLE, record, to + used + lines);
        used += record->part_bytes[PART_LINE_TABLE];
    }
    record->detail[0] = line;
    record->detail[1] = lines | (is_singleton ? RUBY_SINGLETON : 0) | (body ? 0 : RUBY_IN_C);
    return ruby_fingerprint_sigsafe(sampler_walk(a), recipe, code, owner, &copied) == fingerprint ? used : 0;
}
