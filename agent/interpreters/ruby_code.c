/*
 * Ruby's instruction sequences ("iseqs": methods, blocks, class bodies, scripts): the parts of their records. All of this may
 * run in the handler.
 *
 * Iseqs, labels and paths are objects of Ruby's heap. Its collector may move them (GC.compact) and take access to their pages
 * away meanwhile, but only the thread that holds the lock (GVL) does that. So the handler of another thread copies what it
 * reads of them (managed_memory.c). A moved object leaves behind where it went.
 */

#define RUBY_TYPE_MASK 0x1f               /* of an object's flags, its first word: enum ruby_value_type */
#define RUBY_STRING 5
#define RUBY_ARRAY 7
#define RUBY_INTERNAL 0x1a
#define RUBY_MOVED 0x1e
#define RUBY_INTERNAL_SHIFT 12            /* of an internal object, its type: four bits */
#define RUBY_INTERNAL_ISEQ 7
#define RUBY_MOVED_TO 16                  /* RMoved.destination */
#define RUBY_IS_OUTSIDE 0x2000            /* of a string: its characters are not in it. Of an array: its elements are */
#define RUBY_LENGTH_MASK 31               /* of a string's length in its flags */
#define RUBY_ARRAY_ELEMENTS 16            /* of an array that holds them itself */
#define RUBY_ARRAY_POINTER 32             /* of others */
#define RUBY_LINE_BYTES 12                /* struct iseq_insn_info_entry */
#define RUBY_LINES_BYTES_MAX (4096 * RUBY_LINE_BYTES)
#define RUBY_PLACES_BYTES_MAX (LINE_TABLE_BYTES_MAX - RUBY_LINES_BYTES_MAX)
#define RUBY_PLACES_FIRST 54              /* places that the first part of the table is for, nine in a word */
#define RUBY_PLACES_BLOCK 512             /* and a block of the second */
#define RUBY_BLOCK_BYTES 80
#define RUBY_EXTENT_WORDS 4
#define PART_CLASS_PATH PART_QUALIFIED_NAME

/* Read the flags of an object, where it is now: `*object` is set to that. Returns 0 if it is not of that type. Context:
 * signal. */
static u32 ruby_object_sigsafe(struct managed_walk *w, u64 *object, u64 type, u64 *flags)
{
    if (!managed_word_sigsafe(w, *object, flags))
        return 0;
    if ((*flags & RUBY_TYPE_MASK) == RUBY_MOVED &&
        (!managed_word_sigsafe(w, *object + RUBY_MOVED_TO, object) || !managed_word_sigsafe(w, *object, flags)))
        return 0;
    return (*flags & RUBY_TYPE_MASK) == type;
}

/* Find the characters of a string, as text_of_string_sigsafe. Context: signal. */
static u32 ruby_string_sigsafe(struct managed_walk *w, const u64 *recipe, u64 string, u32 most, u32 is_tail,
                               struct python_text *text)
{
    u64 flags, length;
    if (!ruby_object_sigsafe(w, &string, RUBY_STRING, &flags))
        return 0;
    text->data = string + recipe[RECIPE_STRING_COMPACT];
    length = flags >> (recipe[RUBY_STRING_SHIFT] & 63) & RUBY_LENGTH_MASK;
    if ((recipe[RUBY_STRING_SHIFT] == ABSENT || flags & RUBY_IS_OUTSIDE) &&
        (!managed_word_sigsafe(w, string + recipe[RECIPE_STRING_LENGTH], &length) || length >> 40))
        return 0;
    if (flags & RUBY_IS_OUTSIDE && !managed_word_sigsafe(w, string + recipe[RUBY_STRING_POINTER], &text->data))
        return 0;
    text->wide = 0;
    text->all_bytes = length;
    text->is_tail = is_tail;
    text->is_cut = length > most;
    text->bytes = (u32)(text->is_cut ? most : length);
    return 1;
}

