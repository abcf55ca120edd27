/*
 * Where the code heaps of HotSpot are: read again in each round, since they grow. Sampler thread only.
 */

#define HEAP_BYTES_READ 512               /* all offsets in a CodeHeap that we need are below */
#define HEAP_BYTES_MAX (4ULL << 30)
#define HEAPS_INTERVAL_NS 20000000ULL

/* Return up to where memory from `start` on is mapped as `wanted`: 1 code without a file, 0 data. */
static u64 mapped_end(const struct memory_map *map, u64 start, u64 end, u32 is_code)
{
    u64 at = start;
    while (at < end) {
        const struct code_range *code = is_code ? code_range_sigsafe(map, at) : (const struct code_range *)0;
        const struct memory_range *data = is_code ? (const struct memory_range *)0 : stack_range_sigsafe(map, at);
        if ((is_code && (!code || code->module || code->is_to_come)) || (!is_code && !data))
            return at;
        at = is_code ? code->end : data->end;
    }
    return end;
}

static u64 heap_word(const u8 *bytes, u64 offset)
{
    return offset + 8 <= HEAP_BYTES_READ ? *(const u64 *)(bytes + offset) : 0;
}

/* Read one code heap. Returns 0 if there is none, or nothing of it is mapped. */
static u32 heap_read(struct agent *a, const u64 *recipe, u64 runtime_addr, struct code_heap *heap)
{
    u8 bytes[HEAP_BYTES_READ];
    u64 high, end, map_end;
    bytes_zero(bytes, sizeof bytes);
    if (read_memory(a, runtime_addr, bytes, sizeof bytes) < 64)
        return 0;
    heap->low = heap_word(bytes, recipe[HOTSPOT_HEAP_LOW]);
    high = heap_word(bytes, recipe[HOTSPOT_HEAP_HIGH]);
    heap->map = heap_word(bytes, recipe[HOTSPOT_HEAP_MAP]);
    heap->shift = heap_word(bytes, recipe[HOTSPOT_HEAP_SEGMENT_SHIFT]) & 0xffffffff;
    if (!heap->low || heap->low & (PAGE_BYTES - 1) || high <= heap->low || high - heap->low > HEAP_BYTES_MAX ||
        heap->shift < 4 || heap->shift > 16)
        return 0;
    end = mapped_end(a->map, heap->low, high, 1);
    map_end = mapped_end(a->map, heap->map, heap->map + ((end - heap->low) >> heap->shift), 0);
    if (map_end - heap->map < (end - heap->low) >> heap->shift)
        end = heap->low + ((map_end - heap->map) << heap->shift);
    if (end < high)
        a->want_refresh = 1;              /* it has grown since the maps were read */
    heap->bytes = end - heap->low;
    heap->limit = heap_word(bytes, recipe[HOTSPOT_HEAP_LIMIT]) - heap->low;
    if (heap->limit < heap->bytes || heap->limit > HEAP_BYTES_MAX)
        heap->limit = heap->bytes;
    heap->high_at = runtime_addr + recipe[HOTSPOT_HEAP_HIGH];
    heap->map_high_at = runtime_addr + recipe[HOTSPOT_HEAP_MAP_HIGH];
    return heap->bytes != 0;
}

/* Read all code heaps of one virtual machine. Returns 0 if there are none. */
static u32 heaps_read(struct agent *a, u32 recipe_index, struct code_heaps *to)
{
    const u64 *recipe = a->recipes[recipe_index];
    const u64 known[KNOWN_BLOBS] = {recipe[HOTSPOT_INTERPRETER], recipe[HOTSPOT_CALL_STUB_RETURN] - 1};
    u64 high = 0;
    u32 i;
    bytes_zero(to, sizeof *to);
    to->low = ~0ULL;
    for (i = 0; i < HOTSPOT_HEAPS; i++) {
        struct code_heap *heap = &to->heaps[to->count];
        if (recipe[HOTSPOT_HEAP + i] == ABSENT || !heap_read(a, recipe, recipe[HOTSPOT_HEAP + i], heap))
            continue;
        to->low = heap->low < to->low ? heap->low : to->low;
        high = heap->low + heap->limit > high ? heap->low + heap->limit : high;
        to->count++;
    }
    if (!to->count)
        return 0;
    to->bytes = high - to->low;
    to->recipe = recipe_index;
    for (i = 0; i < KNOWN_BLOBS; i++) {
        struct code_blob blob;
        if (blob_find_sigsafe(recipe, to, known[i], &blob))
            to->known[i] = blob;
    }
    return 1;
}

/* Get memory for Java frames. Returns 0 if there is none. */
static u32 heaps_prepare(struct agent *a)
{
    if (a->heaps_pages)
        return a->place_words != 0;
    a->heaps_pages = agent_pages(a, 2 * sizeof *a->heaps_pages);
    a->frame_cache = agent_pages(a, FRAME_CACHE_BYTES);
    a->known_methods = agent_pages(a, 8 * KNOWN_METHODS);
    a->places = agent_pages(a, sizeof(struct java_place) * JAVA_PLACE_SLOTS);
    a->place_words = agent_pages(a, 8 * JAVA_PLACE_WORDS);
    a->resolved_words = agent_pages(a, 8 * MAX_FRAMES);
    return a->heaps_pages && a->places && a->place_words && a->resolved_words && managed_prepare(a);
}

/* Read the code heaps, if that is due, for the handlers to come. */
static void heaps_keep(struct agent *a, u64 now_ns)
{
    u64 used = now_ns - a->heaps_read_ns < HEAPS_INTERVAL_NS ? 0 : recipes_used_of(a, RUNTIME_HOTSPOT);
    u32 recipe_index = 0;
    struct code_heaps *to;
    if (!used || !heaps_prepare(a))
        return;
    /* The page to be written was replaced when they were read last: a handler may use it that began before, and lost its CPU. */
    if (oldest_handler_ns(a) <= a->heaps_read_ns)
        return;
    while (!(used >> recipe_index & 1))
        recipe_index++;
    a->heaps_read_ns = now_ns;
    java_threads_keep(a, a->recipes[recipe_index], now_ns);
    to = a->heaps == a->heaps_pages ? a->heaps_pages + 1 : a->heaps_pages;
    if (heaps_read(a, recipe_index, to))
        store_release_u64((volatile u64 *)&a->heaps, (u64)to);
}

/* Free the memory of Java frames. No handler may run. */
static void heaps_free(struct agent *a)
{
    pages_free(a->heaps_pages, 2 * sizeof *a->heaps_pages);
    pages_free((void *)a->frame_cache, FRAME_CACHE_BYTES);
    pages_free((void *)a->known_methods, 8 * KNOWN_METHODS);
    pages_free(a->places, sizeof(struct java_place) * JAVA_PLACE_SLOTS);
    pages_free(a->place_words, 8 * JAVA_PLACE_WORDS);
    pages_free(a->resolved_words, 8 * MAX_FRAMES);
}
