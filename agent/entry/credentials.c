/*
 * User and capabilities of our thread. setuid(2) of a C library, or of Go, changes those of the threads that it knows:
 * ours would stay root's in a process that has given that up. So our thread drops all capabilities at its birth but those
 * that it needs to follow, and follows the main thread. Users and capabilities are per thread in Linux. Our thread only.
 *
 * A change of user makes the whole process undumpable (kernel/cred.c, commit_creds). The main thread's own change did so
 * before, but the program may have made itself dumpable again since: that is put back.
 */
#define NR_CAPGET 125
#define NR_CAPSET 126
#define NR_SETGROUPS 116
#define NR_SETRESUID 117
#define NR_SETRESGID 119
#define PR_GET_DUMPABLE_OPTION 3
#define PR_SET_DUMPABLE_OPTION 4
#define CAPABILITY_VERSION_3 0x20080522U
#define KEPT_CAPABILITIES (1U << 6 | 1U << 7)    /* CAP_SETGID, CAP_SETUID: <linux/capability.h> */
#define CREDENTIALS_INTERVAL_NS 100000000ULL

static void capabilities_drop(void)
{
    u32 header[2] = {CAPABILITY_VERSION_3, 0}, data[6], i;   /* effective, permitted, inheritable; then the upper halves */
    if (sys_call3(NR_CAPGET, (u64)header, (u64)data, 0) < 0)
        return;
    for (i = 0; i < 6; i++)
        data[i] &= i < 2 ? KEPT_CAPABILITIES : 0;
    sys_call3(NR_CAPSET, (u64)header, (u64)data, 0);
}

/* Read the numbers of a line of a status file into `numbers`: decimal, between blanks. Returns how many, 0 without the
 * line. */
static u32 status_numbers(const char *text, i64 bytes, const char *name, u32 name_bytes, u32 *numbers, u32 most)
{
    const char *end = text + bytes, *at;
    u32 count = 0;
    i64 i;
    for (i = 0; i + name_bytes < bytes; i++) {
        if (!text_is(text + i, name_bytes, name))
            continue;
        for (at = text + i + name_bytes; at < end && *at != '\n' && count < most;) {
            if (*at == '\t' || *at == ' ')
                at++;
            else if (*at >= '0' && *at <= '9')
                numbers[count++] = (u32)parse_number(&at, end, 10);
            else
                break;
        }
        return count;
    }
    return 0;
}

/* Read the main thread's users and groups. Returns 0 if they cannot be read. */
static u32 credentials_read(struct agent *a, struct credentials *found)
{
    char *text = (char *)a->text;
    i64 got = task_file_read(a, a->pid, "status", text, TEXT_BYTES);
    bytes_zero(found, sizeof *found);
    found->group_count = status_numbers(text, got, "\nGroups:", 8, found->groups, CREDENTIAL_GROUPS);
    return got > 0 && status_numbers(text, got, "\nUid:", 5, found->users, 4) == 4 &&
           status_numbers(text, got, "\nGid:", 5, found->main_groups, 4) == 4;
}

static u32 credentials_differ(const struct credentials *left, const struct credentials *right)
{
    const u8 *l = (const u8 *)left, *r = (const u8 *)right;
    u32 i;
    for (i = 0; i < sizeof *left; i++)
        if (l[i] != r[i])
            return 1;
    return 0;
}

/* Become the user that the main thread is now. */
static void credentials_follow(struct agent *a, u64 now_ns)
{
    struct credentials found;
    u64 dumpable;
    u32 is_first = !a->credentials_ns, tries;
    if (now_ns - a->credentials_ns < CREDENTIALS_INTERVAL_NS || !credentials_read(a, &found))
        return;
    a->credentials_ns = now_ns;
    if (!is_first && credentials_differ(&found, &a->credentials)) {
        dumpable = (u64)permitted_call(a, NR_PRCTL, PR_GET_DUMPABLE_OPTION, 0, 0, 0, 0);
        /* Twice: our thread gets the right to change groups only once it is root again. */
        for (tries = 0; tries < 2; tries++) {
            permitted_call(a, NR_SETGROUPS, found.group_count, (u64)found.groups, 0, 0, 0);
            permitted_call(a, NR_SETRESGID, found.main_groups[0], found.main_groups[1], found.main_groups[2], 0, 0);
            permitted_call(a, NR_SETRESUID, found.users[0], found.users[1], found.users[2], 0, 0);
        }
        if (dumpable == 1)
            permitted_call(a, NR_PRCTL, PR_SET_DUMPABLE_OPTION, 1, 0, 0, 0);
    }
    a->credentials = found;
}
