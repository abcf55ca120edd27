/*
 * Two interpreters of different builds in one process: the native frames of their loops have different sizes. Built behind
 * the agent's sources. A whole stack shows where each one's loop keeps its anchor. In the next, which is a guess from its
 * leaf on, both runs are in the same places. Prints how many runs were given their native frame in each.
 */
#include <stdio.h>
#include <string.h>

#define STACK 0x7f0000001000ULL
#define FRAMES 4

static u32 placed(struct agent *a, struct managed_walk *w, u32 is_guessed)
{
    static u64 frames[FRAMES];
    static const u64 distances[2] = {144, 176};
    struct unwinder u;
    u32 i, count = 0;
    memset(&u, 0, sizeof u);
    u.agent = a;
    u.frames = frames;
    u.frame_count = FRAMES;
    u.guessed = is_guessed;
    w->leaf_sp = STACK;
    w->placed = w->run_count = 0;
    for (i = 0; i < FRAMES; i++) {
        frames[i] = 0x400000 + i;
        w->cfas[i] = STACK + 512 * (i + 1);
    }
    for (i = 0; i < 2; i++) {             /* native frames 1 and 3 are their loops */
        w->recipe = i;
        run_begin_sigsafe(w);
        run_end_sigsafe(w, w->cfas[2 * i + 1] - distances[i]);
    }
    runs_place_sigsafe(w, &u, 0);
    for (i = 0; i < w->run_count; i++)
        count += w->runs[i].is_placed && w->runs[i].native == 2 * i + 1;
    return count;
}

int main(void)
{
    struct agent *a = pages_new(sizeof *a);
    struct managed_walk *w = pages_new(sizeof *w);
    w->agent = a;
    u32 whole = placed(a, w, 0);
    printf("%u %u\n", whole, placed(a, w, 1));
    return 0;
}
