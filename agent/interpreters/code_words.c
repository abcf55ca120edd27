/*
 * Stacks as the handlers have left them → as they go to the host: code objects by their numbers, and what compiled code of
 * Java and JavaScript stands for. Sampler thread only.
 */

/* Replace the code objects in a stack by their numbers. Sets `*count`, the number of words, and `*is_nearest`: the leaf is
 * Java's, and stands for what was noted for the next place in the code. Returns the words: in place, or in a buffer that the
 * next call uses again. */
static u64 *codes_resolve(struct agent *a, u64 *words, u32 *count, u32 *is_nearest)
{
    u64 *to = a->resolved_words ? a->resolved_words : words;
    u32 from = 0, used = 0;
    *is_nearest = 0;
    while (from < *count && used < MAX_FRAMES) {
        u64 code, key, detail, content = 0, owner = 0, kind = words[from] >> WORD_SHIFT;
        u32 id, recipe, fingerprint, length = JAVA_WORDS;
        if (kind == WORD_V8_MACHINE || kind == WORD_V8_INTERPRETED) {
            used += v8_frame_resolve(a, words, *count, &from, to + used);
            continue;
        }
        if (kind != WORD_CODE && kind != WORD_COMPILED) {
            to[used++] = words[from++];
            continue;
        }
        code = words[from] & WORD_ADDRESS_MASK;
        recipe = (u32)(words[from] >> WORD_RECIPE_SHIFT) & 0xff;
        if (a->recipes[recipe][RECIPE_RUNTIME] == RUNTIME_PYTHON)
            length = CODE_WORDS;
        else if (a->recipes[recipe][RECIPE_RUNTIME] == RUNTIME_RUBY)
            length = RUBY_WORDS;
        if (from + length > *count || words[from + length - 1] >> WORD_SHIFT != kind)
            break;                        /* cut in the middle of a frame */
        detail = words[from + 1];
        fingerprint = (u32)detail;
        if (length != JAVA_WORDS)
            content = words[from + length - 1] & CONTENT_MASK;
        if (length == RUBY_WORDS)
            owner = words[from + 2] & CONTENT_MASK;
        from += length;
        if (kind == WORD_COMPILED) {
            u32 placed = place_resolve(a, words[from - length], detail, to + used, MAX_FRAMES - used);
            *is_nearest |= placed && !used && (to[0] >> FRAME_POSITION_SHIFT & JAVA_NEAREST) != 0;
            used += placed;
            continue;
        }
        key = owner ? ruby_key_sigsafe(code, owner) : code;
        id = code_id_sigsafe(a, key, fingerprint);
        if (!id) {
            id = code_send(a, recipe, code, fingerprint, owner, content);
            if (!id) {
                count_up(a, COUNTER_CODES_LOST, 1);
                continue;
            }
            code_keep(a, key, fingerprint, id);
        }
        to[used++] = (u64)FRAME_KIND_MANAGED << WORD_SHIFT | (detail & ((u64)NO_POSITION << FRAME_POSITION_SHIFT)) | id;
    }
    *count = used;
    return to;
}
