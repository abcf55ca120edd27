/*
 * The list of threads, from /proc/self/task, and their other procfs files. Sampler thread only, except owner_*.
 *
 * Descriptors are kept in the sampler thread's own table (entry/descriptors.c), so the target's is not used up.
 */

#define LIST_CHECK_NS 2000000ULL          /* a new thread is noticed within this time: pools make some that live 10 ms */
#define LIST_CHECK_PER_THREAD_NS 10000ULL /* plus this much for each slot: a listing takes about 0.5 us a thread */
#define LIST_REREAD_NS 250000000ULL       /* or within this time if another one ended at the same moment */
#define LIST_COMING_REREAD_NS 8000000ULL  /* the same while threads keep coming … */
#define LIST_COMING_PER_THREAD_NS 100000ULL /* … and for each slot */
#define COMING_NS 250000000ULL            /* after a new thread, others are expected for this time */
#define CHECK_PER_THREAD_NS 1000000ULL    /* plus this much for each slot, to bound the cost of reading all slots */
#define NAMES_REREAD_NS 1000000000ULL
#define PATH_BYTES 64
#define FDS_SPARE 16
#define THREAD_ID_MAX (1U << 24)          /* the host keeps tables by thread id */
#define OF_KERNEL 0x204010ULL             /* PF_KTHREAD, PF_IO_WORKER, PF_USER_WORKER (since 6.4): <linux/sched.h> */
#define WORKERS_SINCE_MAJOR 5             /* Linux 5.12; before, they were processes, and the second bit meant */
#define WORKERS_SINCE_MINOR 12            /* something else */
#define FLAGS_FIELD 7                     /* of /proc/PID/task/TID/stat, counted from the state on; proc(5) */

static i32 task_file_open(const struct agent *a, u32 tid, const char *name)
{
    char path[PATH_BYTES];
    u32 at = text_append(path, 0, "/proc/self/task/");
    at = text_append_number(path, at, tid);
    text_append(path, text_append(path, at, "/"), name);
    return open_readonly(a, path);
}

/* Read a small procfs file of a thread into `to`, zero-terminated. Returns the bytes read, or -errno. */
static i64 task_file_read(const struct agent *a, u32 tid, const char *name, char *to, u32 capacity)
{
    i32 fd = task_file_open(a, tid, name);
    i64 got;
    if (fd < 0)
        return fd;
    got = read_at(a, fd, to, capacity - 1, 0);
    close_fd(fd);
    to[got > 0 ? got : 0] = 0;
    return got;
}

/* Read a thread's name. Returns 0 if the thread has ended. */
static u32 thread_read_name(struct agent *a, struct thread_slot *slot)
{
    char name[32];
    u32 i, bytes, changed = 0;
    i64 got = task_file_read(a, slot->tid, "comm", name, sizeof name);
    if (got <= 0)
        return 0;
    bytes = (u32)got - 1 < 15 ? (u32)got - 1 : 15;
    for (i = 0; i < 16; i++) {
        char c = i < bytes ? name[i] : 0;
        changed |= slot->name[i] != c;
        slot->name[i] = c;
    }
    slot->ran_since_name = 0;
    if (changed && slot->announced)
        thread_announce(a, slot, 0);
    return 1;
}

struct thread_signals {
    u64 blocked;                          /* bit n - 1 is signal n */
    u64 pending;                          /* of this thread only */
    u64 queued;                           /* by all processes of the user */
    char state;                           /* R S D T t Z X; proc(5) */
};

/* Read State, SigQ, SigPnd and SigBlk of /proc/PID/task/TID/status, proc(5). Returns 0 if the thread has ended. */
static u32 thread_signals_read(struct agent *a, u32 tid, struct thread_signals *signals)
{
    char *text = (char *)a->text;
    i64 got = task_file_read(a, tid, "status", text, TEXT_BYTES);
    i64 i;
    signals->blocked = 0;
    signals->pending = 0;
    signals->queued = 0;
    signals->state = 'R';
    for (i = 0; i + 24 < got; i++) {
        const char *at = text + i + 9, *queued_at = text + i + 7;
        if (text[i] != '\n' || text[i + 1] != 'S')
            continue;
        if (text[i + 2] == 't' && text[i + 3] == 'a' && text[i + 4] == 't' && text[i + 5] == 'e')
            signals->state = text[i + 8];
        else if (text[i + 4] == 'Q' && text[i + 2] == 'i')
            signals->queued = parse_number(&queued_at, text + got, 10);
        else if (text[i + 4] == 'P' && text[i + 5] == 'n' && text[i + 6] == 'd' && text[i + 2] == 'i')
            signals->pending = parse_number(&at, text + got, 16);
        else if (text[i + 4] == 'B' && text[i + 5] == 'l' && text[i + 6] == 'k')
            signals->blocked = parse_number(&at, text + got, 16);
    }
    return got > 0;
}

