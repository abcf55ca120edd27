/*
 * Records of Ruby's functions for the host. Sampler thread only.
 *
 * The target goes on meanwhile, and may free the function and use its memory again, in parts. So a record is sent only if it
 * holds what the handler found in the living function (ruby_content_sigsafe).
 */

/* Copy a text or table. Returns its bytes; 0 if it cannot be read. */
static u32 ruby_part_copy(struct agent *a, const struct python_text *text, u32 part, struct code_record *record, u8 *to)
{
    if (read_memory(a, text->data + text_skipped_sigsafe(text), to, text->bytes) != (i64)text->bytes)
        return 0;
    record->flags |= (u16)(text->is_cut << (CODE_CUT_SHIFT + part));
    return text->bytes;
}

/* Copy what the record of a function says. Returns its bytes behind the record; 0 if the function is gone: it does not hold
 * `content` now. */
static u32 ruby_code_copy(struct agent *a, const u64 *recipe, u64 code, u64 owner, u64 content, struct code_record *record,
                          u8 *to)
{
    struct managed_walk *w = sampler_walk(a);
    struct python_text text;
    u64 body, now = code, hash = 0;
    u32 used = 0, part, bytes, line = 0, lines = 0, is_singleton = 0, is_iseq = ruby_body_sigsafe(w, recipe, &now, &body);
    for (part = 0; part < CODE_PARTS; part++) {
        if (!ruby_part_sigsafe(w, recipe, code, owner, part, &is_singleton, &text) ||
            (!(bytes = ruby_part_copy(a, &text, part, record, to + used)) && text.bytes)) {
            hash = code_mix_sigsafe(hash, part);
            continue;
        }
        text_mix_sigsafe(w, &text, to + used, &hash);
        record->part_bytes[part] = bytes;
        used += bytes;
    }
    if (is_iseq) {
        ruby_first_line_sigsafe(w, recipe, code, &line);
        lines = record->part_bytes[PART_LINE_TABLE];
        if (lines && ruby_places_sigsafe(w, recipe, body, &text)) {
            bytes = ruby_part_copy(a, &text, PART_LINE_TABLE, record, to + used);
            record->part_bytes[PART_LINE_TABLE] += bytes;
            used += bytes;
        }
    }
    record->detail[0] = line;
    record->detail[1] = lines | (is_singleton ? RUBY_SINGLETON : 0) | (is_iseq ? 0 : RUBY_IN_C);
    return (code_mix_sigsafe(hash, is_singleton) & CONTENT_MASK) == content ? used : 0;
}
