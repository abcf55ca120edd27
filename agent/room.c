/*
 * Is there room on a thread's stack for a signal? The kernel lays a frame there that holds all registers, 3.4 KB with
 * AVX-512, and our handler needs some more. A thread that runs its own handler on an alternate stack (sigaltstack(2))
 * too small for a second frame dies of it, and so does one on a tiny stack of its own or of a coroutine's. Such threads
 * get no signal; they are seen while they sleep. Sampler thread only.
 *
 * What is known of a thread: the C library keeps its list of robust futexes in its control block, so that
 * get_robust_list(2) tells of its stack (running.c) even before the first signal. Each answer of the handler then tells
 * where the stack pointer stood, and the size of the alternate stack (ucontext's uc_stack); each look at the thread
 * asleep tells the first of these.
 *
 * What remains: the first signal to a thread may meet it on a tiny stack of a coroutine's.
 */

#define HANDLER_STACK_BYTES 2048          /* red zone, our handler and what it calls, as TinyCC compiles it */
#define OTHER_HANDLER_BYTES 4096          /* what the target's own handler may need for itself */
#define FRAME_BYTES_FALLBACK 4096         /* before Linux 5.14 there is no AT_MINSIGSTKSZ */
#define SMALL_STACK_BYTES 32768           /* less than that is a tiny stack: PTHREAD_STACK_MIN is 16 KiB */
#define ROOM_MARGIN_BYTES 4096            /* what the thread may use on top of what it was seen to use */
#define ALTERNATE_REREAD_NS 250000000ULL
#define QUIET_LOOKS 100                   /* at a thread that was never seen in a handler on an alternate stack */
/* SIGHUP 1, SIGINT 2, SIGQUIT 3, SIGTERM 15: somebody asks the program to end or to begin anew. Every Python
 * program has such a handler: for SIGINT, and CPython lets all of them run on alternate stacks. */
#define SELDOM_SIGNALS (1ULL << 0 | 1ULL << 1 | 1ULL << 2 | 1ULL << 14)
#define AUXV_MINSIGSTKSZ 51

enum stack_room { ROOM_UNKNOWN = 0, ROOM_ENOUGH = 1, ROOM_IN_DOUBT = 2, ROOM_TOO_SMALL = 3 };

/* How large a signal's frame is on this machine: AT_MINSIGSTKSZ, getauxval(3). */
static void frame_bytes_read(struct agent *a)
{
    u64 *entries = (u64 *)a->text;
    i32 fd = open_readonly(a, "/proc/self/auxv");
    i64 got = fd < 0 ? -1 : sys_call3(NR_READ, (u64)fd, (u64)entries, TEXT_BYTES);
    i64 i;
    close_fd(fd);
    a->frame_bytes = FRAME_BYTES_FALLBACK;
    for (i = 0; i + 1 < got / 8; i += 2)
        if (entries[i] == AUXV_MINSIGSTKSZ)
            a->frame_bytes = entries[i + 1];
}

/*
 * Which signals have handlers that run on the alternate stack and go on afterwards? Not counted are ours, and those
 * that only come when the program is about to die: Rust and CPython, say, have small alternate stacks for these alone.
 */
static void alternate_handlers_keep(struct agent *a, u64 now_ns)
{
    /* SIGILL 4, SIGTRAP 5, SIGABRT 6, SIGBUS 7, SIGFPE 8, SIGSEGV 11, SIGSTKFLT 16, SIGSYS 31 */
    const u64 of_libc = 3ULL << 31;       /* 32 and 33: glibc cancels threads and changes their uids by them */
    const u64 fatal = 1ULL << 3 | 1ULL << 4 | 1ULL << 5 | 1ULL << 6 | 1ULL << 7 | 1ULL << 10 | 1ULL << 15 | 1ULL << 30;
    struct kernel_sigaction action;
    u64 found = 0;
    i32 signo;
    if (now_ns - a->alternate_read_ns < ALTERNATE_REREAD_NS)
        return;
    a->alternate_read_ns = now_ns;
    for (signo = 1; signo <= 64; signo++)
        if (signo != a->signo && kernel_sigaction_get(signo, &action) == 0 && action.handler > SIGNAL_IGNORE &&
            action.flags & FLAG_ONSTACK)
            found |= 1ULL << (signo - 1);
    a->alternate_handlers = found & ~fatal & ~of_libc;
}

/* The address of a thread's robust list, 0 when it has none. The sampler's own for tid 0. get_robust_list(2) */
static u64 robust_list(const struct agent *a, u32 tid)
{
    u64 head = 0, bytes = 0;
    return permitted_call(a, NR_GET_ROBUST_LIST, tid, (u64)&head, (u64)&bytes, 0, 0) < 0 ? 0 : head;
}

