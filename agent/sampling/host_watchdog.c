/*
 * Host watchdog: an agent without a sign of life from its host ends by itself, so that a host that was killed or
 * stopped leaves nothing running in the target. The host writes the time into the ring several times a second.
 *
 * Only time in which the agent itself could run counts: while the target was stopped or frozen, or the machine was
 * suspended, the host could not be observed. Where this thread waits long for a CPU, so does the host. So each check adds
 * at most SILENCE_STEP_NS.
 *
 * Context: the JS thread before sampling has begun, the sampler thread from then on.
 */

#define SILENCE_STEP_NS 150000000ULL      /* half more than the longest time between two checks (SLEEP_SLICE_NS) */

/* Return for how long the host has given no sign of life. Call this several times a second. */
static u64 host_silence_ns(struct agent *a, u64 now_ns)
{
    u64 host_ns = load_acquire_u64((const volatile u64 *)&a->ring->host_ns);
    u64 step_ns = now_ns - a->host_checked_ns;
    a->host_checked_ns = now_ns;
    if (host_ns != a->host_seen_ns) {
        a->host_seen_ns = host_ns;
        a->host_silence_ns = 0;
    } else {
        a->host_silence_ns += step_ns < SILENCE_STEP_NS ? step_ns : SILENCE_STEP_NS;
    }
    return a->host_silence_ns;
}

static u32 host_is_silent(struct agent *a, u64 now_ns)
{
    return host_silence_ns(a, now_ns) >= HOST_SILENCE_NS;
}

static i32 socket_is(i32 fd, u64 inode)
{
    u64 stat[18];                         /* struct stat of x86-64: st_ino at 8, st_mode at 24; stat(2) */
    u32 family = 0, bytes = sizeof family;
    if (sys_call3(NR_FSTAT, (u64)fd, (u64)stat, 0) < 0 || stat[1] != inode || ((u32)stat[3] & 0170000) != 0140000)
        return 0;
    /* SOL_SOCKET, SO_DOMAIN: AF_UNIX */
    return permitted_call((struct agent *)0, NR_GETSOCKOPT, (u64)fd, 1, 39, (u64)&family, (u64)&bytes) == 0 &&
           family == 1;
}

/* Shut down the connection of our socket with this inode number. */
static void socket_shut_down(u64 inode)
{
    u64 entries[256];
    i32 folder = open_readonly((struct agent *)0, "/proc/self/fd"), fd;
    i64 got, at;
    if (folder < 0)
        return;
    while ((got = read_entries((struct agent *)0, folder, entries, sizeof entries)) > 0) {
        for (at = 0; at < got; at += *(const u16 *)((const u8 *)entries + at + 16)) {
            const char *name = (const char *)entries + at + 19;
            if (name[0] < '0' || name[0] > '9')
                continue;
            fd = (i32)parse_number(&name, name + 10, 10);
            if (socket_is(fd, inode))
                permitted_call((struct agent *)0, NR_SHUTDOWN, (u64)fd, 2 /* SHUT_RDWR */, 0, 0, 0);
        }
    }
    close_fd(folder);
}
