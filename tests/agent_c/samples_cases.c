/*
 * The ring of samples between a handler and the sampler: samples of random depth go in, and come out in order and whole,
 * however full it is. Built behind the agent's sources. Prints how many went in, how many found no room, how many came out
 * wrong, and how often the ring was begun anew.
 */
#include <stdio.h>
#include <stdlib.h>

#define SAMPLES 200000
#define DEEP_ONE_IN 4                     /* the others have up to 40 frames */

static u64 frame_of(u64 number, u32 at)
{
    return number << 16 | at;
}

static u32 depth_of(u64 random)
{
    u32 depth = (u32)(random >> 20);
    return random % DEEP_ONE_IN ? depth % 40 : MAX_FRAMES - depth % 16;
}

static u32 is_whole(const struct sample *sample, u64 number)
{
    u32 i;
    for (i = 0; i < sample->frame_count; i++)
        if (sample->frames[i] != frame_of(number, i))
            return 0;
    return sample->cpu_ns == number && sample->frame_count <= MAX_FRAMES;
}

int main(void)
{
    static struct thread_slot slot;
    u64 random = 88172645463325252ULL, in = 0, lost = 0, out = 0, wrong = 0, i;
    /* Of its own allocation, so that a sanitizer sees what goes beyond. */
    slot.frames = calloc(1, SLOT_PAGES_BYTES);
    agent_cell = (struct agent *)0;
    for (i = 0; i < SAMPLES; i++) {
        struct sample *sample = sample_begin_sigsafe(&slot);
        u32 k;
        random = random_next(random);
        if (sample) {
            sample->verdict = VERDICT_COMPLETE;
            sample->cpu_ns = in;
            sample->frame_count = depth_of(random);
            for (k = 0; k < sample->frame_count; k++)
                sample->frames[k] = frame_of(in, k);
            sample_end_sigsafe(&slot, sample);
            in++;
        } else {
            lost++;
        }
        for (k = (u32)(random >> 60) % 3; k && (sample = sample_next(&slot)); k--) {
            wrong += !is_whole(sample, out++);
            sample_drop(&slot, sample);
        }
    }
    for (struct sample *sample; (sample = sample_next(&slot));) {
        wrong += !is_whole(sample, out++);
        sample_drop(&slot, sample);
    }
    printf("%llu %llu %llu %llu %llu\n", in, out, lost, wrong, slot.samples_written / SAMPLES_BYTES);
    free(slot.frames);
    return 0;
}
