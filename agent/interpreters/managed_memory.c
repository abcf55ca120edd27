/*
 * Reading the memory of an interpreter.
 *
 *   handler   in place, after a check that the page can be read: what the frames of the interrupted thread refer to
 *             cannot be freed meanwhile, and a chain that is being changed may lead anywhere. Copied in small pieces where
 *             another thread may take the memory away (Ruby's collector)
 *   sampler   copied page by page: the thread may wake up and free what we read
 *
 * Only aligned words are read, so none is on two pages. What ends in _sigsafe may run in the handler.
 */

#define PAGE_NONE 0ULL                    /* no page that can be read has this address */
#define LINE_NONE 1ULL                    /* no line has this address */
#define LOWEST_ADDRESS 65536ULL           /* nothing is mapped below: vm.mmap_min_addr */

/* Forget which pages can be read, and what was found in them: before each walk. A page is noted with the number of the walk
 * in the low bits of its address, so that they need not all be touched. Context: signal. */
static void managed_forget_pages_sigsafe(struct managed_walk *w)
{
    u32 i;
    w->page_last = 0;
    w->walk_number = (w->walk_number + 1) & (PAGE_BYTES - 1);
    if (!w->walk_number)
        for (i = 0; i < CACHED_PAGES; i++)
            w->pages[i] = PAGE_NONE;
    for (i = 0; i < MIXED_STRINGS; i++)
        w->mixed_strings[i].string = 0;
}

static void managed_forget_lines_sigsafe(struct managed_walk *w)
{
    u32 i;
    for (i = 0; i < CACHED_LINES; i++)
        w->lines[i] = LINE_NONE;
}

/* Copy the line that holds the bytes at `runtime_addr`, and return where they are; 0 if they cannot be read. Context:
 * signal. */
static const u8 *managed_copied_sigsafe(struct managed_walk *w, u64 runtime_addr)
{
    u64 line = runtime_addr & ~(LINE_BYTES - 1ULL);
    u32 at = (u32)(line / LINE_BYTES) & (CACHED_LINES - 1);
    if (w->lines[at] != line) {
        w->lines[at] = LINE_NONE;
        if (read_memory_sigsafe(w->agent, line, w->line_words[at], LINE_BYTES) != LINE_BYTES)
            return (const u8 *)0;
        w->lines[at] = line;
    }
    return (const u8 *)w->line_words[at] + (runtime_addr - line);
}

/* Return where the bytes at `runtime_addr` can be read now, up to the end of their page; 0 if nowhere. Context:
 * signal. */
static const u8 *managed_at_sigsafe(struct managed_walk *w, u64 runtime_addr)
{
    u64 page = runtime_addr & ~(PAGE_BYTES - 1);
    /* One of CACHED_PAGES places. All bits count: objects that belong together lie in pages that differ in few. */
    u32 at = (u32)(page * 0x9e3779b97f4a7c15ULL >> 56);
    /* A place that holds nothing yet looks like page 0. */
    if (w->pages[at] == (page | w->walk_number) && w->in_handler && !w->is_copying && page) {
        w->page_last = page | (PAGE_BYTES - 1);
        return (const u8 *)runtime_addr;
    }
    if (w->in_handler && (w->is_alive || runtime_addr - w->runtime_start < w->runtime_bytes ||
                          runtime_addr - w->stack_start < w->stack_bytes))
        return (const u8 *)runtime_addr;
    if (runtime_addr < LOWEST_ADDRESS || runtime_addr >> 47)
        return (const u8 *)0;
    if (w->is_copying)
        return managed_copied_sigsafe(w, runtime_addr);
    if (w->pages[at] != (page | w->walk_number)) {
        w->pages[at] = PAGE_NONE;
        if (w->in_handler ? !memory_is_readable_sigsafe(page)
                          : read_memory(w->agent, page, w->copies + at * PAGE_BYTES, PAGE_BYTES) != (i64)PAGE_BYTES)
            return (const u8 *)0;
        w->pages[at] = page | w->walk_number;
    }
    if (!w->in_handler)
        return w->copies + at * PAGE_BYTES + (runtime_addr - page);
    w->page_last = page | (PAGE_BYTES - 1);
    return (const u8 *)runtime_addr;
}

/* Read a word. Returns 0 if it cannot be read. Context: signal. */
static u32 managed_word_sigsafe(struct managed_walk *w, u64 runtime_addr, u64 *value)
{
    const u8 *at = (const u8 *)runtime_addr;
    if (runtime_addr & 7)
        return 0;
    if ((runtime_addr | (PAGE_BYTES - 1)) != w->page_last)
        at = managed_at_sigsafe(w, runtime_addr);
    if (!at)
        return 0;
    *value = *(const volatile u64 *)at;
    return 1;
}

/* Return where `bytes` bytes (a multiple of 8, at most SPAN_BYTES) can be read together; 0 if they cannot be read. The
 * next reading of anything may overwrite what is there. Context: signal. */
static const u8 *managed_span_sigsafe(struct managed_walk *w, u64 runtime_addr, u64 bytes)
{
    u64 last = runtime_addr + bytes - 8, i;
    const u8 *at;
    if (runtime_addr & 7 || bytes > SPAN_BYTES)
        return (const u8 *)0;
    if (!w->is_copying) {
        at = (runtime_addr | (PAGE_BYTES - 1)) == w->page_last ? (const u8 *)runtime_addr
                                                                : managed_at_sigsafe(w, runtime_addr);
        if (!at || !((runtime_addr ^ last) & ~(PAGE_BYTES - 1)))
            return at;
        if (w->in_handler)
            return managed_at_sigsafe(w, last) ? at : (const u8 *)0;
    }
    /* Copies of pages lie apart. */
    for (i = 0; i < bytes / 8; i++)
        if (!managed_word_sigsafe(w, runtime_addr + 8 * i, &w->span[i]))
            return (const u8 *)0;
    return (const u8 *)w->span;
}

/* The same for four bytes. Context: signal. */
static u32 managed_u32_sigsafe(struct managed_walk *w, u64 runtime_addr, u32 *value)
{
    const u8 *at = runtime_addr & 3 ? (const u8 *)0 : managed_at_sigsafe(w, runtime_addr);
    if (!at)
        return 0;
    *value = *(const volatile u32 *)at;
    return 1;
}

/* The same for two bytes. Context: signal. */
static u32 managed_u16_sigsafe(struct managed_walk *w, u64 runtime_addr, u32 *value)
{
    const u8 *at = runtime_addr & 1 ? (const u8 *)0 : managed_at_sigsafe(w, runtime_addr);
    if (!at)
        return 0;
    *value = *(const volatile u16 *)at;
    return 1;
}

/* The same for one byte. Context: signal. */
static u32 managed_u8_sigsafe(struct managed_walk *w, u64 runtime_addr, u8 *value)
{
    const u8 *at = managed_at_sigsafe(w, runtime_addr);
    if (!at)
        return 0;
    *value = *(const volatile u8 *)at;
    return 1;
}

/* Return the sampler thread's walk, which reads the target's memory anew. Sampler thread. */
static struct managed_walk *sampler_walk(struct agent *a)
{
    a->parked_walk->agent = a;
    a->parked_walk->in_handler = 0;
    a->parked_walk->runtime_bytes = a->parked_walk->stack_bytes = 0;
    managed_forget_pages_sigsafe(a->parked_walk);
    return a->parked_walk;
}
