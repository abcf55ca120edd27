/*
 * The files that code is mapped from, and their unwind information. Sampler thread only.
 *
 * We read /proc/self/maps instead of the loader's list: it needs no loader lock, and it also shows files mapped without
 * dlopen. ELF headers and .eh_frame are copied with process_vm_readv, so that an unmapping at the same moment is an
 * error and not a fault. ELF: gABI chapters 4 and 5; .eh_frame_hdr: LSB Core 10.6.2.
 */

#define MAP_REREAD_NS 1000000000ULL       /* a dlclose unnoticed for this long may cause wrong names, never a crash */
#define MAP_REREAD_MIN_NS 20000000ULL
#define HEADERS_BYTES 512                  /* ELF header and the first program headers */

struct elf_header {
    u8 ident[16];
    u16 type, machine;
    u32 version;
    u64 entry, phoff, shoff;
    u32 flags;
    u16 ehsize, phentsize, phnum, shentsize, shnum, shstrndx;
};

struct elf_segment {
    u32 type, flags;
    u64 offset, vaddr, paddr, filesz, memsz, align;
};

enum { PT_LOAD_ = 1, PT_NOTE_ = 4, PT_EH_FRAME_ = 0x6474e550, PF_X_ = 1, SEGMENTS_MAX = 64, NOTE_BYTES_MAX = 4096 };

struct map_line {
    u64 start, end, offset, device, inode;
    u32 readable, writable, executable;
    const char *path;
    u32 path_bytes;
};

/* Parse a line of /proc/PID/maps (proc(5)). `end` is one past the last character, without the newline. */
static void map_line_parse(const char *p, const char *end, struct map_line *line)
{
    u64 major;
    line->start = parse_number(&p, end, 16);
    p++;
    line->end = parse_number(&p, end, 16);
    p++;
    line->readable = p < end && p[0] == 'r';
    line->writable = p + 1 < end && p[1] == 'w';
    line->executable = p + 2 < end && p[2] == 'x';
    p += 5;
    line->offset = parse_number(&p, end, 16);
    p++;
    major = parse_number(&p, end, 16);
    p++;
    line->device = major << 32 | parse_number(&p, end, 16);
    p++;
    line->inode = parse_number(&p, end, 10);
    while (p < end && *p == ' ')
        p++;
    line->path = p;
    line->path_bytes = p < end ? (u32)(end - p) : 0;
}

static void module_read_build_id(struct agent *a, struct module *m, u64 runtime_addr, u64 bytes)
{
    u8 note[NOTE_BYTES_MAX];
    u64 at = 0;
    i64 got = read_memory(a, runtime_addr, note, bytes < NOTE_BYTES_MAX ? bytes : NOTE_BYTES_MAX);
    while (got > 0 && at + 12 <= (u64)got) {
        u32 name = *(u32 *)(note + at), size = *(u32 *)(note + at + 4), type = *(u32 *)(note + at + 8);
        u64 description = at + 12 + (((u64)name + 3) & ~3ULL);
        if (description + size > (u64)got)
            return;
        if (type == 3 && name == 4 && note[at + 12] == 'G' && note[at + 13] == 'N' && note[at + 14] == 'U') {
            m->build_id_bytes = size < sizeof m->build_id ? size : (u32)sizeof m->build_id;
            bytes_copy(m->build_id, note + description, m->build_id_bytes);
            return;
        }
        at = description + (((u64)size + 3) & ~3ULL);
    }
}

/* Find .eh_frame through .eh_frame_hdr: version 1, three encodings, then the pointer, which may be relative to itself,
 * to the header or absolute. */
static void module_find_eh_frame(struct agent *a, struct module *m, const struct elf_segment *header,
                                 const struct elf_segment *segments, u32 count)
{
    u8 bytes[16];
    struct eh_reader reader = {bytes + 4, bytes + 16, 0};
    u32 i;
    u64 address;
    if (read_memory(a, header->vaddr + m->image_bias, bytes, 16) != 16 || bytes[0] != 1)
        return;
    address = eh_read_encoded_raw_sigsafe(&reader, bytes[1] & EH_PE_FORMAT_MASK);
    switch (bytes[1] & ~(u32)EH_PE_FORMAT_MASK) {
    case EH_PE_PCREL:
        address += header->vaddr + 4;
        break;
    case EH_PE_DATAREL:
        address += header->vaddr;
        break;
    case 0:
        break;
    default:
        reader.failed = 1;
    }
    if (reader.failed)
        return;
    m->eh_frame = address;
    m->eh_frame_hdr = header->vaddr;
    for (i = 0; i < count; i++) {
        const struct elf_segment *s = &segments[i];
        if (s->type == PT_LOAD_ && m->eh_frame >= s->vaddr && m->eh_frame < s->vaddr + s->filesz)
            m->eh_frame_limit = s->vaddr + s->filesz;
    }
    if (!m->eh_frame_limit)
        m->eh_frame = 0;
}

