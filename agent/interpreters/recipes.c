/*
 * The recipes that the host gives: one for each interpreter whose frames can be read. JS thread, if nothing else is said.
 *
 * A handler may use a recipe at any time, so one that was stored is never changed. A corrected recipe gets a place of its
 * own, and the sampler thread no longer lists thread states by the old one.
 */

static u32 recipe_equals(const u64 *one, const u64 *other)
{
    u32 i;
    for (i = 0; i < RECIPE_WORDS; i++)
        if (one[i] != other[i])
            return 0;
    return 1;
}

/* Use the recipe from now on, and store it if it is new. Returns its bit; 0 if there is no room. */
static u64 recipe_use(struct agent *a, const u64 *words)
{
    u32 i, count = a->recipe_count;
    for (i = 0; i < count; i++)
        if (recipe_equals(a->recipes[i], words))
            return 1ULL << i;
    if (count == RECIPES_STORED_MAX)
        return 0;
    bytes_copy(a->recipes[count], words, sizeof a->recipes[count]);
    store_release_u32(&a->recipe_count, count + 1);
    return 1ULL << count;
}

/* Use these recipes, RECIPE_WORDS numbers each, and no others. Returns how many there was no room for. */
static u32 recipes_set(struct agent *a, const u64 *words, u32 count)
{
    u64 used = 0;
    u32 i, refused = 0;
    for (i = 0; i < count; i++, words += RECIPE_WORDS) {
        u64 bit = recipe_use(a, words);
        used |= bit;
        refused += !bit;
    }
    store_release_u64(&a->recipes_used, used);
    a->dispositions_read_ns = 0;          /* handlers of interpreters are brief: disposition.c */
    return refused;
}

/* Return whether `runtime_addr` is in the file of a Python interpreter. Sampler thread. */
static u32 is_interpreters_code(const struct agent *a, u64 runtime_addr)
{
    u64 used = load_acquire_u64(&a->recipes_used);
    u32 i;
    for (i = 0; i < RECIPES_STORED_MAX; i++)
        if (used >> i & 1 && a->recipes[i][RECIPE_RUNTIME] == RUNTIME_PYTHON &&
            runtime_addr - a->recipes[i][RECIPE_IMAGE_START] <
                                 a->recipes[i][RECIPE_IMAGE_END] - a->recipes[i][RECIPE_IMAGE_START])
            return 1;
    return 0;
}
