/*
 * Code of a file that the program has moved to anonymous memory, to have it on huge pages: node --use-largepages, and what
 * is linked or preloaded for that. It has the same bytes at the same address, so it still is the file's: names and call
 * frame information are those of the file. Sampler thread only.
 */

/* A file whose headers are mapped. */
struct mapped_file {
    u64 headers;                          /* runtime_addr, 0: none */
    u64 end;                              /* of its last mapping so far */
    u64 inode, device;
    u32 path_bytes;
    char *path;                           /* MAPPED_PATH_BYTES of its own */
};

/* Keep what a line says that maps the begin of a file. */
static void mapped_file_keep(struct mapped_file *file, const struct map_line *line)
{
    file->headers = line->start;
    file->inode = line->inode;
    file->device = line->device;
    file->path_bytes = line->path_bytes < MAPPED_PATH_BYTES ? line->path_bytes : MAPPED_PATH_BYTES;
    bytes_copy(file->path, line->path, file->path_bytes);
}

static u32 is_line_of(const struct mapped_file *file, const struct map_line *line)
{
    return file->inode == line->inode && file->device == line->device;
}

/* Note where the mappings of the file end. */
static void mapped_file_extend(struct mapped_file *file, const struct map_line *line)
{
    if (is_line_of(file, line))
        file->end = line->end;
}

/* Return whether the line lies within the code that the loader has mapped from `segment`; sets `*offset`. */
static u32 is_within_code(const struct elf_segment *segment, u64 image_bias, const struct map_line *line, u64 *offset)
{
    u64 at = segment->vaddr + image_bias;
    u64 start = at & ~(PAGE_BYTES - 1), end = (at + segment->filesz + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
    *offset = line->start - at + segment->offset;
    return segment->type == PT_LOAD_ && segment->flags & PF_X_ && line->start >= start && line->end <= end;
}

/* Make an anonymous line that holds code of `file`, right behind another mapping of it, a line of that file. */
static void moved_code_adopt(struct agent *a, const struct mapped_file *file, struct map_line *line)
{
    struct elf_segment segments[SEGMENTS_MAX];
    u64 image_bias, offset;
    u32 i, count;
    if (!line->executable || !line->readable || line->inode || line->path_bytes || !file->inode || line->start != file->end)
        return;
    count = segments_read(a, file->headers, segments, &image_bias);
    for (i = 0; i < count; i++)
        if (is_within_code(&segments[i], image_bias, line, &offset)) {
            line->inode = file->inode;
            line->device = file->device;
            line->offset = offset;
            line->path = file->path;
            line->path_bytes = file->path_bytes;
            return;
        }
}
