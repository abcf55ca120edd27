/*
 * Texts of Python: where the characters of a str object lie, and mixes of what texts hold, also of Ruby's. All of this may
 * run in the handler.
 *
 * A text is kept up to a limit: of a long name the begin, of a file name the end. Its mix is over CONTENT_BYTES_MAX bytes of
 * what is kept: the first ones of a name, the last ones of a file name. So a handler and the sampler, which has only the
 * kept part, find the same mix.
 */

#define NAME_CHARACTERS_MAX 1024
#define FILE_CHARACTERS_MAX 1024
#define CONTENT_BYTES_MAX 256

struct python_text {
    u64 data;                             /* runtime_addr of all its characters */
    u64 all_bytes;
    u32 bytes;                            /* kept of them */
    u32 wide;                             /* log2 of the bytes of a character */
    u32 is_tail;                          /* what is kept is the end */
    u32 is_cut;                           /* and not all */
};

/* Return the low 32 bits of a mix of two numbers. */
static u64 code_mix_sigsafe(u64 hash, u64 value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
    return hash ^ (hash >> 32);
}

/* Find the characters of a str object, of which `most` are kept. Returns 0 if it cannot be read, or is none. Context:
 * signal. */
static u32 text_of_string_sigsafe(struct managed_walk *w, const u64 *recipe, u64 string, u32 most, u32 is_tail,
                                  struct python_text *text)
{
    u64 length;
    u32 state, kind;
    if (!managed_word_sigsafe(w, string + recipe[RECIPE_STRING_LENGTH], &length) || length >> 40 ||
        !managed_u32_sigsafe(w, string + recipe[RECIPE_STRING_STATE], &state))
        return 0;
    state >>= recipe[RECIPE_STRING_KIND_SHIFT];
    kind = state & 7;
    if (kind != 1 && kind != 2 && kind != 4)
        return 0;
    text->data = string + (state >> 4 & 1 ? recipe[RECIPE_STRING_ASCII] : recipe[RECIPE_STRING_COMPACT]);
    if (!(state >> 3 & 1) &&              /* not compact: a pointer to them is there */
        !managed_word_sigsafe(w, string + recipe[RECIPE_STRING_COMPACT], &text->data))
        return 0;
    text->wide = kind == 4 ? 2 : kind - 1;
    text->all_bytes = length << text->wide;
    text->is_tail = is_tail;
    text->is_cut = length > most;
    text->bytes = (u32)(text->is_cut ? most : length) << text->wide;
    return 1;
}

/* The same for the bytes of a bytes object. Context: signal. */
static u32 text_of_bytes_sigsafe(struct managed_walk *w, const u64 *recipe, u64 object, u32 most, struct python_text *text)
{
    if (!managed_word_sigsafe(w, object + recipe[RECIPE_BYTES_LENGTH], &text->all_bytes))
        return 0;
    text->data = object + recipe[RECIPE_BYTES_DATA];
    text->wide = text->is_tail = 0;
    text->is_cut = text->all_bytes > most;
    text->bytes = text->is_cut ? most : (u32)text->all_bytes;
    return 1;
}

/* Return how many bytes of all lie before those that are kept. */
static u64 text_skipped_sigsafe(const struct python_text *text)
{
    return text->is_tail ? text->all_bytes - text->bytes : 0;
}

/* Read `count` bytes of a text, 1 to 8, as a word. Ruby's texts may begin anywhere. Context: signal. */
static u32 text_word_sigsafe(struct managed_walk *w, u64 runtime_addr, u32 count, u64 *word)
{
    u32 shift = (u32)(runtime_addr & 7) * 8;
    u64 next = 0;
    if (!managed_word_sigsafe(w, runtime_addr & ~7ULL, word))
        return 0;
    if (!shift)
        return 1;
    if (shift + 8 * count > 64 && !managed_word_sigsafe(w, (runtime_addr & ~7ULL) + 8, &next))
        return 0;
    *word = *word >> shift | next << (64 - shift);
    return 1;
}

/* Mix in a text. `copied`: what is kept of it, if that was copied; else it is read where it lies. Returns 0 if it cannot be
 * read. Context: signal. */
static u32 text_mix_sigsafe(struct managed_walk *w, const struct python_text *text, const u8 *copied, u64 *hash)
{
    u64 at = 0, end = text->bytes, word, skipped = text_skipped_sigsafe(text);
    u32 i;
    if (text->is_tail) {                  /* words as they lie: the begin of the text is aligned */
        end = text->all_bytes;
        if (text->bytes > CONTENT_BYTES_MAX)
            at = (end - CONTENT_BYTES_MAX + 7) & ~7ULL;
    } else if (end > CONTENT_BYTES_MAX) {
        end = CONTENT_BYTES_MAX;
    }
    *hash = code_mix_sigsafe(*hash, (u64)text->bytes << 2 | text->wide);
    for (; at < end; at += 8) {
        u32 count = end - at < 8 ? (u32)(end - at) : 8;
        word = 0;
        if (copied) {
            for (i = 0; i < count; i++)
                word |= (u64)copied[at - skipped + i] << 8 * i;
        } else if (!text_word_sigsafe(w, text->data + at, count, &word)) {
            return 0;
        }
        if (count < 8)
            word &= (1ULL << 8 * count) - 1;
        *hash = code_mix_sigsafe(*hash, word);
    }
    return 1;
}

/* Copy at most `most` bytes of the side that is kept, a multiple of 8, to `to`. Returns how many; 0 if they cannot be read.
 * Context: signal. */
static u32 text_copy_sigsafe(struct managed_walk *w, const struct python_text *text, u32 most, u64 *to)
{
    u64 from = text->is_tail && text->all_bytes > most ? (text->all_bytes - most + 7) & ~7ULL : 0;
    u32 bytes = text->all_bytes - from < most ? (u32)(text->all_bytes - from) : most, at;
    for (at = 0; at < bytes; at += 8)
        if (!text_word_sigsafe(w, text->data + from + at, bytes - at < 8 ? bytes - at : 8, &to[at / 8]))
            return 0;
    return bytes;
}
