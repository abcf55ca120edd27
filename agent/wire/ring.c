/*
 * The ring that the host maps, too, and the batch that is filled between two flushes. Sampler thread only.
 *
 * One writer (the agent), one reader (the host). `head` moves after a whole batch is written, so that the host never
 * sees a partial batch, and flushed batches survive the death of the target.
 */

static int outbox_new(struct agent *a, struct outbox *box, u32 capacity)
{
    box->data = agent_pages(a, capacity);
    box->capacity = capacity;
    box->used = 0;
    box->records = 0;
    return box->data ? 0 : -1;
}

static void outbox_clear(struct outbox *box)
{
    box->used = 0;
    box->records = 0;
}

/* Reserve space for one record of `bytes`; 0 if the section is full. */
static void *outbox_reserve(struct outbox *box, u32 bytes)
{
    void *record;
    if (box->used + bytes > box->capacity)
        return (void *)0;
    record = box->data + box->used;
    box->used += bytes;
    box->records++;
    return record;
}

static void ring_write(struct agent *a, u64 *at, const void *from, u64 bytes)
{
    u8 *data = (u8 *)a->ring + RING_HEADER_BYTES;
    u64 offset = *at & (RING_BYTES - 1);
    u64 first = RING_BYTES - offset < bytes ? RING_BYTES - offset : bytes;
    memcpy(data + offset, from, first);
    if (bytes > first)
        memcpy(data, (const u8 *)from + first, bytes - first);
    *at += bytes;
}

static void ring_write_section(struct agent *a, u64 *at, u32 kind, const struct outbox *box)
{
    struct section_header header;
    if (!box->records)
        return;
    header.kind = kind;
    header.record_count = box->records;
    header.total_bytes = box->used;
    header.reserved = 0;
    ring_write(a, at, &header, sizeof header);
    ring_write(a, at, box->data, box->used);
}

static u32 section_bytes(const struct outbox *box)
{
    return box->records ? (u32)sizeof(struct section_header) + box->used : 0;
}

/* Return the bytes of the tables that were never used: the kernel allocates pages when they are touched. */
static u64 bytes_untouched(const struct agent *a)
{
    u64 rows = 0;
    u32 i;
    for (i = 1; i <= a->module_count; i++) {
        const struct cfi_table *table = a->modules[i].table;
        rows += table ? table->row_limit - table->row_count : 0;
    }
    return rows * sizeof(struct cfi_row) + (MAX_MODULES - 1 - (u64)a->module_count) * sizeof(struct module) +
           (MAX_THREADS - (u64)a->slot_count) * sizeof(struct thread_slot) +
           (MAX_RULES - (u64)a->rules->count) * sizeof(struct unwind_rule);
}

/*
 * Write the batch to the ring. If the ring is full, intervals are dropped and counted; the other records are
 * kept for the next batch, since later records refer to them.
 */
static void ring_flush(struct agent *a, u64 now_ns)
{
    struct batch_header header;
    struct ring_header *ring = a->ring;
    u64 at = ring->head;
    u64 room = RING_BYTES - (at - load_acquire_u64((const volatile u64 *)&ring->tail));

    a->last_flush_ns = now_ns;
    ring->counters[COUNTER_BYTES_HELD] = a->held_bytes - bytes_untouched(a);
    ring->counters[COUNTER_CFI_ROWS] = a->whole_rows + a->function_rows;
    header.magic = BATCH_MAGIC;
    header.version = ABI_VERSION;
    header.section_count = (a->modules_out.records != 0) + (u32)(a->threads_out.records != 0) +
                           (u32)(a->codes_out.records != 0) + (u32)(a->traces_out.records != 0) +
                           (u32)(a->intervals_out.records != 0);
    header.total_bytes = (u32)sizeof header + section_bytes(&a->modules_out) + section_bytes(&a->threads_out) +
                         section_bytes(&a->codes_out) + section_bytes(&a->traces_out) + section_bytes(&a->intervals_out);
    header.sequence = a->batch_sequence++;
    header.now_ns = now_ns;
    if (header.total_bytes > room) {
        count_up(a, COUNTER_RING_FULL, 1);
        count_up(a, COUNTER_INTERVALS_LOST, a->intervals_out.records);
        outbox_clear(&a->intervals_out);
        return;
    }
    ring_write(a, &at, &header, sizeof header);
    ring_write_section(a, &at, SECTION_MODULES, &a->modules_out);
    ring_write_section(a, &at, SECTION_THREADS, &a->threads_out);
    ring_write_section(a, &at, SECTION_CODES, &a->codes_out);
    ring_write_section(a, &at, SECTION_TRACES, &a->traces_out);
    ring_write_section(a, &at, SECTION_INTERVALS, &a->intervals_out);
    store_release_u64((volatile u64 *)&ring->head, at);
    outbox_clear(&a->modules_out);
    outbox_clear(&a->threads_out);
    outbox_clear(&a->codes_out);
    outbox_clear(&a->traces_out);
    outbox_clear(&a->intervals_out);
}