/*
 * Find the place of the mapping, which begins at `file_offset`, in the image. Nearly always it is where the headers
 * say. Some programs map a part of themselves a second time (V8 maps its builtins close to its JIT code): that is a
 * module of its own, with another bias and only the code that is mapped.
 */
static void module_place(struct module *m, u64 file_offset, const struct elf_segment *segments, u32 count)
{
    u32 i;
    u64 file_addr;
    for (i = 0; i < count; i++) {
        const struct elf_segment *s = &segments[i];
        if (s->type != PT_LOAD_ || !(s->flags & PF_X_) || file_offset + 4095 < s->offset ||
            file_offset >= s->offset + s->filesz)
            continue;
        file_addr = s->vaddr - s->offset + file_offset;
        if (m->image_bias + file_addr == m->start)
            return;
        m->load_bias = m->start - file_addr;
        m->text_start = file_addr;
        m->text_end = file_addr + (m->end - m->start);
        return;
    }
}

/* Read the program headers of the ELF image at `headers`. Returns their number, and sets `*image_bias`; 0 if there are none,
 * or none is loaded. */
static u32 segments_read(struct agent *a, u64 headers, struct elf_segment *segments, u64 *image_bias)
{
    struct elf_header header;
    u32 i, count;
    if (!headers || read_memory(a, headers, &header, sizeof header) != sizeof header ||
        *(u32 *)header.ident != 0x464c457f || header.phentsize != sizeof(struct elf_segment))
        return 0;
    count = header.phnum < SEGMENTS_MAX ? header.phnum : SEGMENTS_MAX;
    if (read_memory(a, headers + header.phoff, segments, count * sizeof segments[0]) != (i64)(count * sizeof segments[0]))
        return 0;
    for (i = 0; i < count; i++)
        if (segments[i].type == PT_LOAD_) {
            *image_bias = headers - (segments[i].vaddr - segments[i].offset);
            return count;
        }
    return 0;
}

/* Fill biases, text range, build-id and .eh_frame from the program headers mapped at `base`. */
static void module_read_headers(struct agent *a, struct module *m, u64 base)
{
    struct elf_segment segments[SEGMENTS_MAX];
    u64 file_offset = m->start - m->load_bias; /* the offset known so far */
    u32 i, count = segments_read(a, base, segments, &m->image_bias);
    if (!count)
        return;
    m->headers = base;
    m->load_bias = m->image_bias;
    m->text_start = m->start - m->load_bias;
    m->text_end = m->end - m->load_bias;
    for (i = 0; i < count; i++) {
        if (segments[i].type == PT_LOAD_ && segments[i].flags & PF_X_) {
            u64 end = (segments[i].vaddr + segments[i].memsz + 4095) & ~4095ULL; /* as it is mapped */
            if (segments[i].vaddr < m->text_start)
                m->text_start = segments[i].vaddr;
            if (end > m->text_end)
                m->text_end = end;
        } else if (segments[i].type == PT_NOTE_ && !m->build_id_bytes) {
            module_read_build_id(a, m, segments[i].vaddr + m->image_bias, segments[i].memsz);
        } else if (segments[i].type == PT_EH_FRAME_) {
            module_find_eh_frame(a, m, &segments[i], segments, count);
        }
    }
    module_place(m, file_offset, segments, count);
}

/* Send a module to the host, or that it was unmapped; later, if there is no room now. */
static void module_announce(struct agent *a, struct module *m)
{
    u32 padded = (m->path_bytes + 7) & ~7U;
    struct module_record *record;
    if (m->injected)
        return;
    record = record_new(a, &a->modules_out, (u32)sizeof *record + padded);
    m->is_unannounced = !record;
    a->has_unannounced |= !record;
    if (!record)
        return;
    bytes_zero(record, sizeof *record + padded);
    record->module_id = m->module_id;
    record->flags = m->gone ? MODULE_GONE : 0;
    record->load_bias = m->load_bias;
    record->start = m->start;
    record->end = m->end;
    bytes_copy(record->build_id, m->build_id, m->build_id_bytes);
    record->build_id_bytes = m->build_id_bytes;
    record->path_bytes = m->path_bytes;
    bytes_copy(record + 1, m->path, m->path_bytes);
}

