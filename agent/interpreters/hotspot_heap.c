/*
 * Find the code blob that contains a pc, by the map of segments of its heap: a byte for each segment says how many
 * segments further down its block begins, at least in part. All of this may run in the handler.
 *
 * src/hotspot/share/memory/heap.cpp, CodeHeap::find_block_for; code/codeBlob.hpp.
 */

#define SEGMENT_FREE 0xff
#define SEGMENT_HOPS_MAX 256              /* 254 segments each: blocks of 8 MB */
#define BLOB_BYTES_MAX (64U << 20)
#define BLOB_HEADER_BYTES 512             /* all offsets in a blob that we need are below */

struct unaligned_u64 {
    u64 value;
} __attribute__((packed));

struct unaligned_u32 {
    u32 value;
} __attribute__((packed));

/* Read a field of memory that is known to be mapped. Context: signal. */
static u64 field_u64_sigsafe(u64 runtime_addr)
{
    return ((const volatile struct unaligned_u64 *)runtime_addr)->value;
}

static u32 field_u32_sigsafe(u64 runtime_addr)
{
    return ((const volatile struct unaligned_u32 *)runtime_addr)->value;
}

static const struct code_heaps *code_heaps_sigsafe(const struct agent *a)
{
    return (const struct code_heaps *)load_acquire_u64((const volatile u64 *)&a->heaps);
}

/* Return the end of a heap: as the sampler thread saw it, or as it is now if `runtime_addr` is beyond. Context: signal. */
static u64 code_heap_end_sigsafe(const struct code_heap *heap, u64 runtime_addr)
{
    u64 bytes, mapped;
    if (runtime_addr - heap->low < heap->bytes)
        return heap->low + heap->bytes;
    bytes = field_u64_sigsafe(heap->high_at) - heap->low;
    mapped = (field_u64_sigsafe(heap->map_high_at) - heap->map) << heap->shift;
    bytes = mapped < bytes ? mapped : bytes;
    return heap->low + (bytes > heap->bytes && bytes <= heap->limit ? bytes : heap->bytes);
}

/* Return the heap that contains a runtime_addr; 0 if none does. Context: signal. */
static const struct code_heap *code_heap_sigsafe(const struct code_heaps *heaps, u64 runtime_addr)
{
    u32 i;
    if (!heaps || runtime_addr - heaps->low >= heaps->bytes)
        return (const struct code_heap *)0;
    for (i = 0; i < heaps->count; i++)
        if (runtime_addr - heaps->heaps[i].low < heaps->heaps[i].limit)
            return runtime_addr < code_heap_end_sigsafe(&heaps->heaps[i], runtime_addr) ? &heaps->heaps[i]
                                                                                         : (const struct code_heap *)0;
    return (const struct code_heap *)0;
}

/* Return the block that contains `runtime_addr`; 0 if that is free. Context: signal. */
static u64 block_find_sigsafe(const struct code_heap *heap, u64 runtime_addr)
{
    u64 at = (runtime_addr - heap->low) >> heap->shift;
    u32 hops;
    for (hops = 0; hops < SEGMENT_HOPS_MAX; hops++) {
        u32 back = *(const volatile u8 *)(heap->map + at);
        if (back == SEGMENT_FREE || back > at)
            return 0;
        if (back == 0)
            return heap->low + (at << heap->shift);
        at -= back;
    }
    return 0;
}

/* Return the kind of a blob by the first characters of its name: its text is in the file of the virtual machine for all
 * that matter. Context: signal. */