static u32 batch_has_news(const struct agent *a)
{
    return a->modules_out.records || a->threads_out.records || a->codes_out.records || a->traces_out.records || a->intervals_out.records;
}

/* Reserve space for one record; a full section is flushed first. 0 if the ring is full, too. */
static void *record_new(struct agent *a, struct outbox *box, u32 bytes)
{
    void *record = outbox_reserve(box, bytes);
    if (record)
        return record;
    ring_flush(a, now_ns_sigsafe());
    return outbox_reserve(box, bytes);
}

/* Tell the host, after the last batch, that no other follows, and why. */
static void ring_close(struct agent *a, u32 stop_reason)
{
    a->ring->stop_reason = stop_reason;
    store_release_u64((volatile u64 *)&a->ring->stopped, 1);
}

/* memfd_create(2), fcntl(2); MFD_NOEXEC_SEAL since Linux 6.3 */
#define MFD_CLOEXEC 1U
#define MFD_ALLOW_SEALING 2U
#define MFD_NOEXEC_SEAL 8U
#define F_ADD_SEALS 1033
#define RING_SEALS 7                      /* F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW */

/* Create a memfd at its final size, and seal that: the host's mapping must never be longer than the file. Returns a
 * descriptor, or the negative errno of the failed call. */
static i64 sealed_file(const char *name, u64 bytes)
{
    i64 error, fd = sys_call3(NR_MEMFD_CREATE, (u64)name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL, 0);
    if (fd == -ERR_EINVAL)
        fd = sys_call3(NR_MEMFD_CREATE, (u64)name, MFD_CLOEXEC | MFD_ALLOW_SEALING, 0);
    if (fd < 0)
        return fd;
    error = sys_call3(NR_FTRUNCATE, (u64)fd, bytes, 0);
    if (error >= 0)
        error = sys_call3(NR_FCNTL, (u64)fd, F_ADD_SEALS, RING_SEALS);
    if (error < 0) {
        close_fd((i32)fd);
        return error;
    }
    return fd;
}

/* Create the memfd and map it. Returns 0, or the negative errno of the failed call. */
static i64 ring_new(struct agent *a)
{
    i64 fd, result;
    /* Growing a file beyond RLIMIT_FSIZE raises SIGXFSZ, which kills (setrlimit(2)); a memfd is a file. */
    if (resource_limit(1 /* RLIMIT_FSIZE */) < RING_HEADER_BYTES + RING_BYTES)
        return -27;                       /* EFBIG */
    fd = sealed_file("flametap-ring", RING_HEADER_BYTES + RING_BYTES);
    if (fd < 0)
        return fd;
    /* PROT_READ|PROT_WRITE, MAP_SHARED */
    result = sys_call6(NR_MMAP, 0, RING_HEADER_BYTES + RING_BYTES, 3, 1, (u64)fd, 0);
    if (result < 0 && result > -4096) {
        close_fd((i32)fd);
        return result;
    }
    a->ring_fd = (i32)fd;
    a->ring = (struct ring_header *)result;
    pages_keep_from_children(a->ring, RING_HEADER_BYTES + RING_BYTES);
    a->ring->version = ABI_VERSION;
    a->ring->pid = a->pid;
    a->ring->ring_bytes = RING_BYTES;
    a->ring->start_ns = now_ns_sigsafe();
    store_release_u64((volatile u64 *)&a->ring->magic, RING_MAGIC);
    return 0;
}
