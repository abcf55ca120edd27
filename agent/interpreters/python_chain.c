/*
 * Where the walk over Python's frames begins in 3.11 and 3.12, whose loop links its C frame before it fills it in, and
 * whose compilers move stores around calls: at up to 1 of 100 instructions the chain leads to old frames or nowhere.
 * All of this may run in the handler.
 *
 * A C frame is a local of the loop. It points to the frame that runs, and to the C frame of the loop below it.
 */

#define CHAIN_MAX 4096                    /* frames of one run that are looked at to tell whether it is sound */
#define OWNER_CSTACK 3                    /* an entry frame, 3.12 …: a local of the loop */
#define LOCALS_BYTES 1024                 /* most bytes between two locals of the loop */
#define OWNER_THREAD 0                    /* a frame on the thread's data stack */

struct python_chain {
    u64 cframe;                           /* runtime_addr, 3.11 and 3.12 */
    u64 frame;                            /* runtime_addr of the innermost frame, 0: none */
    u32 verdict;                          /* enum managed_verdict */
};

/* What is read of a frame. */
struct python_frame {
    u64 code;                             /* runtime_addr */
    u64 previous;                         /* runtime_addr of its caller's frame */
    u64 position;                         /* in the code: a number of units, or a pointer */
    u8 owner;                             /* 0 where frames have none */
    u8 is_entry;
};

/* Read a frame. Returns 0 if it cannot be read, or is its own caller. Context: signal. */
static u32 frame_read_sigsafe(struct managed_walk *w, const u64 *recipe, u64 frame, struct python_frame *found)
{
    const u8 *at = managed_span_sigsafe(w, frame, w->frame_bytes);
    if (!at)
        return 0;
    found->code = *(const volatile u64 *)(at + recipe[RECIPE_FRAME_CODE]) & ~recipe[RECIPE_FRAME_CODE_TAGS];
    found->previous = *(const volatile u64 *)(at + recipe[RECIPE_FRAME_PREVIOUS]);
    found->position = recipe[RECIPE_FRAME_POSITION_UNIT] ? *(const volatile u32 *)(at + recipe[RECIPE_FRAME_POSITION])
                                                         : *(const volatile u64 *)(at + recipe[RECIPE_FRAME_POSITION]);
    found->owner = recipe[RECIPE_FRAME_OWNER] == ABSENT ? 0 : at[recipe[RECIPE_FRAME_OWNER]];
    found->is_entry = recipe[RECIPE_FRAME_IS_ENTRY] == ABSENT ? 0 : at[recipe[RECIPE_FRAME_IS_ENTRY]];
    return found->previous != frame;
}

/* Count one step along a chain. Returns 0 when there were too many: damaged chains may lead in a circle. Context: signal. */
static u32 walk_step_sigsafe(struct managed_walk *w)
{
    return w->steps_left && w->steps_left--;
}

/* Return whether what the C frame `cframe` runs ends where the one below it begins. Context: signal. */
static u32 ends_at_caller_sigsafe(struct managed_walk *w, const u64 *recipe, u64 cframe, u64 previous)
{
    u64 below, current;
    return managed_word_sigsafe(w, cframe + recipe[RECIPE_CFRAME_PREVIOUS], &below) &&
           managed_word_sigsafe(w, below + recipe[RECIPE_CFRAME_FRAME], &current) && current == previous;
}

/* Return whether the frames from `frame` on are one run of the loop that owns `cframe`. A deep recursion is one run: so many
 * frames in a row are no accident, unless they lead in a circle. Context: signal. */
static u32 is_run_sigsafe(struct managed_walk *w, const u64 *recipe, u64 cframe, u64 frame)
{
    u64 seen = 0;
    u32 steps;
    for (steps = 0; steps < CHAIN_MAX; steps++) {
        struct python_frame found;
        if (!walk_step_sigsafe(w) || !frame || !frame_read_sigsafe(w, recipe, frame, &found))
            return 0;
        if (recipe[RECIPE_WALK] == PYTHON_CFRAME_ENTRIES && found.owner == OWNER_CSTACK)
            return frame - cframe + LOCALS_BYTES < 2 * LOCALS_BYTES && ends_at_caller_sigsafe(w, recipe, cframe, found.previous);
        if (found.owner >= OWNER_CSTACK)
            return 0;
        if (recipe[RECIPE_WALK] == PYTHON_CFRAMES) {
            if (found.is_entry > 1)
                return 0;
            if (found.is_entry)
                return ends_at_caller_sigsafe(w, recipe, cframe, found.previous);
        }
        frame = found.previous;
        if (frame == seen)
            return 0;
        if (!(steps & (steps + 1)))
            seen = frame;
    }
    return 1;
}

/* Return whether `cframe` is filled in and its run is sound; sets `*frame` to what it runs. Context: signal. */
static u32 is_sound_sigsafe(struct managed_walk *w, const u64 *recipe, u64 state, u64 cframe, u64 *frame)
{
    if (!managed_word_sigsafe(w, cframe + recipe[RECIPE_CFRAME_FRAME], frame))
        return 0;
    if (cframe == state + recipe[RECIPE_THREAD_ROOT_CFRAME])
        return 1;
    return is_run_sigsafe(w, recipe, cframe, *frame);
}