/* Return whether the thread's mask blocks our signal. */
static u32 thread_blocks_signal(struct agent *a, u32 tid)
{
    struct thread_signals signals;
    thread_signals_read(a, tid, &signals);
    return (u32)(signals.blocked >> (a->signo - 1)) & 1;
}

/* Return whether a thread is one of the kernel's: kernel_threads.c. */
static u32 thread_is_of_kernel(struct agent *a, u32 tid)
{
    char text[512];
    i64 got = task_file_read(a, tid, "stat", text, sizeof text), at = got;
    const char *flags;
    u32 spaces = 0;
    while (at > 0 && text[at - 1] != ')')
        at--;
    if (at <= 0)
        return 0;
    for (; at < got && spaces < FLAGS_FIELD; at++)
        spaces += text[at] == ' ';        /* one before each field */
    flags = text + at;
    return (parse_number(&flags, text + got, 10) & OF_KERNEL) != 0 &&
           kernel_is_since(WORKERS_SINCE_MAJOR, WORKERS_SINCE_MINOR);
}

/* Find the slot of a thread; 0 if it has none. Listings come almost in the order of the slots, so the search starts
 * where the last one ended. */
static struct thread_slot *thread_find(struct agent *a, u32 tid, u32 *hint)
{
    u32 i;
    for (i = 0; i < a->slot_count; i++) {
        u32 at = *hint + i < a->slot_count ? *hint + i : *hint + i - a->slot_count;
        if (a->slots[at].tid == tid) {
            *hint = at + 1 < a->slot_count ? at + 1 : 0;
            return &a->slots[at];
        }
    }
    return (struct thread_slot *)0;
}

/* Return a free slot: its thread has ended and no answer can arrive any more. 0 if there is none. */
static struct thread_slot *thread_slot_free(struct agent *a)
{
    u32 i;
    for (i = 0; i < a->slot_count; i++)
        if (!a->slots[i].tid && !signal_is_under_way(&a->slots[i]))
            return &a->slots[i];
    return a->slot_count < MAX_THREADS ? &a->slots[a->slot_count++] : (struct thread_slot *)0;
}

/* Open a thread's file and keep it open, if the limit leaves room for files that are opened briefly. Returns -1 if not
 * kept. */
static i32 task_file_keep(const struct agent *a, u32 tid, const char *name)
{
    i32 fd = task_file_open(a, tid, name);
    if (fd < 0 || (u64)fd + FDS_SPARE < a->fd_limit)
        return fd < 0 ? -1 : fd;
    close_fd(fd);
    return -1;
}

/* Parse a schedstat file: returns the second number, ns (a kernel that does not count writes zeros); `slices` gets the
 * third: how often the thread was given a CPU. */
static u64 run_delay_parse(const char *text, i64 bytes, u64 *slices)
{
    const char *at = text;
    u64 run_ns, delay_ns;
    if (bytes <= 0)
        return RUN_DELAY_UNKNOWN;
    run_ns = parse_number(&at, text + bytes, 10);
    at++;
    delay_ns = parse_number(&at, text + bytes, 10);
    at++;
    *slices = parse_number(&at, text + bytes, 10);
    return run_ns ? delay_ns : RUN_DELAY_UNKNOWN;
}

/* Return how long the thread has waited for CPUs in total, ns. */
static u64 run_delay_of(const struct agent *a, struct thread_slot *slot)
{
    char text[80];
    i64 got;
    if (slot->schedstat_fd < 0)
        slot->schedstat_fd = task_file_keep(a, slot->tid, "schedstat");
    if (slot->schedstat_fd < 0)
        got = task_file_read(a, slot->tid, "schedstat", text, sizeof text);
    else
        got = read_at(a, slot->schedstat_fd, text, sizeof text - 1, 0);
    return run_delay_parse(text, got, &slot->slices);
}

