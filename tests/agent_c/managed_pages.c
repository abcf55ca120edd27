/*
 * The handler's reads of an interpreter's memory: a page that could be read in one walk may be gone in the next. Built behind
 * the agent's sources. Prints how many walks read the page while it was there, and after it was gone; how many reads near
 * address 0 gave something; and how many walks read bytes on two pages whose second one was gone.
 */
#include <stdio.h>
#include <sys/mman.h>

#define WALKS (2 * (u32)PAGE_BYTES + 8)   /* the number of the walk comes round twice */
#define PAGES 3                           /* the second one is not the page that was read last */

static u32 reads(struct managed_walk *w, const u8 *memory)
{
    u32 i, done = 0;
    u64 value;
    managed_forget_pages_sigsafe(w);
    for (i = 0; i < 2 * PAGES; i++)
        done += managed_word_sigsafe(w, (u64)(memory + i % PAGES * PAGE_BYTES + 8), &value);
    return done == 2 * PAGES;
}

/* What begins 16 bytes before the end of the first page. */
static u32 spans(struct managed_walk *w, const u8 *memory)
{
    managed_forget_pages_sigsafe(w);
    return managed_span_sigsafe(w, (u64)(memory + PAGE_BYTES - 16), 64) != 0;
}

int main(void)
{
    struct agent *a = pages_new(sizeof *a);
    struct managed_walk *w = pages_new(sizeof *w);
    u32 i, there = 0, gone = 0, low = 0, torn = 0;
    u64 value;
    w->agent = a;
    w->in_handler = 1;
    for (i = 0; i < 64; i += 8)
        low += managed_word_sigsafe(w, i, &value);
    for (i = 0; i < WALKS; i++) {
        u8 *memory = pages_new(PAGES * PAGE_BYTES);
        there += reads(w, memory) && spans(w, memory);
        munmap(memory + PAGE_BYTES, PAGE_BYTES);
        torn += spans(w, memory);
        munmap(memory, PAGES * PAGE_BYTES);
        gone += reads(w, memory);
        low += managed_word_sigsafe(w, 8 * (i % 512), &value);
    }
    printf("%u %u %u %u\n", WALKS - there, gone, low, torn);
    return 0;
}
