/*
 * Step over frames of compiled Java code that were met before, which most are: two lines of memory for each beside the stack,
 * instead of six. Only callers: the innermost frame may be half made. All of this may run in the handler.
 *
 * Code is thrown away and made anew at the same place, so an entry counts only while its blob has the number of the
 * compilation that it had: no two have the same. An entry is four words, of which the last is made of the others: handlers
 * on several threads write them without a lock, and one that two have written at a time is no entry.
 */

struct frame_cache_entry {
    u64 key;                              /* return address << 16, words of the frame */
    u64 blob;                             /* runtime_addr */
    u64 compile_id;
    u64 check;
};

static volatile struct frame_cache_entry *frame_cache_entry_sigsafe(struct agent *a, u64 return_address)
{
    return (volatile struct frame_cache_entry *)a->frame_cache + ((return_address ^ return_address >> 12) & (FRAME_CACHE_SLOTS - 1));
}

/* Keep a frame of compiled code that is whole. Context: signal. */
static void frame_cache_keep_sigsafe(struct agent *a, u64 return_address, const struct code_blob *blob)
{
    u64 key = return_address << 16 | (u64)blob->frame_words;
    volatile struct frame_cache_entry *entry;
    if (!a->frame_cache || blob->frame_words > 0xffff)
        return;
    entry = frame_cache_entry_sigsafe(a, return_address);
    entry->key = 0;
    entry->blob = blob->start;
    entry->compile_id = blob->compile_id;
    entry->check = key ^ blob->start << 1 ^ (u64)blob->compile_id << 20;
    COMPILER_BARRIER();
    entry->key = key;
}

/*
 * Step as long as frames are known. Free of calls, as steps_by_packed_rules_sigsafe is. Leaves `u` at the first frame that
 * needs more. Returns 0 if there was none to step over. Context: signal.
 */
static u32 java_steps_by_cache_sigsafe(struct unwinder *u)
{
    const struct code_heaps *heaps = code_heaps_sigsafe(u->agent);
    const volatile struct frame_cache_entry *cache = (const volatile struct frame_cache_entry *)u->agent->frame_cache;
    u64 pc = u->pc, sp = u->sp, bp = u->bp, id_offset, first_mark, second_mark = (u64)WORD_COMPILED << WORD_SHIFT;
    u32 count = u->frame_count, first = count;
    if (!heaps || !cache || u->gregs || !count || pc - heaps->low >= heaps->bytes)
        return 0;
    id_offset = u->agent->recipes[heaps->recipe][HOTSPOT_COMPILED_ID];
    first_mark = second_mark | (u64)heaps->recipe << WORD_RECIPE_SHIFT;
    while (count + JAVA_WORDS <= MAX_FRAMES) {
        u64 ra = pc + 1, cfa, next;
        const volatile struct frame_cache_entry *entry = &cache[(ra ^ ra >> 12) & (FRAME_CACHE_SLOTS - 1)];
        u64 key = entry->key, blob = entry->blob, compile_id = entry->compile_id;
        if (key >> 16 != ra || entry->check != (key ^ blob << 1 ^ compile_id << 20) ||
            ((const volatile struct unaligned_u32 *)(blob + id_offset))->value != compile_id)
            break;
        cfa = sp + (key & 0xffff) * 8;
        if (cfa > u->window_end || cfa - 16 < u->window_start) {
            u->sp = sp;
            if (!window_holds_sigsafe(u, cfa - 16, cfa))
                break;
        }
        next = *(const u64 *)(cfa - 8 + u->window_delta);
        if (next <= 4096)
            break;
        if (u->cfas)
            u->cfas[count] = u->cfas[count + 1] = cfa;
        u->frames[count] = first_mark | ra;
        u->frames[count + 1] = second_mark | compile_id;
        count += JAVA_WORDS;
        bp = *(const u64 *)(cfa - 16 + u->window_delta);
        sp = cfa;
        pc = next - 1;
    }
    if (count == first)
        return 0;
    u->frame_count = count;
    u->pc = pc;
    u->sp = sp;
    u->bp = bp;
    u->bp_known = 1;
    if (!u->managed_verdict)
        u->managed_verdict = MANAGED_EXACT;
    return 1;
}
