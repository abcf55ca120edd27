/*
 * Unwind rules of code that its compiler has registered for debuggers: GDB's JIT interface. QEMU registers one object with a
 * .debug_frame, LLVM one with an .eh_frame for each module that it compiles. The host finds the lists, and gives their places
 * as recipes (RUNTIME_REGISTERED). They lie in memory that the target goes on to change, and are copied.
 *
 * Sampler thread only. The look-up is in rulecache.c.
 *
 *     descriptor  version u32, action u32, relevant entry, first entry
 *     entry       next, previous, address of an object file, its bytes (u64 each)
 *
 * Source: GDB manual, "JIT Interface".
 */

#define REGISTERED_INTERVAL_NS 200000000ULL
#define REGISTERED_ENTRIES_MAX 4096       /* of a list */
#define REGISTERED_OBJECT_BYTES (16ULL << 20)
#define REGISTERED_SECTIONS 256
#define REGISTERED_NAMES_BYTES 65536
#define SHF_EXECINSTR_ 4

/* What an object says: its code, and the section that describes its frames. */
struct registered_sections {
    u64 start, end;                       /* runtime_addr */
    u64 frames, frames_bytes;             /* runtime_addr; 0: none */
    u32 is_debug_frame;
};

static u32 section_is_called(const char *names, u64 bytes, u32 at, const char *name)
{
    u32 length = 0;
    while (name[length])
        length++;
    return at < bytes && bytes - at > length && !names[at + length] && text_is(names + at, length, name);
}

/* Read the section headers of an object file that lies in memory. Returns 0 if it is no such file. */
static u32 registered_sections_read(struct agent *a, u64 file, u64 file_bytes, struct registered_sections *found)
{
    struct elf_header header;
    u64 bytes = REGISTERED_SECTIONS * sizeof(struct elf_section);
    struct elf_section *sections = pages_new(bytes + REGISTERED_NAMES_BYTES);
    char *names = (char *)sections + bytes;
    u64 names_bytes = 0;
    u32 i, count = 0;
    bytes_zero(found, sizeof *found);
    found->start = ~0ULL;
    if (sections && file_bytes >= sizeof header && read_memory(a, file, &header, sizeof header) == sizeof header &&
        *(u32 *)header.ident == 0x464c457f && header.shentsize == sizeof(struct elf_section) &&
        header.shnum <= REGISTERED_SECTIONS && header.shstrndx < header.shnum && header.shoff < file_bytes &&
        read_memory(a, file + header.shoff, sections, header.shnum * sizeof *sections) == (i64)(header.shnum * sizeof *sections))
        count = header.shnum;
    if (count) {
        const struct elf_section *strings = &sections[header.shstrndx];
        names_bytes = strings->size < REGISTERED_NAMES_BYTES ? strings->size : REGISTERED_NAMES_BYTES;
        if (strings->offset >= file_bytes || read_memory(a, file + strings->offset, names, names_bytes) != (i64)names_bytes)
            count = 0;
    }
    for (i = 0; i < count; i++) {
        const struct elf_section *s = &sections[i];
        u32 is_debug_frame = section_is_called(names, names_bytes, s->name, ".debug_frame");
        if (s->flags & SHF_EXECINSTR_ && s->addr && s->addr + s->size > s->addr) {
            found->start = found->start < s->addr ? found->start : s->addr;
            found->end = found->end > s->addr + s->size ? found->end : s->addr + s->size;
        }
        if (s->size > REGISTERED_OBJECT_BYTES || (!is_debug_frame && !section_is_called(names, names_bytes, s->name, ".eh_frame")))
            continue;
        /* LLVM's is used where it was loaded: there its addresses are final. QEMU's is in the object file alone. */
        found->frames = s->addr ? s->addr : s->offset < file_bytes ? file + s->offset : 0;
        found->frames_bytes = s->size;
        found->is_debug_frame = is_debug_frame;
    }
    pages_free(sections, bytes + REGISTERED_NAMES_BYTES);
    return found->start < found->end && found->end - found->start < 0xffffffffULL;
}