/* Return whether the module has a file to read. The vDSO has none: its ELF image is in memory. */
static u32 module_has_file(const struct module *m)
{
    return m->path_bytes && m->path[0] == '/' && !m->injected;
}

/* Find an unmapped module of the same file as `m` (dlclose, then dlopen); without a build-id it must have the same
 * address. Returns 0 if there is none. */
static u32 module_find_gone(const struct agent *a, const struct module *m)
{
    u32 i, j;
    for (i = a->module_count; i > 0; i--) {
        const struct module *old = &a->modules[i];
        if (!old->gone || old->inode != m->inode || old->device != m->device ||
            (old->load_bias != m->load_bias && !m->build_id_bytes) ||
            old->text_start != m->text_start || old->text_end != m->text_end || old->eh_frame != m->eh_frame ||
            old->build_id_bytes != m->build_id_bytes)
            continue;
        for (j = 0; j < m->build_id_bytes && old->build_id[j] == m->build_id[j]; j++) {
        }
        if (j == m->build_id_bytes)
            return i;
    }
    return 0;
}

/* Return where the headers of the same file are mapped, from another module of it. 0 if there is none. */
static u64 module_find_headers(const struct agent *a, const struct map_line *line)
{
    u32 i;
    for (i = a->module_count; i > 0; i--)
        if (!a->modules[i].gone && a->modules[i].inode == line->inode && a->modules[i].device == line->device)
            return a->modules[i].headers;
    return 0;
}

/* Return the module of an executable mapping, existing or new. 0 if the table is full. */
static u32 module_for_line(struct agent *a, const struct map_line *line, u64 base)
{
    struct module *m;
    u32 i, bytes = line->path_bytes;
    for (i = a->module_count; i > 0; i--) {
        m = &a->modules[i];
        if (!m->gone && m->inode == line->inode && m->device == line->device &&
            ((line->start >= m->start && line->end <= m->end) ||
             (base && line->end - m->load_bias - 1 < m->text_end && line->start - m->load_bias >= m->text_start))) {
            m->seen_in = a->map_number;
            if (line->start < m->start)
                m->start = line->start;
            if (line->end > m->end)
                m->end = line->end;
            return i;
        }
    }
    if (a->module_count + 1 >= MAX_MODULES) {
        count_up(a, COUNTER_MODULES_LOST, 1);
        return 0;
    }
    m = &a->modules[a->module_count + 1]; /* not in use yet, and all zeros */
    m->inode = line->inode;
    m->device = line->device;
    m->start = line->start;
    m->end = line->end;
    m->seen_in = a->map_number;
    m->line_start = line->start;
    m->line_end = line->end;
    m->image_bias = m->load_bias = line->start - line->offset;
    m->text_start = line->offset;
    m->text_end = line->offset + (line->end - line->start);
    if (bytes > 10 && text_is(line->path + bytes - 10, 10, " (deleted)"))
        bytes -= 10;
    m->path_bytes = bytes < sizeof m->path ? bytes : (u32)sizeof m->path;
    bytes_copy(m->path, line->path, m->path_bytes);
    m->injected = text_contains(m->path, m->path_bytes, "frida-agent");
    module_read_headers(a, m, base ? base : module_find_headers(a, line));
    m->file_searched = !module_has_file(m);
    if (m->injected)
        m->state = MODULE_WITHOUT_CFI;
    i = module_find_gone(a, m);
    if (i) {
        a->modules[i].load_bias = m->load_bias;
        a->modules[i].image_bias = m->image_bias;
        a->modules[i].headers = m->headers;
        bytes_zero(m, sizeof *m);
        m = &a->modules[i];
        m->start = line->start;
        m->end = line->end;
        m->line_start = line->start;
        m->line_end = line->end;
        m->seen_in = a->map_number;
        m->gone = 0;
    } else {
        m->module_id = i = ++a->module_count;
    }
    if (text_contains(m->path, m->path_bytes, "/_greenlet.")) {
        a->greenlet_end = m->end;
        a->greenlet_start = m->start;         /* last: handlers look at it first */
    }
    module_announce(a, m);
    return i;
}
