/*
 * What tells functions of Ruby apart, also from one that later gets the same address: an iseq or, of a method in C, its entry,
 * and the class that has the method. All of this may run in the handler.
 */

/* Find one of the texts of a function: its name, the path of the class, or its file. Returns 0 if it has none. Context:
 * signal. */
static u32 ruby_text_sigsafe(struct managed_walk *w, const u64 *recipe, u64 code, u64 owner, u32 part, u32 *is_singleton,
                             struct python_text *text)
{
    u64 body;
    if (part == PART_CLASS_PATH)
        return ruby_class_sigsafe(w, recipe, owner, is_singleton, text);
    if (!ruby_body_sigsafe(w, recipe, &code, &body))
        return part == PART_NAME && ruby_is_method_sigsafe(w, &code) && ruby_method_name_sigsafe(w, recipe, code, text);
    return part == PART_NAME ? ruby_label_sigsafe(w, recipe, body, text) : ruby_path_sigsafe(w, recipe, body, text);
}

/* Find one part of a function's record: of PART_LINE_TABLE the first of its two tables. Returns 0 if it has none, or it cannot
 * be read. Context: signal. */
static u32 ruby_part_sigsafe(struct managed_walk *w, const u64 *recipe, u64 code, u64 owner, u32 part, u32 *is_singleton,
                             struct python_text *text)
{
    u64 body;
    if (part < PART_LINE_TABLE)
        return ruby_text_sigsafe(w, recipe, code, owner, part, is_singleton, text);
    return ruby_body_sigsafe(w, recipe, &code, &body) && ruby_lines_sigsafe(w, recipe, body, text);
}

/* Mix in a text of a function. Returns 0 if it cannot be read. Context: signal. */
static u32 ruby_mix_sigsafe(struct managed_walk *w, const u64 *recipe, u64 code, u64 owner, u32 part, u64 *hash)
{
    struct python_text text;
    u32 is_singleton = 0;
    if (!ruby_text_sigsafe(w, recipe, code, owner, part, &is_singleton, &text))
        return part == PART_CLASS_PATH;
    *hash = code_mix_sigsafe(*hash, is_singleton);
    return text_mix_sigsafe(w, &text, (const u8 *)0, hash);
}

/* Return a mix of what the record of a function says, CONTENT_BITS long: a record that is made later is right if it has the
 * same. Context: signal. */
static u64 ruby_content_sigsafe(struct managed_walk *w, const u64 *recipe, u64 code, u64 owner)
{
    struct python_text text;
    u64 hash = 0, mixed;
    u32 part, is_singleton = 0;
    for (part = 0; part < CODE_PARTS; part++) {
        mixed = hash;
        if (!ruby_part_sigsafe(w, recipe, code, owner, part, &is_singleton, &text) ||
            !text_mix_sigsafe(w, &text, (const u8 *)0, &mixed))
            mixed = code_mix_sigsafe(hash, part);
        hash = mixed;
    }
    return code_mix_sigsafe(hash, is_singleton) & CONTENT_MASK;
}

/* Mix in what an iseq is known by, which is not that of a method. Returns 0 if it cannot be read. Context: signal. */
static u32 ruby_iseq_mix_sigsafe(struct managed_walk *w, const u64 *recipe, u64 code, u64 body, u64 *hash)
{
    u64 lines, line = 0;
    u32 count, number, i;
    if (!managed_word_sigsafe(w, body + recipe[RECIPE_CODE_LINE_TABLE], &lines) ||
        !managed_u32_sigsafe(w, body + recipe[RUBY_BODY_LINES], &count))
        return 0;
    *hash = code_mix_sigsafe(code_mix_sigsafe(code_mix_sigsafe(*hash, body), lines), count);
    for (i = 0; i < RUBY_EXTENT_WORDS; i++) {
        if (!managed_u32_sigsafe(w, body + recipe[RUBY_BODY_EXTENT] + 4 * i, &number))
            return 0;
        *hash = code_mix_sigsafe(*hash, number);
    }
    /* A part of its lines: it may have been edited and read again. */
    if (count && !managed_word_sigsafe(w, (lines + (u64)(count / 2) * RUBY_LINE_BYTES) & ~7ULL, &line))
        return 0;
    *hash = code_mix_sigsafe(*hash, line);
    return ruby_mix_sigsafe(w, recipe, code, 0, PART_NAME, hash) && ruby_mix_sigsafe(w, recipe, code, 0, PART_FILE_NAME, hash);
}

/* Mix in what a class is known by. Returns 0 if it cannot be read. Context: signal. */
static u32 ruby_class_mix_sigsafe(struct managed_walk *w, const u64 *recipe, u64 owner, u64 *hash)
{
    u64 serial;
    if (!owner || recipe[RUBY_CLASS_EXTENSION] == ABSENT)
        return 1;
    if (recipe[RUBY_CLASS_SERIAL] == ABSENT)
        return ruby_mix_sigsafe(w, recipe, 0, owner, PART_CLASS_PATH, hash);
    if (!managed_word_sigsafe(w, owner + recipe[RUBY_CLASS_SERIAL], &serial))
        return 0;
    *hash = code_mix_sigsafe(*hash, serial);
    return 1;
}

/*
 * Compute the fingerprint of a function. `method`: the method entry of the frame, or 0. A method, and the blocks in its code,
 * are known by the number of its definition, which no other one has, nor will have; any other iseq by its body, its extent in
 * the file, and what its label and path hold; a method in C by the number of its name; all by the class. Returns 0 if the
 * memory is no function. Context: signal.
 */
static u32 ruby_fingerprint_sigsafe(struct managed_walk *w, const u64 *recipe, u64 code, u64 owner, u64 method)
{
    u64 body, definition, number, hash = 0;
    if (ruby_body_sigsafe(w, recipe, &code, &body)) {
        if (method && ruby_serial_sigsafe(w, recipe, method, code, body, &number))
            hash = code_mix_sigsafe(code_mix_sigsafe(1, number), body);
        else if (!ruby_iseq_mix_sigsafe(w, recipe, code, body, &hash))
            return 0;
    } else {
        if (!ruby_is_method_sigsafe(w, &code) || !managed_word_sigsafe(w, code + RUBY_METHOD_DEFINITION, &definition) ||
            !managed_word_sigsafe(w, definition + RUBY_DEFINITION_NAME, &number))
            return 0;
        hash = code_mix_sigsafe(2, number);
    }
    if (!ruby_class_mix_sigsafe(w, recipe, owner, &hash))
        return 0;
    return (u32)hash ? (u32)hash : 1;
}

/* Return what the function is kept by in the table of numbers. Context: signal. */
static u64 ruby_key_sigsafe(u64 code, u64 owner)
{
    return owner ? code_mix_sigsafe(code, owner) | 1 : code;
}