/* Compile the frames of an object. Returns 0 if it has none. */
static struct cfi_table *registered_compile(struct agent *a, const struct registered_sections *sections)
{
    u8 *copy = sections->frames && sections->frames_bytes ? pages_new(sections->frames_bytes) : (u8 *)0;
    struct cfi_table *table = (struct cfi_table *)0;
    i64 got = copy ? read_memory(a, sections->frames, copy, sections->frames_bytes) : -1;
    if (got > 0) {
        struct cfi_input input = {copy, (u64)got, sections->frames, sections->start, sections->end, sections->is_debug_frame};
        table = table_compile(a, &input);
    }
    pages_free(copy, sections->frames_bytes);
    return table;
}

/* Return the place of an entry's object; a new one if it is not known. 0: there is no room. */
static struct registered_object *registered_place(struct agent *a, const u64 *entry)
{
    struct registered_object *place = (struct registered_object *)0;
    u32 i;
    for (i = 0; i < a->registered_count; i++) {
        struct registered_object *each = &a->registered[i];
        if (each->file == entry[2] && each->file_bytes == entry[3])
            return each;
        if (!each->file && !place)
            place = each;                 /* of one that has gone */
    }
    if (place || a->registered_count == REGISTERED_MAX)
        return place;
    return &a->registered[a->registered_count];
}

/* Take note of one entry of a list. */
static void registered_add(struct agent *a, const u64 *entry)
{
    struct registered_object *place = registered_place(a, entry);
    struct registered_sections sections;
    if (!place || (place->file && place->file == entry[2])) {
        if (place)
            place->seen_in = a->registered_round;
        return;
    }
    place->table = registered_sections_read(a, entry[2], entry[3], &sections) ? registered_compile(a, &sections)
                                                                             : (struct cfi_table *)0;
    place->start = sections.start;
    place->file = entry[2];
    place->file_bytes = entry[3];
    place->seen_in = a->registered_round;
    store_release_u64(&place->end, sections.end);
    if (place == &a->registered[a->registered_count])
        store_release_u32(&a->registered_count, a->registered_count + 1);
}

/* Read one list. */
static void registered_list_read(struct agent *a, u64 descriptor)
{
    u64 words[3], entry[4], at;
    u32 i;
    if (read_memory(a, descriptor, words, sizeof words) != sizeof words || (u32)words[0] != 1)
        return;
    for (at = words[2], i = 0; at && i < REGISTERED_ENTRIES_MAX; at = entry[0], i++) {
        if (read_memory(a, at, entry, sizeof entry) != sizeof entry)
            return;
        if (entry[2] && entry[3] && entry[3] <= REGISTERED_OBJECT_BYTES)
            registered_add(a, entry);
    }
}

/* Look at the lists when there are new ones, and after a stack has contained code without a file and without rules. */
static void registered_keep(struct agent *a, u64 now_ns)
{
    u64 used = recipes_used_of(a, RUNTIME_REGISTERED);
    i64 cpu_ns;
    u32 i;
    if (!used || (used == a->registered_used && (!a->want_registered || now_ns - a->registered_ns < REGISTERED_INTERVAL_NS)))
        return;
    if (!a->registered)
        a->registered = agent_pages(a, sizeof(struct registered_object) * REGISTERED_MAX);
    if (!a->registered)
        return;
    cpu_ns = clock_ns_sigsafe(THREAD_CPU_CLOCK_OWN);
    a->want_registered = 0;
    a->registered_used = used;
    a->registered_round++;
    for (i = 0; i < RECIPES_STORED_MAX; i++)
        if (used >> i & 1)
            registered_list_read(a, a->recipes[i][RECIPE_RUNTIME_ADDR]);
    for (i = 0; i < a->registered_count; i++) {
        struct registered_object *each = &a->registered[i];
        if (!each->file || each->seen_in == a->registered_round)
            continue;
        each->end = each->start;          /* first: handlers look at it */
        table_retire(a, each->table);
        each->table = (struct cfi_table *)0;
        each->file = 0;
    }
    a->registered_ns = now_ns_sigsafe();
    a->once_cpu_ns += (u64)(clock_ns_sigsafe(THREAD_CPU_CLOCK_OWN) - cpu_ns);
}
