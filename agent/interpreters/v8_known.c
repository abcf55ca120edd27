/*
 * Code and bytecode with their functions, and their records for the host. Sampler thread only.
 *
 * The collector gives the memory of what is thrown away to others, often in the same order, so that all addresses in an
 * object may be what they were before and it is another one. V8 counts scripts, the functions in each of them, and
 * compilations: these numbers are never used again, and say what an object is. They are read in one call, once in each round
 * in which it is met. A new one gets another number for the host, and the names that the former one has stay.
 *
 * Where the function is not known this time, because the collector has just moved what the frame held, the code has a number
 * all the same. Its record comes once it is met with its function, if it still is what it was by then.
 */

#define V8_NUMBERS_BYTES 32
#define V8_RECORD_BYTES (2 * V8_OBJECT_BYTES + V8_NUMBERS_BYTES)
#define V8_WATCHED 8                      /* objects that one is known by */
#define V8_SCRIPT_WORDS 10
#define V8_STRING_LENGTH 8                /* in a string: its hash and length, u32 each; the hash may come later */
#define V8_BYTECODE_MARKED 5              /* first words of bytecode, which do not change while it is used */

/* What is read of them. */
struct v8_watched {
    u64 object[V8_OBJECT_BYTES / 8];
    u64 shared[V8_OBJECT_BYTES / 8];
    u64 script[V8_SCRIPT_WORDS];
    u64 name;
    u64 source;
    u64 deopt;
    u64 header[2];
};

struct v8_reads {
    struct io_vector local[V8_WATCHED];
    struct io_vector remote[V8_WATCHED];
    u32 count;
    u64 bytes;
};

static u64 v8_round(const struct agent *a)
{
    return a->ring->counters[COUNTER_TICKS] + 1;
}

static void v8_read_add(struct v8_reads *reads, u64 runtime_addr, void *to, u64 bytes)
{
    reads->local[reads->count].base = (u64)to;
    reads->remote[reads->count].base = runtime_addr;
    reads->local[reads->count].bytes = reads->remote[reads->count].bytes = bytes;
    reads->bytes += bytes;
    reads->count++;
}

/* Read all that a piece of code is known by, in one call. Returns 0 if it cannot be read. */
static u32 v8_watched_read(const struct agent *a, const u64 *recipe, const struct v8_known *known, struct v8_watched *w)
{
    struct v8_reads reads;
    reads.count = 0;
    reads.bytes = 0;
    bytes_zero(w, sizeof *w);
    v8_read_add(&reads, known->object, w->object, sizeof w->object);
    v8_read_add(&reads, known->shared, w->shared, sizeof w->shared);
    v8_read_add(&reads, known->script, w->script, sizeof w->script);
    if (known->name)
        v8_read_add(&reads, known->name + V8_STRING_LENGTH, &w->name, 8);
    if (known->source)
        v8_read_add(&reads, known->source + V8_STRING_LENGTH, &w->source, 8);
    if (known->deopt)
        v8_read_add(&reads, known->deopt + recipe[V8_DEOPT_NUMBER], &w->deopt, 8);
    if (known->kind != V8_CODE_IS_BYTECODE && recipe[V8_CODE_START] != ABSENT)
        v8_read_add(&reads, known->start - recipe[V8_CODE_INSTRUCTIONS], w->header, sizeof w->header);
    return permitted_call(a, NR_PROCESS_VM_READV, a->pid, (u64)reads.local, reads.count, (u64)reads.remote, reads.count) ==
           (i64)reads.bytes;
}