/* Context: sampler thread, at its start. */
static void room_prepare(struct agent *a)
{
    u64 block = thread_pointer_sigsafe(a), head = robust_list(a, 0);
    frame_bytes_read(a);
    a->robust_list_offset = block && head - block < CONTROL_BLOCK_BYTES ? head - block : 0;
}

/* The first look, before the first signal. The main thread's stack grows: nothing is known of it, nor need be. */
static void room_look(struct agent *a, struct thread_slot *slot)
{
    u64 head = slot->tid == a->pid || !a->robust_list_offset ? 0 : robust_list(a, slot->tid);
    slot->room = ROOM_ENOUGH;
    if (!head)
        return;
    slot->thread_pointer_seen = head - a->robust_list_offset;
    stack_learn(a, slot);
    if (slot->stack_end && slot->stack_end - slot->stack_start < SMALL_STACK_BYTES)
        slot->room = ROOM_TOO_SMALL;
}

/* Is `sp` too near the end of the stack it is on: the thread's own, or else what is mapped there? */
static u32 is_tight(const struct agent *a, const struct thread_slot *slot, u64 sp)
{
    const struct memory_range *range;
    u64 start = slot->stack_start;
    if (sp < start || sp >= slot->stack_end) {
        range = stack_range_sigsafe(a->map, sp);
        if (!range || range->end == a->map->main_stack.end)
            return 0;
        start = range->start;
    }
    return sp - start < a->frame_bytes + HANDLER_STACK_BYTES + ROOM_MARGIN_BYTES;
}

/* The thread's stack pointer was seen at `sp`, by the handler or while it slept. If that was tight, the verdict waits
 * for fresh maps: those we have may tell of stacks that are gone. */
static void room_learn(struct agent *a, struct thread_slot *slot, u64 sp)
{
    u64 alternate_bytes = slot->alternate_bytes;
    if (alternate_bytes && (!a->alternate_smallest || alternate_bytes < a->alternate_smallest))
        a->alternate_smallest = alternate_bytes;
    if (sp - slot->alternate_start < slot->alternate_bytes || !is_tight(a, slot, sp) || slot->room == ROOM_TOO_SMALL)
        return;
    slot->room = ROOM_IN_DOUBT;
    slot->doubted_sp = sp;
    slot->doubted_ns = now_ns_sigsafe();
    a->want_refresh = 1;
}

static u64 alternate_bytes_needed(const struct agent *a)
{
    return 2 * a->frame_bytes + HANDLER_STACK_BYTES + OTHER_HANDLER_BYTES;
}

/*
 * The target has handlers that run on alternate stacks, and how large this thread's is only its first signal will tell.
 * Its mask tells when such a handler is at work: a thread that is ever seen so gets no signal, and one that is not only
 * after a while, unless other threads had large ones. Then to be met in a handler is as good as impossible. Where the
 * handlers are for signals that hardly ever come, it is so from the first look on.
 */
static void room_watch(struct agent *a, struct thread_slot *slot)
{
    struct thread_signals signals;
    if (!a->alternate_handlers || a->on_alternate_stack || slot->sp_seen || slot->room == ROOM_TOO_SMALL ||
        a->alternate_smallest >= alternate_bytes_needed(a) || !thread_signals_read(a, slot->tid, &signals))
        return;
    slot->quiet_looks++;
    if (signals.blocked & a->alternate_handlers)
        slot->room = ROOM_TOO_SMALL;
}

static u32 is_unlikely_in_handler(const struct agent *a, const struct thread_slot *slot)
{
    return slot->quiet_looks > (a->alternate_handlers & ~SELDOM_SIGNALS ? QUIET_LOOKS : 0);
}

/* May the thread get a signal now, as far as its stacks are known? */
static u32 has_room(struct agent *a, struct thread_slot *slot)
{
    if (a->on_alternate_stack)
        return 1;                         /* made for handlers, by a program that has them run there */
    if (slot->room == ROOM_UNKNOWN)
        room_look(a, slot);
    if (slot->room == ROOM_IN_DOUBT) {
        if (a->map_read_ns < slot->doubted_ns)
            return 0;
        slot->room = is_tight(a, slot, slot->doubted_sp) ? ROOM_TOO_SMALL : ROOM_ENOUGH;
    }
    room_watch(a, slot);
    if (slot->room == ROOM_TOO_SMALL)
        return 0;
    if (!a->alternate_handlers)
        return 1;
    if (!slot->sp_seen)
        return is_unlikely_in_handler(a, slot) || a->alternate_smallest >= alternate_bytes_needed(a);
    return !slot->alternate_bytes || slot->alternate_bytes >= alternate_bytes_needed(a);
}