static void task_files_close(struct thread_slot *slot)
{
    close_fd(slot->syscall_fd);
    close_fd(slot->schedstat_fd);
}

static void thread_add(struct agent *a, u32 tid, u64 now_ns, u64 listed_ns, u32 is_first_listing)
{
    struct thread_slot *slot = thread_slot_free(a);
    u64 *frames;                          /* the pages of the thread that had the slot before */
    struct managed_walk *managed;
    u32 is_newborn;
    i64 cpu_ns = clock_ns_sigsafe(THREAD_CPU_CLOCK(tid));
    if (!slot || a->next_thread_id >= THREAD_ID_MAX) {
        count_up(a, COUNTER_THREADS_LOST, 1);
        return;
    }
    if (cpu_ns < 0)
        return;                           /* ended already */
    frames = slot->frames;
    managed = slot->managed;
    bytes_zero(slot, sizeof *slot);
    slot->frames = frames;
    slot->managed = managed;
    slot->tid = tid;
    slot->owner = BOOT->is_alone ? OWNER_TARGET : OWNER_UNKNOWN;
    slot->thread_id = ++a->next_thread_id;
    slot->syscall_fd = task_file_keep(a, tid, "syscall");
    slot->schedstat_fd = -1;
    slot->seen_in = a->list_number;
    slot->first_seen_ns = now_ns;
    slot->ran_ns = is_first_listing ? 0 : now_ns;
    slot->wait_sysno = -1;
    /* A thread that started since the last listing has used all its CPU time during the recording; any other has
     * not. */
    is_newborn = !is_first_listing && (u64)cpu_ns <= now_ns_sigsafe() - listed_ns;
    if (is_newborn) {
        a->newcomer_ns = now_ns;
        slot->early_samples = EARLY_SAMPLES;
    }
    slot->cpu_seen_ns = slot->cpu_told_ns = is_newborn ? 0 : (u64)cpu_ns;
    slot->cpu_before_us = (u32)(slot->cpu_told_ns / 1000 < ~0U ? slot->cpu_told_ns / 1000 : ~0U);
    slot->accounted_ns = is_newborn ? now_ns - (u64)cpu_ns : now_ns;
    slot->run_delay_seen_ns = is_newborn ? 0 : is_first_listing ? RUN_DELAY_UNKNOWN : run_delay_of(a, slot);
    slot->may_have_waited = !is_newborn;
    if (!thread_read_name(a, slot)) {
        task_files_close(slot);
        slot->tid = 0;                    /* ended already: short_threads.c reports its CPU time */
        return;
    }
    slot->signals_blocked = thread_blocks_signal(a, tid);
    slot->is_of_kernel = slot->signals_blocked && thread_is_of_kernel(a, tid);
    if (slot->is_of_kernel)               /* they block all, but that is not in the way of anything */
        slot->signals_blocked = 0;
}

/* Add the handler's counts of restarted calls, which it keeps in the slot, to the counters. */
static void repairs_collect(struct agent *a, struct thread_slot *slot)
{
    u32 repaired = slot->eintr_repaired, unrepairable = slot->eintr_unrepairable;
    count_up(a, COUNTER_EINTR_REPAIRED, repaired - slot->eintr_repaired_told);
    count_up(a, COUNTER_EINTR_UNREPAIRABLE, unrepairable - slot->eintr_unrepairable_told);
    slot->eintr_repaired_told = repaired;
    slot->eintr_unrepairable_told = unrepairable;
}

static void thread_remove(struct agent *a, struct thread_slot *slot)
{
    cpu_timer_delete(a, slot);
    if (slot->owner != OWNER_INJECTED)
        intervals_finish(a, slot);
    repairs_collect(a, slot);
    if (slot->owner != OWNER_INJECTED) {
        thread_announce(a, slot, THREAD_EXITED);
        count_up(a, COUNTER_THREADS_EXITED, 1);
    }
    task_files_close(slot);
    idle_set(a, slot, 0);
    slot->tid = 0;
    slot->signal_state = SIGNAL_IDLE;     /* a signal to a thread that ended is dropped */
}