/* Return a mix of all that stays as long as a piece of code does. Sets `identity` to a mix of what of it is no address. */
static u64 v8_mix(const u64 *recipe, const struct v8_known *known, const struct v8_watched *w, u64 *identity)
{
    u64 seen = known->kind, shared_number = v8_part_u32(w->shared, sizeof w->shared, recipe[V8_SHARED_NUMBER]);
    u64 script_number = v8_part(w->script, sizeof w->script, recipe[V8_SCRIPT_NUMBER]);
    u32 i;
    *identity = code_mix_sigsafe(code_mix_sigsafe(known->kind, shared_number), script_number);
    *identity = code_mix_sigsafe(*identity, w->name >> 32 | w->source >> 32 << 32);
    if (known->kind == V8_CODE_IS_BYTECODE) {
        for (i = 0; i < V8_BYTECODE_MARKED; i++)
            seen = code_mix_sigsafe(seen, w->object[i]);
        /* Its table of positions may come later, and then its lines can be told. */
        *identity = code_mix_sigsafe(*identity, w->object[1] ^ v8_part(w->object, sizeof w->object, recipe[V8_BYTECODE_TABLE]));
    } else {
        u32 flags = v8_part_u32(w->object, sizeof w->object, recipe[V8_CODE_FLAGS]) & CODE_KIND_MASK;
        u32 bytes = v8_part_u32(w->object, sizeof w->object, recipe[V8_CODE_BYTES]);
        seen = code_mix_sigsafe(code_mix_sigsafe(seen, w->object[0]), (u64)flags << 32 | bytes);
        seen = code_mix_sigsafe(seen, v8_part(w->object, sizeof w->object, recipe[V8_CODE_DEOPT]));
        seen = code_mix_sigsafe(seen, v8_part(w->object, sizeof w->object, recipe[V8_CODE_TABLE]));
        seen = code_mix_sigsafe(code_mix_sigsafe(seen, w->header[0]), w->header[1]);
        *identity = code_mix_sigsafe(code_mix_sigsafe(*identity, bytes), w->deopt);
    }
    seen = code_mix_sigsafe(code_mix_sigsafe(seen, w->shared[0]), w->script[0]);
    seen = code_mix_sigsafe(seen, v8_part(w->shared, sizeof w->shared, recipe[V8_SHARED_SCRIPT]));
    seen = code_mix_sigsafe(seen, v8_part(w->script, sizeof w->script, recipe[V8_SCRIPT_SOURCE]));
    seen = code_mix_sigsafe(seen, v8_part(w->script, sizeof w->script, recipe[V8_SCRIPT_NAME]));
    return code_mix_sigsafe(seen, *identity);
}

/* Send a record without parts: of what has no name, or of all code of a kind. Returns its number; 0 if there is no room. */
static u32 v8_bare_record_send(struct agent *a, const u64 *recipe, u32 flags, u64 kind)
{
    struct code_record *record = record_new(a, &a->codes_out, (u32)sizeof *record);
    if (!record)
        return 0;
    record->code_id = ++a->next_code_id;
    record->recipe_id = (u16)recipe[RECIPE_ID];
    record->flags = (u16)flags;
    record_part_clear(record);
    record->detail[0] = kind << V8_KIND_SHIFT;
    return record->code_id;
}

/* Send a record. `code_id` is its number, 0 for a new one. Returns the number; 0 if there is no room. */
static u32 v8_record_send(struct agent *a, const u64 *recipe, const struct v8_known *known, const struct v8_watched *w,
                          u32 code_id)
{
    struct code_record *record = record_new(a, &a->codes_out, (u32)sizeof *record + V8_RECORD_BYTES);
    u64 *to;
    if (!record)
        return code_id;
    to = (u64 *)(record + 1);
    record->code_id = code_id ? code_id : ++a->next_code_id;
    record->recipe_id = (u16)recipe[RECIPE_ID];
    record->flags = 0;
    record_part_clear(record);
    record->detail[0] = (u64)known->kind << V8_KIND_SHIFT | known->object;
    record->detail[1] = known->shared;
    record->part_bytes[0] = record->part_bytes[1] = V8_OBJECT_BYTES;
    record->part_bytes[2] = V8_NUMBERS_BYTES;
    bytes_copy(to, w->object, V8_OBJECT_BYTES);
    bytes_copy(to + V8_OBJECT_BYTES / 8, w->shared, V8_OBJECT_BYTES);
    to[V8_OBJECT_BYTES / 4] = v8_part(w->script, sizeof w->script, recipe[V8_SCRIPT_NUMBER]);
    to[V8_OBJECT_BYTES / 4 + 1] = w->deopt;
    to[V8_OBJECT_BYTES / 4 + 2] = w->name;
    to[V8_OBJECT_BYTES / 4 + 3] = w->source;
    count_up(a, COUNTER_CODES, code_id ? 0 : 1);
    return record->code_id;
}

/* Return the number of the record for functions that have no name. */
static u32 v8_unknown(struct agent *a, const u64 *recipe)
{
    count_up(a, COUNTER_CODES_LOST, a->v8_unknown_id ? 0 : 1);
    if (!a->v8_unknown_id)
        a->v8_unknown_id = v8_bare_record_send(a, recipe, CODE_GONE, 0);
    return a->v8_unknown_id;
}

/* Return the number of the record for regular expressions. */
static u32 v8_regexp(struct agent *a, const u64 *recipe)
{
    if (!a->v8_regexp_id)
        a->v8_regexp_id = v8_bare_record_send(a, recipe, 0, V8_CODE_IS_REGEXP);
    return a->v8_regexp_id;
}

