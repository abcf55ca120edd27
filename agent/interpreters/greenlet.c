/*
 * Threads whose stack greenlet has switched (gevent, eventlet, SQLAlchemy's asyncio). All of this may run in the handler.
 *
 * All greenlets of a thread use the same stack: at a switch, greenlet copies the part that the next one needs to the heap,
 * the next one's part back, and gives the thread state the next one's frames. Thus
 *   - below a greenlet's first call lie frames of whichever greenlet ran there last: the stack ends there;
 *   - between the two copies the native frames are the next one's, and the interpreter's frames those of the last.
 */

/* Return whether the pc is greenlet's own. Context: signal. */
static u32 is_greenlet_code_sigsafe(const struct agent *a, u64 pc)
{
    u64 start = a->greenlet_start;
    return start && pc - start < a->greenlet_end - start;
}

/* Return the index of the first native frame of greenlet's from `from` on; NATIVE_NONE if there is none. Context:
 * signal. */
static u32 greenlet_frame_sigsafe(const struct unwinder *u, u32 from)
{
    u32 i;
    for (i = from; u->agent->greenlet_start && i < u->frame_count; i++)
        if (is_greenlet_code_sigsafe(u->agent, u->frames[i]))
            return i;
    return NATIVE_NONE;
}

/* Return whether `runtime_addr` is in a native frame of greenlet's: it makes a C frame for each greenlet (3.10 … 3.12).
 * Context: signal. */
static u32 is_greenlet_cframe_sigsafe(const struct managed_walk *w, const struct unwinder *u, u64 runtime_addr)
{
    u32 native = u->agent->greenlet_start ? native_of_sigsafe(w, u, runtime_addr, 0) : NATIVE_NONE;
    return native != NATIVE_NONE && is_greenlet_code_sigsafe(u->agent, u->frames[native]);
}

/* End the stack where the current greenlet began: at the last of adjacent frames of greenlet's, from native frame `from`
 * on. Context: signal. */
static void greenlet_end_sigsafe(struct unwinder *u, u32 from)
{
    u32 i = greenlet_frame_sigsafe(u, from);
    if (i == NATIVE_NONE)
        return;
    while (i + 1 < u->frame_count && is_greenlet_code_sigsafe(u->agent, u->frames[i + 1]))
        i++;
    u->frame_count = i + 1;
    u->verdict = u->guessed ? VERDICT_GUESSED : VERDICT_COMPLETE;
}

/*
 * Return whether native frame `loop` runs the innermost frame of the chain: the interpreter's loop keeps a pointer to it
 * over each call, in a register that those it calls have saved. Context: signal.
 */
static u32 is_frame_of_loop_sigsafe(const struct managed_walk *w, struct unwinder *u, const u64 *gregs, u32 loop)
{
    u64 at, word, end;
    u32 i;
    if (loop == NATIVE_NONE)
        return 0;
    for (i = 0; gregs && i < GREG_RSP; i++)
        if (gregs[i] == w->leaf_frame)
            return 1;
    end = w->cfas[loop] - w->leaf_sp > GREENLET_SEARCH_BYTES ? w->leaf_sp + GREENLET_SEARCH_BYTES : w->cfas[loop];
    for (at = w->leaf_sp & ~7ULL; at < end; at += 8)
        if (stack_word_sigsafe(u, at, &word) && word == w->leaf_frame)
            return 1;
    return 0;
}

/* Keep greenlet's own frames only: whose the others are is not known. Returns enum managed_verdict. Context: signal. */
static u32 between_greenlets_sigsafe(struct unwinder *u)
{
    greenlet_end_sigsafe(u, 0);
    return MANAGED_TORN;
}