/* Find the path of an iseq: a string, or the first of an array of two. Context: signal. */
static u32 ruby_path_sigsafe(struct managed_walk *w, const u64 *recipe, u64 body, struct python_text *text)
{
    u64 path, array, flags, at;
    if (!managed_word_sigsafe(w, body + recipe[RECIPE_CODE_FILE_NAME], &path))
        return 0;
    array = path;
    if (ruby_object_sigsafe(w, &array, RUBY_ARRAY, &flags)) {
        at = array + RUBY_ARRAY_ELEMENTS;
        if ((!(flags & RUBY_IS_OUTSIDE) && !managed_word_sigsafe(w, array + RUBY_ARRAY_POINTER, &at)) ||
            !managed_word_sigsafe(w, at, &path))
            return 0;
    }
    return ruby_string_sigsafe(w, recipe, path, FILE_CHARACTERS_MAX, 1, text);
}

/* Find the body of an iseq. Sets `*iseq` to where it is now. Returns 0 if it is none. Context: signal. */
static u32 ruby_body_sigsafe(struct managed_walk *w, const u64 *recipe, u64 *iseq, u64 *body)
{
    u64 flags;
    return ruby_object_sigsafe(w, iseq, RUBY_INTERNAL, &flags) && (flags >> RUBY_INTERNAL_SHIFT & 15) == RUBY_INTERNAL_ISEQ &&
           managed_word_sigsafe(w, *iseq + recipe[RUBY_CODE_BODY], body) && *body;
}

/* Find one of the two tables that lines are told by, of which `most` bytes are kept. Context: signal. */
static u32 ruby_table_sigsafe(struct managed_walk *w, u64 pointer, u64 bytes, u32 most, struct python_text *text)
{
    if (!managed_word_sigsafe(w, pointer, &text->data) || !text->data)
        return 0;
    text->wide = text->is_tail = 0;
    text->all_bytes = bytes;
    text->is_cut = bytes > most;
    text->bytes = text->is_cut ? most : (u32)bytes;
    return 1;
}

/* Return the bytes of the table of places for so many words of instructions (succ_index_table_create). Context: signal. */
static u64 ruby_places_bytes_sigsafe(u64 words)
{
    if (words < RUBY_PLACES_FIRST)
        return (words + 8) / 9 * 8;
    return RUBY_PLACES_FIRST / 9 * 8 + (words - RUBY_PLACES_FIRST + RUBY_PLACES_BLOCK - 1) / RUBY_PLACES_BLOCK * RUBY_BLOCK_BYTES;
}

/* Find the label of an iseq. Context: signal. */
static u32 ruby_label_sigsafe(struct managed_walk *w, const u64 *recipe, u64 body, struct python_text *text)
{
    u64 label;
    return managed_word_sigsafe(w, body + recipe[RECIPE_CODE_NAME], &label) &&
           ruby_string_sigsafe(w, recipe, label, NAME_CHARACTERS_MAX, 0, text);
}

/* Find the table of lines of an iseq. Context: signal. */
static u32 ruby_lines_sigsafe(struct managed_walk *w, const u64 *recipe, u64 body, struct python_text *text)
{
    u32 count;
    return managed_u32_sigsafe(w, body + recipe[RUBY_BODY_LINES], &count) &&
           ruby_table_sigsafe(w, body + recipe[RECIPE_CODE_LINE_TABLE], (u64)count * RUBY_LINE_BYTES, RUBY_LINES_BYTES_MAX,
                              text);
}

/* Find the table that says which entry of the former is whose. Context: signal. */
static u32 ruby_places_sigsafe(struct managed_walk *w, const u64 *recipe, u64 body, struct python_text *text)
{
    u32 words;
    return managed_u32_sigsafe(w, body + recipe[RUBY_BODY_WORDS], &words) &&
           ruby_table_sigsafe(w, body + recipe[RUBY_BODY_PLACES], ruby_places_bytes_sigsafe(words), RUBY_PLACES_BYTES_MAX, text);
}

/* Read the first line of an iseq. Context: signal. */
static u32 ruby_first_line_sigsafe(struct managed_walk *w, const u64 *recipe, u64 iseq, u32 *line)
{
    u64 body;
    if (!ruby_body_sigsafe(w, recipe, &iseq, &body) || !managed_u32_sigsafe(w, body + recipe[RECIPE_CODE_FIRST_LINE], line))
        return 0;
    *line >>= recipe[RUBY_BODY_LINE_SHIFT];
    return 1;
}
