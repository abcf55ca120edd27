/*
 * Walk a thread's stack by its frame pointers, and pack what was seen into one piece of memory. Compiled by Frida where the
 * process runs (CModule), for any processor: `word` is the size of a pointer.
 *
 * A frame record is the caller's frame pointer, and then the return address. The thread runs on while we walk: a chain that
 * does not grow has been overwritten, and ends.
 */
#include <glib.h>
#include <gum/gummemory.h>

#define STACK_BYTES 16384         /* read at once */
#define MAX_STACK_BYTES 8388608   /* between two frames */

#define NO_STACK_ADDR 4096        /* nothing is mapped below */

struct piece {
    guint8 *bytes;
    guint64 addr;
    gsize count;
};

static guint64 word_at(const struct piece *piece, guint64 addr, guint word)
{
    const guint8 *from = piece->bytes + (addr - piece->addr);
    guint64 value = 0;
    guint i;
    for (i = 0; i < word; i++)
        value |= (guint64)from[i] << (8 * i);
    return value;
}

/* Have two words at `addr` in the piece; 0 if they cannot be read. */
static gboolean piece_reach(struct piece *piece, guint64 addr, guint word)
{
    gsize asked;
    if (piece->bytes != NULL && addr >= piece->addr && addr + 2 * word <= piece->addr + piece->count)
        return TRUE;
    g_free(piece->bytes);
    for (asked = STACK_BYTES; asked >= 2 * word; asked /= 4) { /* less near the end of the stack */
        piece->bytes = gum_memory_read((gconstpointer)(gsize)addr, asked, &piece->count);
        piece->addr = addr;
        if (piece->bytes != NULL && piece->count >= 2 * word)
            return TRUE;
        g_free(piece->bytes);
    }
    piece->bytes = NULL;
    return FALSE;
}

/*
 * Write the frames of a thread, innermost first, and return how many. `mask` keeps what is an address of a pointer: signed ones
 * have more bits. `is_whole` is set if the chain came to its end.
 */
guint walk(guint64 pc, guint64 sp, guint64 fp, guint word, guint64 mask, guint64 *frames, guint most, guint *is_whole)
{
    struct piece piece = { NULL, 0, 0 };
    guint64 below = sp;
    guint count = 0;
    *is_whole = 0;
    frames[count++] = pc & mask;
    fp &= mask;
    while (count < most) {
        guint64 next, caller;
        if (fp < NO_STACK_ADDR) { /* the first function of a program or thread has no caller's */
            *is_whole = 1;
            break;
        }
        if (fp < below || fp - below > MAX_STACK_BYTES || fp % word != 0 || !piece_reach(&piece, fp, word))
            break;
        next = word_at(&piece, fp, word) & mask;
        caller = word_at(&piece, fp + word, word) & mask;
        if (caller == 0) {
            *is_whole = 1;
            break;
        }
        frames[count++] = caller;
        below = fp + 2 * word;
        fp = next;
    }
    g_free(piece.bytes);
    return count;
}

/* What a look at all threads has seen: words of 64 bits. */
#define THREAD_WORDS 3

/* Add a thread at word `at`; return the next one, or `at` if there is no room. */
guint look_add(guint64 *look, guint at, guint limit, guint64 tid, guint state, guint64 pc, guint64 sp, guint64 fp, guint word,
               guint64 mask, guint most)
{
    guint count, is_whole;
    if (at + THREAD_WORDS + most > limit)
        return at;
    count = walk(pc, sp, fp, word, mask, look + at + THREAD_WORDS, most, &is_whole);
    look[at] = tid;
    look[at + 1] = state | (guint64)is_whole << 8;
    look[at + 2] = count;
    return at + THREAD_WORDS + count;
}

guint64 now_us(void)
{
    return (guint64)g_get_monotonic_time();
}
