/*
 * Names of code objects that have no number yet, copied while they are alive: a program may throw a function away before
 * the sampler thread reads its names (templates, exec).
 *
 *   handler   notes name, file and first line, after a walk has met such a code object: its frame keeps it alive
 *   sampler   uses the note if the object is gone (code_table.c)
 *
 * Each thread has its own notes: the last few. Texts are kept if they are ASCII, and as far as they fit.
 */

/* Copy the characters of a str object; of a long one the first, or the last if `is_tail`. Returns how many; 0 if it is not
 * ASCII. Context: signal. */
static u32 ascii_copy_sigsafe(struct managed_walk *w, const u64 *recipe, u64 string, u8 *to, u32 is_tail, u32 *is_cut)
{
    const u32 ascii = 1 | 1 << 3 | 1 << 4; /* kind 1, compact, ASCII */
    u64 length, data;
    u32 state, i;
    if (!managed_word_sigsafe(w, string + recipe[RECIPE_STRING_LENGTH], &length) ||
        !managed_u32_sigsafe(w, string + recipe[RECIPE_STRING_STATE], &state) ||
        (state >> recipe[RECIPE_STRING_KIND_SHIFT] & (7 | 3 << 3)) != ascii)
        return 0;
    data = string + recipe[RECIPE_STRING_ASCII];
    *is_cut = length > NOTED_CHARACTERS;
    if (*is_cut && is_tail)
        data += length - NOTED_CHARACTERS;
    if (*is_cut)
        length = NOTED_CHARACTERS;
    for (i = 0; i < length; i++)
        if (!managed_u8_sigsafe(w, data + i, &to[i]))
            return 0;
    return (u32)length;
}

/* Note a code object that is alive and has no number. Context: signal. */
static void code_note_sigsafe(struct managed_walk *w, const u64 *recipe, u64 code, u32 fingerprint)
{
    u64 name = recipe[RECIPE_CODE_QUALIFIED_NAME] == ABSENT ? recipe[RECIPE_CODE_NAME] : recipe[RECIPE_CODE_QUALIFIED_NAME];
    struct code_note *note;
    u64 string;
    u32 i;
    for (i = 0; i < CODE_NOTES; i++)
        if (w->notes[i].code == code && w->notes[i].fingerprint == fingerprint)
            return;
    note = &w->notes[w->next_note++ % CODE_NOTES];
    store_release_u32(&note->version, note->version + 1);
    note->code = code;
    note->fingerprint = fingerprint;
    note->name_cut = note->file_cut = 0;
    note->name_bytes = note->file_bytes = note->first_line = 0;
    managed_u32_sigsafe(w, code + recipe[RECIPE_CODE_FIRST_LINE], &note->first_line);
    if (managed_word_sigsafe(w, code + name, &string))
        note->name_bytes = ascii_copy_sigsafe(w, recipe, string, note->name, 0, &note->name_cut);
    if (managed_word_sigsafe(w, code + recipe[RECIPE_CODE_FILE_NAME], &string))
        note->file_bytes = ascii_copy_sigsafe(w, recipe, string, note->file, 1, &note->file_cut);
    store_release_u32(&note->version, note->version + 1);
}

/* Copy a thread's note of a code object; `w` is the thread's walk, 0 for none. Returns 0 if there is no whole note. Context:
 * sampler thread. */
static u32 code_note_find(const struct managed_walk *w, u64 code, u32 fingerprint, struct code_note *to)
{
    u32 i;
    for (i = 0; w && i < CODE_NOTES; i++) {
        const struct code_note *note = &w->notes[i];
        u32 version = load_acquire_u32(&note->version);
        if (note->code != code || note->fingerprint != fingerprint || version & 1)
            continue;
        bytes_copy(to, note, sizeof *to);
        COMPILER_BARRIER();
        return note->version == version && to->name_bytes != 0;
    }
    return 0;
}
