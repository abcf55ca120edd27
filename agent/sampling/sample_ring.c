/*
 * A ring of samples for each thread, from its handler to the sampler thread, so that none is lost while the sampler
 * waits for a CPU.
 *
 *   handler         sample_begin_sigsafe … sample_end_sigsafe; moves samples_written
 *   sampler thread  sample_next … sample_drop; moves samples_read
 *
 * Each sample begins with its size. Where the deepest stack would not fit before the end of the ring, a record without
 * a stack fills the rest, and the next sample begins at the start. The ring holds two of the deepest samples: one at
 * the start never reaches such a record.
 */

#define SAMPLE_BYTES_MAX (sizeof(struct sample) + MAX_FRAMES * 8)

struct sample {
    u32 bytes;                            /* including its frames */
    u16 verdict;                          /* NO_SAMPLE: the rest of the record is unused */
    u8 managed_verdict;
    u8 marks;                             /* enum mark */
    u32 frame_count;
    u32 held_lock;                        /* number of a lock that the thread holds and others await; 0: none */
    u64 cpu_ns;                           /* the thread's CPU clock */
    u64 began_tsc;
    u64 took_tsc;
    u64 took_cpu_ns;                      /* the same by the thread's CPU clock, if it took so long that the thread
                                           * may have lost its CPU */
    u64 fault_pc;
    u64 sp;
    u64 thread_pointer;
    u64 alternate_start;
    u64 alternate_bytes;
    u64 frames[];                         /* words, leaf first: managed.h */
};

#define NO_SAMPLE 254                     /* value of `verdict`; only the first eight bytes of such a record exist */

static u32 samples_place(u64 position)
{
    return (u32)(position % SAMPLES_BYTES);
}

static struct sample *sample_at(const struct thread_slot *slot, u64 position)
{
    return (struct sample *)((u8 *)slot->frames + MAX_FRAMES * 8 + SLOT_COPY_BYTES + samples_place(position));
}

/* Return where to write the next sample, with room for a stack of any depth; 0 if there is none. Context: signal. */
static struct sample *sample_begin_sigsafe(struct thread_slot *slot)
{
    u64 written = slot->samples_written, read = load_acquire_u64(&slot->samples_read);
    u32 to_end = SAMPLES_BYTES - samples_place(written), skipped = 0;
    if (to_end < SAMPLE_BYTES_MAX)
        skipped = to_end;
    if (SAMPLES_BYTES - (written - read) < skipped + SAMPLE_BYTES_MAX)
        return (struct sample *)0;
    if (skipped) {
        struct sample *rest = sample_at(slot, written);
        rest->bytes = skipped;
        rest->verdict = NO_SAMPLE;
        store_release_u64(&slot->samples_written, written + skipped);
    }
    return sample_at(slot, written + skipped);
}

/* Publish a complete sample. Context: signal. */
static void sample_end_sigsafe(struct thread_slot *slot, struct sample *sample)
{
    sample->bytes = (u32)sizeof *sample + sample->frame_count * 8;
    store_release_u64(&slot->samples_written, slot->samples_written + sample->bytes);
}

/* Return the oldest sample that was not dropped yet; 0 if there is none. */
static struct sample *sample_next(struct thread_slot *slot)
{
    while (slot->frames && load_acquire_u64(&slot->samples_written) != slot->samples_read) {
        struct sample *sample = sample_at(slot, slot->samples_read);
        if (sample->verdict != NO_SAMPLE)
            return sample;
        store_release_u64(&slot->samples_read, slot->samples_read + sample->bytes);
    }
    return (struct sample *)0;
}

static void sample_drop(struct thread_slot *slot, const struct sample *sample)
{
    store_release_u64(&slot->samples_read, slot->samples_read + sample->bytes);
}
