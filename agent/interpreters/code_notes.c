/*
 * Names of code objects that have no number yet, copied while they are alive: a program may throw a function away before
 * the sampler thread reads its names (templates, exec).
 *
 *   handler   notes name, file and first line, after a walk has met such a code object: its frame keeps it alive
 *   sampler   uses the note if the object is gone (code_table.c)
 *
 * Each thread has its own notes: the last few. Texts are kept as far as they fit.
 */

/* Note a name, or the end of a file name. Context: signal. */
static void text_note_sigsafe(struct managed_walk *w, const u64 *recipe, u64 code, u32 part, struct noted_text *to)
{
    struct python_text text;
    to->bytes = 0;
    if (!code_part_sigsafe(w, recipe, code, part, &text))
        return;
    to->bytes = text_copy_sigsafe(w, &text, NOTED_BYTES, to->words);
    to->wide = (u16)text.wide;
    to->is_cut = to->bytes < text.all_bytes;
}

/* Return the part that the shown name is. */
static u32 shown_name_sigsafe(const u64 *recipe)
{
    return recipe[RECIPE_CODE_QUALIFIED_NAME] == ABSENT ? PART_NAME : PART_QUALIFIED_NAME;
}

/* Note a code object that is alive and has no number. Context: signal. */
static void code_note_sigsafe(struct managed_walk *w, const u64 *recipe, u64 code, u32 fingerprint)
{
    struct code_note *note;
    u32 i;
    if (w->noted >= CODE_NOTES)
        return;                           /* the innermost are noted: the others live longer */
    for (i = 0; i < CODE_NOTES; i++)
        if (w->notes[i].code == code && w->notes[i].fingerprint == fingerprint)
            return;
    w->noted++;
    note = &w->notes[w->next_note++ % CODE_NOTES];
    store_release_u32(&note->version, note->version + 1);
    note->code = code;
    note->fingerprint = fingerprint;
    note->first_line = 0;
    if (recipe[RECIPE_RUNTIME] == RUNTIME_RUBY)
        ruby_first_line_sigsafe(w, recipe, code, &note->first_line);
    else
        managed_u32_sigsafe(w, code + recipe[RECIPE_CODE_FIRST_LINE], &note->first_line);
    text_note_sigsafe(w, recipe, code, shown_name_sigsafe(recipe), &note->name);
    text_note_sigsafe(w, recipe, code, PART_FILE_NAME, &note->file);
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
        return note->version == version && to->name.bytes != 0;
    }
    return 0;
}
