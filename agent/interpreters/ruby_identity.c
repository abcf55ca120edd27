/*
 * What tells functions of Ruby apart, also from one that later gets the same address: an iseq or, of a method in C, its entry,
 * and the class that has the method. All of this may run in the handler.
 */

/* Texts of a function that were copied, by part. */
struct ruby_texts {
    const u8 *at[PART_LINE_TABLE];
    const u32 *bytes;
};

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

/* Mix in a text of a function; `copied`: those that were copied, or 0. Returns 0 if it cannot be read, or what was copied is
 * not that. Context: signal. */
static u32 ruby_mix_sigsafe(struct managed_walk *w, const u64 *recipe, u64 code, u64 owner, u32 part,
                            const struct ruby_texts *copied, u64 *hash)
{
    struct python_text text;
    u32 is_singleton = 0;
    if (!ruby_text_sigsafe(w, recipe, code, owner, part, &is_singleton, &text))
        return part == PART_CLASS_PATH && (!copied || !copied->bytes[part]);
    *hash = code_mix_sigsafe(*hash, is_singleton);
    if (copied && copied->bytes[part] != text.bytes)
        return 0;
    return text_mix_sigsafe(w, &text, copied ? copied->at[part] : (const u8 *)0, hash);
}

/* Mix in what an iseq is known by. Returns 0 if it cannot be read. Context: signal. */
static u32 ruby_iseq_mix_sigsafe(struct managed_walk *w, const u64 *recipe, u64 body, u64 *hash)
{
    u64 lines, line = 0;
    u32 count, words, number, i;
    if (!managed_word_sigsafe(w, body + recipe[RECIPE_CODE_LINE_TABLE], &lines) ||
        !managed_u32_sigsafe(w, body + recipe[RUBY_BODY_LINES], &count) ||
        !managed_u32_sigsafe(w, body + recipe[RUBY_BODY_WORDS], &words))
        return 0;
    *hash = code_mix_sigsafe(code_mix_sigsafe(code_mix_sigsafe(*hash, body), lines), (u64)count << 32 | words);
    for (i = 0; i < RUBY_EXTENT_WORDS; i++) {
        if (!managed_u32_sigsafe(w, body + recipe[RUBY_BODY_EXTENT] + 4 * i, &number))
            return 0;
        *hash = code_mix_sigsafe(*hash, number);
    }
    /* A part of its lines: it may have been edited and read again. */
    if (count && !managed_word_sigsafe(w, (lines + (u64)(count / 2) * RUBY_LINE_BYTES) & ~7ULL, &line))
        return 0;
    *hash = code_mix_sigsafe(*hash, line);
    return 1;
}

/* Compute the fingerprint of a function: an iseq is known by its body, its extent in the file, and what its label and path
 * hold; a method in C by the number of its name; both by the path of the class. `copied`: texts that were copied, 0 to read
 * them where they lie. Returns 0 if the memory is no function. Context: signal. */
static u32 ruby_fingerprint_sigsafe(struct managed_walk *w, const u64 *recipe, u64 code, u64 owner,
                                    const struct ruby_texts *copied)
{
    u64 body, definition, number, hash = 0;
    if (ruby_body_sigsafe(w, recipe, &code, &body)) {
        if (!ruby_iseq_mix_sigsafe(w, recipe, body, &hash) ||
            !ruby_mix_sigsafe(w, recipe, code, owner, PART_NAME, copied, &hash) ||
            !ruby_mix_sigsafe(w, recipe, code, owner, PART_FILE_NAME, copied, &hash))
            return 0;
    } else {
        if (!ruby_is_method_sigsafe(w, &code) || !managed_word_sigsafe(w, code + RUBY_METHOD_DEFINITION, &definition) ||
            !managed_word_sigsafe(w, definition + RUBY_DEFINITION_NAME, &number))
            return 0;
        hash = code_mix_sigsafe(hash, number);
    }
    if (!ruby_mix_sigsafe(w, recipe, code, owner, PART_CLASS_PATH, copied, &hash))
        return 0;
    return (u32)hash ? (u32)hash : 1;
}

/* Return what the function is kept by in the table of numbers. Context: signal. */
static u64 ruby_key_sigsafe(u64 code, u64 owner)
{
    return owner ? code_mix_sigsafe(code, owner) | 1 : code;
}