/* Return the slot of an object, or a free one for it. */
static struct v8_known *v8_known_of(struct agent *a, u64 object)
{
    u32 at = (u32)code_mix_sigsafe(0, object) & (V8_KNOWN_SLOTS - 1);
    if (a->v8_known_count >= V8_KNOWN_SLOTS / 4 * 3) {
        bytes_zero(a->v8_known, sizeof(struct v8_known) * V8_KNOWN_SLOTS);
        a->v8_known_count = 0;
    }
    while (a->v8_known[at].object && a->v8_known[at].object != object)
        at = (at + 1) & (V8_KNOWN_SLOTS - 1);
    return &a->v8_known[at];
}

/* Return whether a slot holds what is known of an object, and that is still the same. */
static u32 v8_still_is(struct agent *a, const u64 *recipe, struct v8_known *known)
{
    struct v8_watched w;
    u64 identity;
    if (!known->object || !known->code_id || !known->shared)
        return 0;
    if (known->round == v8_round(a))
        return 1;
    if (!v8_watched_read(a, recipe, known, &w) || v8_mix(recipe, known, &w, &identity) != known->seen)
        return 0;
    known->round = v8_round(a);
    return 1;
}

/* Return a mix of what an object is by itself; 0 if it cannot be read. */
static u64 v8_own_mix(const struct agent *a, const struct v8_known *found)
{
    u64 words[V8_OBJECT_BYTES / 8], mix = code_mix_sigsafe(found->kind, found->start) ^ found->bytes;
    u32 i, count = found->kind == V8_CODE_IS_BYTECODE ? V8_BYTECODE_MARKED : V8_OBJECT_BYTES / 8;
    if (read_memory(a, found->object, words, sizeof words) != sizeof words)
        return 0;
    for (i = 0; i < count; i++)
        mix = code_mix_sigsafe(mix, words[i]);
    return mix | 1;
}

/* Return the number that this object has had without its function; 0 if none. */
static u32 v8_unnamed_id(const struct agent *a, const struct v8_known *slot, const struct v8_known *found)
{
    return slot->object == found->object && !slot->shared && slot->code_id && slot->seen == v8_own_mix(a, found)
               ? slot->code_id : 0;
}

/* Keep an object in its slot whose function is not known this time. Returns its number; that of all unknown functions if it
 * cannot be read. */
static u32 v8_unnamed_set(struct agent *a, const u64 *recipe, struct v8_known *slot, struct v8_known *found)
{
    u32 code_id = v8_unnamed_id(a, slot, found);
    if (code_id)
        return code_id;
    found->shared = 0;
    found->seen = v8_own_mix(a, found);
    found->code_id = found->seen ? v8_bare_record_send(a, recipe, CODE_GONE, 0) : 0;
    if (!found->code_id)
        return v8_unknown(a, recipe);
    a->v8_known_count += !slot->object;
    *slot = *found;
    return found->code_id;
}

/* Keep an object in its slot, with a record if it is new: object, start, bytes and kind are set in `found`, `shared` is the
 * function, tagged. Returns 0 if it cannot be read, or there is no room. */
static u32 v8_known_set(struct agent *a, const u64 *recipe, struct v8_known *slot, struct v8_known *found, u64 shared,
                        u64 deopt)
{
    struct v8_watched w;
    u64 script, name, source, identity;
    u32 fingerprint, code_id, is_new;
    if (!v8_word(a, shared - V8_TAG + recipe[V8_SHARED_SCRIPT], &script) || !is_object(script) ||
        !v8_word(a, script - V8_TAG + recipe[V8_SCRIPT_NAME], &name) ||
        !v8_word(a, script - V8_TAG + recipe[V8_SCRIPT_SOURCE], &source))
        return 0;
    found->shared = shared - V8_TAG;
    found->script = script - V8_TAG;
    found->name = is_object(name) ? name - V8_TAG : 0;
    found->source = is_object(source) ? source - V8_TAG : 0;
    found->deopt = is_object(deopt) ? deopt - V8_TAG : 0;
    if (!v8_watched_read(a, recipe, found, &w))
        return 0;
    found->seen = v8_mix(recipe, found, &w, &identity);
    fingerprint = (u32)(identity ^ identity >> 32);
    fingerprint = fingerprint ? fingerprint : 1;
    /* A known one is sent again: it may have moved before the host could read it. */
    code_id = v8_unnamed_id(a, slot, found);
    is_new = !code_id_sigsafe(a, found->object, fingerprint);
    code_id = code_id ? code_id : code_id_sigsafe(a, found->object, fingerprint);
    found->code_id = v8_record_send(a, recipe, found, &w, code_id);
    if (is_new && found->code_id)
        code_keep(a, found->object, fingerprint, found->code_id);
    found->round = v8_round(a);
    a->v8_known_count += !slot->object;
    *slot = *found;
    return found->code_id != 0;
}