/* Update the slots from /proc/self/task. */
static void threads_list(struct agent *a, u64 now_ns)
{
    u8 *entries = a->text;
    u32 is_first = a->list_number == 0, hint = 0, i;
    i32 fd = open_readonly(a, "/proc/self/task");
    i64 got;
    u64 listed_ns = a->list_read_ns;
    a->list_read_ns = now_ns;
    if (fd < 0)
        return;
    a->list_number++;
    /* Uses the upper half of the scratch memory: thread_add reads files into the lower one. */
    while ((got = read_entries(a, fd, entries + TEXT_BYTES, TEXT_BYTES)) > 0) {
        i64 at = 0;
        while (at < got) {
            /* struct linux_dirent64: ino u64, off u64, reclen u16, type u8, name; getdents(2) */
            const u8 *entry = entries + TEXT_BYTES + at;
            const char *name = (const char *)entry + 19;
            struct thread_slot *slot;
            u32 tid;
            at += *(const u16 *)(entry + 16);
            if (name[0] < '0' || name[0] > '9')
                continue;
            tid = (u32)parse_number(&name, name + 10, 10);
            if (tid == a->sampler_tid)
                continue;
            slot = thread_find(a, tid, &hint);
            if (slot)
                slot->seen_in = a->list_number;
            else
                thread_add(a, tid, now_ns, listed_ns, is_first);
        }
    }
    close_fd(fd);
    for (i = 0; i < a->slot_count; i++)
        /* A listing may be cut short when a thread ends during it. Only a missing clock proves that a thread has
         * ended. */
        if (a->slots[i].tid && a->slots[i].seen_in != a->list_number &&
            clock_ns_sigsafe(THREAD_CPU_CLOCK(a->slots[i].tid)) < 0)
            a->slots[i].is_gone = 1;
}

/* Return the number of threads, from the link count of the directory, without listing it; two more, for "." and "..". 0
 * if it cannot be read. */
static u64 threads_count(const struct agent *a)
{
    u64 stat[18];                         /* struct stat of x86-64: 144 bytes, st_nlink at 16; stat(2) */
    const char *path = "/proc/self/task";
    i64 error = permitted_call(a, NR_NEWFSTATAT, (u64)-100 /* AT_FDCWD */, (u64)path, (u64)stat, 0, 0);
    return error < 0 ? 0 : stat[2];
}

/* Return whether a thread has started lately. */
static u32 threads_keep_coming(const struct agent *a, u64 now_ns)
{
    return now_ns - a->newcomer_ns < COMING_NS;
}

/* Return the time between two listings although the number of threads is the same. */
static u64 list_reread_ns(const struct agent *a, u64 now_ns)
{
    return threads_keep_coming(a, now_ns) ? LIST_COMING_REREAD_NS + a->slot_count * LIST_COMING_PER_THREAD_NS
                                          : LIST_REREAD_NS + a->slot_count * CHECK_PER_THREAD_NS;
}

/* List the threads if their number changed, and at intervals, since one may start as another ends. */
static void list_check(struct agent *a, u64 now_ns)
{
    u64 count = threads_count(a);
    a->list_checked_ns = now_ns;
    if (!count || count != a->list_links || now_ns - a->list_read_ns >= list_reread_ns(a, now_ns))
        threads_list(a, now_ns);
    a->list_links = count;
}

static void threads_keep(struct agent *a, u64 now_ns)
{
    u32 i;
    if (now_ns - a->list_checked_ns >= LIST_CHECK_NS + a->slot_count * LIST_CHECK_PER_THREAD_NS)
        list_check(a, now_ns);
    if (now_ns - a->names_read_ns < NAMES_REREAD_NS)
        return;
    a->names_read_ns = now_ns;
    for (i = 0; i < a->slot_count; i++)
        if (a->slots[i].tid && a->slots[i].ran_since_name && a->slots[i].owner != OWNER_INJECTED)
            thread_read_name(a, &a->slots[i]);
}

/*
 * Return a thread whose owner is unknown. Only Frida knows its own threads, and only JavaScript can ask it: agent.js
 * fetches the next unknown thread and sets its owner. Context: JS thread; writes only `owner`.
 */
static u32 owner_next_unknown(struct agent *a)
{
    u32 i;
    for (i = 0; i < a->slot_count; i++)
        if (a->slots[i].tid && a->slots[i].owner == OWNER_UNKNOWN)
            return a->slots[i].tid;
    return 0;
}

static void owner_set(struct agent *a, u32 tid, u32 owner)
{
    u32 hint = 0;
    struct thread_slot *slot = thread_find(a, tid, &hint);
    if (slot)
        store_release_u32(&slot->owner, owner);
}