/* Return the index of the native frame that contains `runtime_addr`, or NATIVE_NONE. Context: signal. */
static u32 native_of_sigsafe(const struct managed_walk *w, const struct unwinder *u, u64 runtime_addr, u32 from)
{
    u32 i;
    for (i = from; i < u->frame_count; i++) {
        u64 low = i ? w->cfas[i - 1] : w->leaf_sp;
        if (low && runtime_addr >= low && runtime_addr < w->cfas[i])
            return i;
    }
    return NATIVE_NONE;
}

/*
 * Find the C frame whose run is sound, when the innermost one is not:
 *   - the loop is between two stores around a call or a yield: the frame that runs is in a register;
 *   - the loop has just been entered: the C frame below lies as far from the end of its native frame as this one.
 * Context: signal.
 */
static u32 chain_repair_sigsafe(struct managed_walk *w, const u64 *recipe, u64 state, const struct unwinder *u,
                                const u64 *gregs, struct python_chain *chain)
{
    u32 native = native_of_sigsafe(w, u, chain->cframe, 0), i;
    u64 below, distance, root = state + recipe[RECIPE_THREAD_ROOT_CFRAME];
    chain->verdict = MANAGED_REPAIRED;
    if (native == NATIVE_NONE)
        return 0;
    if (native == 0 && gregs && managed_word_sigsafe(w, chain->cframe + recipe[RECIPE_CFRAME_PREVIOUS], &below) &&
        (below > chain->cframe || below == root))
        for (i = 0; i < GREG_RSP; i++)
            if (!(gregs[i] & 7) && is_run_sigsafe(w, recipe, chain->cframe, gregs[i])) {
                chain->frame = gregs[i];
                return 1;
            }
    distance = w->cfas[native] - chain->cframe;
    for (i = native + 1; i < u->frame_count; i++) {
        u64 cframe = w->cfas[i] - distance;
        if (w->cfas[i] && w->cfas[i - 1] && cframe >= w->cfas[i - 1] &&
            is_sound_sigsafe(w, recipe, state, cframe, &chain->frame)) {
            chain->cframe = cframe;
            return 1;
        }
    }
    /* The first call of the loop in this thread. */
    chain->cframe = root;
    return is_sound_sigsafe(w, recipe, state, chain->cframe, &chain->frame) && !chain->frame;
}

/* Leave out a frame that was popped from the data stack and is still linked: its caller runs. 3.11 … Context: signal. */
static void chain_skip_popped_sigsafe(struct managed_walk *w, const u64 *recipe, u64 state, u64 *frame)
{
    u64 top, chunk, bytes, previous;
    u8 owner, is_entry = 0;
    if (recipe[RECIPE_FRAME_IS_ENTRY] != ABSENT && *frame &&
        (!managed_u8_sigsafe(w, *frame + recipe[RECIPE_FRAME_IS_ENTRY], &is_entry) || is_entry))
        return;
    if (!*frame || recipe[RECIPE_THREAD_DATASTACK_TOP] == ABSENT ||
        !managed_u8_sigsafe(w, *frame + recipe[RECIPE_FRAME_OWNER], &owner) || owner != OWNER_THREAD ||
        !managed_word_sigsafe(w, state + recipe[RECIPE_THREAD_DATASTACK_TOP], &top) || *frame < top ||
        !managed_word_sigsafe(w, state + recipe[RECIPE_THREAD_DATASTACK_CHUNK], &chunk) || !chunk ||
        !managed_word_sigsafe(w, chunk + 8, &bytes) || *frame < chunk || *frame >= chunk + bytes ||
        !managed_word_sigsafe(w, *frame + recipe[RECIPE_FRAME_PREVIOUS], &previous))
        return;
    *frame = previous;
}

/* Find the innermost frame of a thread state. Returns 0 if it cannot be found. Context: signal. */
static u32 chain_begin_sigsafe(struct managed_walk *w, const u64 *recipe, u64 state, const struct unwinder *u,
                               const u64 *gregs, struct python_chain *chain)
{
    u64 walk = recipe[RECIPE_WALK];
    chain->verdict = MANAGED_EXACT;
    chain->cframe = chain->frame = 0;
    if (walk == PYTHON_CFRAMES || walk == PYTHON_CFRAME_ENTRIES) {
        if (!managed_word_sigsafe(w, state + recipe[RECIPE_THREAD_CFRAME], &chain->cframe))
            return 0;
        if (!is_sound_sigsafe(w, recipe, state, chain->cframe, &chain->frame) &&
            !chain_repair_sigsafe(w, recipe, state, u, gregs, chain))
            return 0;
    } else if (!managed_word_sigsafe(w, state + recipe[RECIPE_THREAD_FRAME], &chain->frame)) {
        return 0;
    }
    if (walk >= PYTHON_CFRAMES)
        chain_skip_popped_sigsafe(w, recipe, state, &chain->frame);
    return 1;
}