static u32 blob_kind_sigsafe(const u64 *recipe, u64 name)
{
    u64 text;
    if (name < recipe[RECIPE_IMAGE_START] || name + 16 > recipe[RECIPE_IMAGE_END])
        return BLOB_OTHER;
    text = field_u64_sigsafe(name);
    if (text == 0x00646f6874656d6eULL)    /* nmethod */
        return BLOB_COMPILED;
    if (text == 0x6e2065766974616eULL)    /* native nmethod */
        return BLOB_NATIVE;
    if (text == 0x6572707265746e49ULL)    /* Interpreter */
        return BLOB_INTERPRETER;
    if (text == 0x74756f5262757453ULL)    /* StubRoutines (continuation stubs), … */
        return name + 24 <= recipe[RECIPE_IMAGE_END] && field_u64_sigsafe(name + 13) == 0x756e69746e6f6328ULL ? BLOB_BACK
                                                                                                             : BLOB_STUBS;
    if (text == 0x204932432f433249ULL ||  /* I2C/C2I adapters */
        text == 0x7372657470616461ULL ||  /* adapters */
        text == 0x6320656c62617476ULL ||  /* vtable chunks */
        text == 0x6148646f6874654dULL)    /* MethodHandles adapters */
        return BLOB_BARE;
    return BLOB_OTHER;
}

/* Read the blob that contains `pc`, which is in this heap. Returns 0 if there is none. Context: signal. */
static u32 blob_read_sigsafe(const u64 *recipe, const struct code_heap *heap, u64 pc, struct code_blob *blob)
{
    u64 block = block_find_sigsafe(heap, pc), header_end = block + recipe[HOTSPOT_BLOCK_BYTES] + BLOB_HEADER_BYTES, bytes;
    if (!block || header_end > code_heap_end_sigsafe(heap, header_end - 1) ||
        !*(const volatile u8 *)(block + recipe[HOTSPOT_BLOCK_USED]))
        return 0;
    blob->start = block + recipe[HOTSPOT_BLOCK_BYTES];
    bytes = field_u32_sigsafe(blob->start + recipe[HOTSPOT_BLOB_BYTES]);
    blob->end = blob->start + bytes;
    if (recipe[HOTSPOT_BLOB_CODE] == ABSENT)
        blob->code = blob->start + (field_u32_sigsafe(blob->start + recipe[HOTSPOT_BLOB_CODE_OFFSET]) & 0xffff);
    else
        blob->code = field_u64_sigsafe(blob->start + recipe[HOTSPOT_BLOB_CODE]);
    /* What begins in memory that was seen may end in memory that came since. */
    blob->limit = code_heap_end_sigsafe(heap, blob->end - 1);
    if (bytes > BLOB_BYTES_MAX || blob->end > blob->limit || blob->code < blob->start || pc < blob->code || pc >= blob->end)
        return 0;
    blob->kind = blob_kind_sigsafe(recipe, field_u64_sigsafe(blob->start + recipe[HOTSPOT_BLOB_NAME]));
    blob->frame_words = (i32)field_u32_sigsafe(blob->start + recipe[HOTSPOT_BLOB_FRAME_WORDS]);
    blob->frame_complete = (i16)field_u32_sigsafe(blob->start + recipe[HOTSPOT_BLOB_FRAME_COMPLETE]);
    blob->compile_id = blob->kind == BLOB_COMPILED || blob->kind == BLOB_NATIVE
                           ? field_u32_sigsafe(blob->start + recipe[HOTSPOT_COMPILED_ID]) : 0;
    return 1;
}

/* Find the blob that contains `pc`. Returns 0 if there is none. Context: signal. */
static u32 blob_find_sigsafe(const u64 *recipe, const struct code_heaps *heaps, u64 pc, struct code_blob *blob)
{
    const struct code_heap *heap;
    u32 i;
    for (i = 0; i < KNOWN_BLOBS; i++)
        if (pc - heaps->known[i].code < heaps->known[i].end - heaps->known[i].code) {
            *blob = heaps->known[i];
            return 1;
        }
    heap = code_heap_sigsafe(heaps, pc);
    return heap && blob_read_sigsafe(recipe, heap, pc, blob);
}

/* Return whether Java code can be returned to at this address. Context: signal. */
static u32 is_java_return_sigsafe(const u64 *recipe, const struct code_heaps *heaps, u64 return_address)
{
    struct code_blob blob;
    return return_address && blob_find_sigsafe(recipe, heaps, return_address - 1, &blob) && blob.kind != BLOB_BARE;
}
