/*
 * Interned stacks: each distinct stack goes to the host once and is referred to by number from then on. Sampler thread
 * only.
 *
 * A stack is identified by a 64-bit hash of its words, its verdicts and the number of the module map (a pc can have
 * another meaning after a dlclose). At three quarters full, the table is emptied and numbering continues: the host gets
 * some stacks a second time and recognises them by their frames, so nothing is lost and memory stays bounded.
 */

struct verdicts {
    u32 native;                           /* enum verdict */
    u32 managed;                          /* enum managed_verdict */
    u32 marks;                            /* enum mark */
    u64 fault_pc;
};

#define FRAME_ADDRESS_MASK ((1ULL << FRAME_MODULE_SHIFT) - 1)

static u64 hash_mix(u64 hash, u64 value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
    return hash ^ (hash >> 29);
}

/* Convert a word (managed.h) to a frame of the wire format. */
static u64 frame_encode(struct agent *a, u64 word, u32 *injected)
{
    u64 kind = word >> FRAME_KIND_SHIFT, runtime_addr = word & WORD_ADDRESS_MASK, file_addr;
    const struct code_range *range;
    if (kind == FRAME_KIND_MANAGED)
        return word;
    range = code_range_sigsafe(a->map, runtime_addr);
    if (!range || !range->module)
        return (u64)FRAME_KIND_RUNTIME << FRAME_KIND_SHIFT | runtime_addr;
    *injected |= a->modules[range->module].injected;
    file_addr = runtime_addr - a->modules[range->module].load_bias;
    if (file_addr > FRAME_ADDRESS_MASK)
        return (u64)FRAME_KIND_RUNTIME << FRAME_KIND_SHIFT | runtime_addr;
    return kind << FRAME_KIND_SHIFT | (u64)range->module << FRAME_MODULE_SHIFT | file_addr;
}

static u32 trace_send(struct agent *a, const u64 *words, u32 count, const struct verdicts *verdicts, u32 managed,
                      struct trace_slot *slot)
{
    struct trace_record *record = record_new(a, &a->traces_out, (u32)sizeof *record + count * 8);
    const struct code_range *fault;
    u64 *frames;
    u32 i, injected = 0;
    if (!record)
        return 0;
    frames = (u64 *)(record + 1);
    for (i = 0; i < count; i++)
        frames[i] = frame_encode(a, words[i], &injected);
    fault = verdicts->fault_pc ? code_range_sigsafe(a->map, verdicts->fault_pc) : (const struct code_range *)0;
    record->trace_id = ++a->next_trace_id;
    record->frame_count = (u16)count;
    record->verdict = (u8)verdicts->native;
    record->managed_verdict = (u8)managed;
    record->fault_module = fault ? fault->module : 0;
    record->marks = verdicts->marks & MARKS_OF_STACK;
    slot->injected = injected;
    return record->trace_id;
}

/* Return the number of this stack; 0 if there was no room (counted). Code objects in it are replaced by their numbers.
 * `*injected` is set if it contains Frida's agent. */
static u32 trace_intern(struct agent *a, u64 *words, u32 count, const struct verdicts *verdicts, u32 *injected)
{
    u64 hash;
    u32 i, at, managed, is_nearest;
    words = codes_resolve(a, words, &count, &is_nearest);
    managed = verdicts->managed == MANAGED_EXACT && is_nearest ? MANAGED_NEAREST : verdicts->managed;
    hash = hash_mix(a->map_number, ((u64)(verdicts->marks & MARKS_OF_STACK) << 16 | managed << 8 | verdicts->native) << 32 | count);
    for (i = 0; i < count; i++)
        hash = hash_mix(hash, words[i]);
    if (!hash)
        hash = 1;
    if (a->trace_count >= TRACE_SLOTS / 4 * 3) {
        bytes_zero(a->traces, sizeof(struct trace_slot) * TRACE_SLOTS);
        a->trace_count = 0;
    }
    for (at = (u32)hash & (TRACE_SLOTS - 1); a->traces[at].hash; at = (at + 1) & (TRACE_SLOTS - 1)) {
        if (a->traces[at].hash == hash) {
            *injected = a->traces[at].injected;
            return a->traces[at].trace_id;
        }
    }
    a->traces[at].trace_id = trace_send(a, words, count, verdicts, managed, &a->traces[at]);
    if (!a->traces[at].trace_id) {
        count_up(a, COUNTER_TRACES_LOST, 1);
        return 0;
    }
    a->traces[at].hash = hash;
    a->trace_count++;
    *injected = a->traces[at].injected;
    return a->traces[at].trace_id;
}
