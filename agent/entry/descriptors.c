/*
 * A descriptor table for our thread alone: the target's table is neither used up nor changed. Our thread only, at its
 * birth. close_range(2), unshare(2)
 */
#define NR_UNSHARE 272
#define CLONE_FILES 0x400
#define CLOSE_RANGE_UNSHARE 2

/* Close everything in a table that is a copy: the files stay open in the target's. Before Linux 5.9. */
static i64 descriptors_close_all(void)
{
    u64 entries[256];
    i32 folder = (i32)sys_call6(NR_OPENAT, (u64)-100 /* AT_FDCWD */, (u64) "/proc/thread-self/fd", 0x80000, 0, 0, 0), fd;
    i64 got, at;
    if (folder < 0)
        return folder;
    while ((got = sys_call3(NR_GETDENTS64, (u64)folder, (u64)entries, sizeof entries)) > 0) {
        /* struct linux_dirent64: ino u64, off u64, reclen u16, type u8, name; getdents(2) */
        for (at = 0; at < got; at += *(const u16 *)((const u8 *)entries + at + 16)) {
            const char *name = (const char *)entries + at + 19;
            if (name[0] < '0' || name[0] > '9')
                continue;
            fd = (i32)parse_number(&name, name + 10, 10);
            if (fd != folder)
                close_fd(fd);
        }
    }
    close_fd(folder);
    return got;
}

/* Give this thread an empty table of its own. Returns 0 or -errno. */
static i64 descriptors_own(void)
{
    i64 error;
    if (sys_call3(NR_CLOSE_RANGE, 0, 0xffffffffU, CLOSE_RANGE_UNSHARE) == 0)
        return 0;
    error = sys_call3(NR_UNSHARE, CLONE_FILES, 0, 0);
    return error < 0 ? error : descriptors_close_all();
}
