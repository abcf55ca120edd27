/*
 * Sections of a module's file: those that are not mapped, and those that only section headers name. Read when a stack
 * contains code that mapped call frame information does not cover. Sampler thread only.
 *
 * The file is opened in the sampler's own descriptor table, and used only if it is the mapped file. ELF: gABI chapter
 * 4, "Compression" for SHF_COMPRESSED.
 */

#define SECTIONS_MAX 4096
#define SECTION_NAMES_MAX (1U << 20)
#define SECTION_BYTES_MAX (128ULL << 20)

enum { SHT_NOBITS_ = 8, SHF_COMPRESSED_ = 0x800, ELFCOMPRESS_ZLIB_ = 1 };

struct elf_section {
    u32 name, type;
    u64 flags, addr, offset, size;
    u32 link, info;
    u64 addralign, entsize;
};

struct elf_file {
    i32 fd;
    u32 count;
    struct elf_section *sections;
    char *names;
    u64 names_bytes;
};

static u32 file_read(const struct agent *a, i32 fd, u64 offset, void *to, u64 bytes)
{
    u64 done = 0;
    while (done < bytes) {
        i64 got = read_at(a, fd, (u8 *)to + done, bytes - done, offset + done);
        if (got <= 0)
            return 0;
        done += (u64)got;
    }
    return 1;
}

/* Return whether this open file is the mapped one, by its inode and headers. Its device is no criterion: some file
 * systems have two (btrfs, overlayfs). */
static u32 file_is_mapped(struct agent *a, const struct module *m, i32 fd)
{
    u64 stat[18];                         /* struct stat of x86-64: st_ino at 8; stat(2) */
    u8 ours[HEADERS_BYTES], theirs[HEADERS_BYTES];
    u32 i;
    if (permitted_call(a, NR_NEWFSTATAT, (u64)fd, (u64) "", (u64)stat, 0x1000 /* AT_EMPTY_PATH */, 0) < 0 ||
        stat[1] != m->inode || !m->headers ||
        read_memory(a, m->headers, ours, HEADERS_BYTES) != HEADERS_BYTES ||
        !file_read(a, fd, 0, theirs, HEADERS_BYTES))
        return 0;
    for (i = 0; i < HEADERS_BYTES; i++)
        if (ours[i] != theirs[i])
            return 0;
    return 1;
}

static u32 text_append_hex(char *to, u32 at, u64 number)
{
    i32 shift = 60;
    while (shift && !(number >> shift))
        shift -= 4;
    for (; shift >= 0; shift -= 4)
        to[at++] = "0123456789abcdef"[number >> shift & 15];
    to[at] = 0;
    return at;
}

/* Open a module's file by its path or, if the path is missing or another file by now, through the mapping (needs a
 * privilege: proc(5)). Returns -1 if neither works. O_NONBLOCK: the path may be a FIFO by now, which would block. */
static i32 module_file_open(struct agent *a, const struct module *m)
{
    char path[sizeof m->path + 1];
    u32 at, flags = 0x800;                /* O_NONBLOCK */
    i32 fd;
    bytes_copy(path, m->path, m->path_bytes);
    path[m->path_bytes] = 0;
    fd = open_file(a, path, flags);
    if (fd >= 0 && file_is_mapped(a, m, fd))
        return fd;
    close_fd(fd);
    at = text_append(path, 0, "/proc/self/map_files/");
    at = text_append_hex(path, at, m->line_start);
    at = text_append(path, at, "-");
    text_append_hex(path, at, m->line_end);
    fd = open_file(a, path, flags);
    if (fd >= 0 && file_is_mapped(a, m, fd))
        return fd;
    close_fd(fd);
    return -1;
}

static void elf_file_close(struct elf_file *file)
{
    pages_free(file->sections, (u64)file->count * sizeof(struct elf_section));
    pages_free(file->names, file->names_bytes);
    close_fd(file->fd);
}

/* Returns 0 if the file cannot be opened or has no section headers. */
static u32 elf_file_open(struct agent *a, const struct module *m, struct elf_file *file)
{
    struct elf_header header;
    const struct elf_section *names;
    file->sections = (struct elf_section *)0;
    file->names = (char *)0;
    file->count = 0;
    file->names_bytes = 0;
    file->fd = module_file_open(a, m);
    if (file->fd < 0)
        return 0;
    if (file_read(a, file->fd, 0, &header, sizeof header) && header.shentsize == sizeof(struct elf_section) &&
        header.shnum && header.shnum <= SECTIONS_MAX && header.shstrndx < header.shnum) {
        file->count = header.shnum;
        file->sections = pages_new((u64)file->count * sizeof(struct elf_section));
    }
    if (file->sections &&
        file_read(a, file->fd, header.shoff, file->sections, (u64)file->count * sizeof *file->sections)) {
        names = &file->sections[header.shstrndx];
        if (names->type != SHT_NOBITS_ && names->size && names->size <= SECTION_NAMES_MAX) {
            file->names_bytes = names->size;
            file->names = pages_new(names->size);
            if (file->names && file_read(a, file->fd, names->offset, file->names, names->size))
                return 1;
        }
    }
    elf_file_close(file);
    return 0;
}

/* Returns 0 if no section of that name has bytes in the file. */
static const struct elf_section *elf_section_find(const struct elf_file *file, const char *name)
{
    u32 i;
    for (i = 1; i < file->count; i++) {
        const struct elf_section *section = &file->sections[i];
        u64 left = section->name < file->names_bytes ? file->names_bytes - section->name : 0, at = 0;
        while (at < left && name[at] && file->names[section->name + at] == name[at])
            at++;
        if (at < left && !name[at] && !file->names[section->name + at])
            return section->type == SHT_NOBITS_ || !section->size ? (const struct elf_section *)0 : section;
    }
    return (const struct elf_section *)0;
}

/* Read the bytes of a section into pages of their own, inflated if necessary; `*bytes` is their number. Returns 0 if it
 * is too large, truncated, or compressed in an unsupported way (zstd). */
static u8 *elf_section_read(const struct agent *a, const struct elf_file *file, const struct elf_section *section,
                            u64 *bytes)
{
    struct { u32 type, reserved; u64 size, align; } *compressed;
    u8 *raw, *data = (u8 *)0;
    if (section->size > SECTION_BYTES_MAX)
        return data;
    raw = pages_new(section->size);
    if (!raw || !file_read(a, file->fd, section->offset, raw, section->size)) {
        pages_free(raw, section->size);
        return data;
    }
    *bytes = section->size;
    if (!(section->flags & SHF_COMPRESSED_))
        return raw;
    compressed = (void *)raw;
    if (section->size > sizeof *compressed && compressed->type == ELFCOMPRESS_ZLIB_ && compressed->size &&
        compressed->size <= SECTION_BYTES_MAX) {
        *bytes = compressed->size;
        data = pages_new(*bytes);
        if (data && !inflate_zlib(raw + sizeof *compressed, section->size - sizeof *compressed, data, *bytes)) {
            pages_free(data, *bytes);
            data = (u8 *)0;
        }
    }
    pages_free(raw, section->size);
    return data;
}
