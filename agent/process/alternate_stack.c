/*
 * Alternate signal stacks (sigaltstack(2)): does our handler run on them, and have they room for it? Sampler thread only,
 * but for alternate_note.
 *
 * Programs whose threads leave their own stacks (BEAM, Go, OCaml 5) give each thread an alternate one, and have all their
 * handlers run there (SA_ONSTACK). So must ours: a signal's frame on a stack in the heap overwrites what lies below. Other
 * programs take their signals on the stack that a thread is on, and have an alternate one for SIGSEGV alone; some have
 * long freed its memory (SWI-Prolog): ours must not run there. The flag belongs to the signal and not to a thread. It is
 * set where the target's handlers that go on afterwards have it, and none of them lacks it, or where a thread that left
 * its own stack is known to have an alternate one with room; not where one is known that is too small, or that several
 * threads share. A thread without one takes the signal on the stack that it is on.
 *
 * How large a thread's stack is, each answer of the handler tells (ucontext's uc_stack), and stackprobe.py for threads
 * that computed at the attach. A stack that holds our handler alone may still be too small where it meets a handler of
 * the target's at work there.
 */

#define HANDLER_STACK_BYTES 2560          /* red zone, our handler and what it calls, as TinyCC compiles it */
#define OTHER_HANDLER_BYTES 4096          /* what the target's own handler may need for itself */
#define FRAME_BYTES_FALLBACK 4096         /* before Linux 5.14 there is no AT_MINSIGSTKSZ */
#define QUIET_LOOKS 100                   /* at a thread that was never seen in a handler on an alternate stack */
/* SIGHUP 1, SIGINT 2, SIGQUIT 3, SIGTERM 15: somebody asks the program to end or to begin anew. Every Python
 * program has such a handler: for SIGINT, and CPython lets all of them run on alternate stacks. */
#define SELDOM_SIGNALS (1ULL << 0 | 1ULL << 1 | 1ULL << 2 | 1ULL << 14)
/* SIGILL 4, SIGTRAP 5, SIGABRT 6, SIGBUS 7, SIGFPE 8, SIGSEGV 11, SIGSTKFLT 16, SIGSYS 31: mostly the program is about to
 * die. Rust and CPython, say, have small alternate stacks for these alone. */
#define FATAL_SIGNALS (1ULL << 3 | 1ULL << 4 | 1ULL << 5 | 1ULL << 6 | 1ULL << 7 | 1ULL << 10 | 1ULL << 15 | 1ULL << 30)
#define SIGNALS_OF_LIBC (3ULL << 31)      /* 32 and 33: glibc cancels threads and changes their uids by them */
#define AUXV_MINSIGSTKSZ 51

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

/* What our handler needs where no other one is at work. Context: signal. */
static u64 handler_bytes_needed_sigsafe(const struct agent *a)
{
    return a->frame_bytes + HANDLER_STACK_BYTES;
}

/* … and where one of the target's may be. */
static u64 alternate_bytes_needed(const struct agent *a)
{
    return handler_bytes_needed_sigsafe(a) + (a->alternate_handlers ? a->frame_bytes + OTHER_HANDLER_BYTES : 0);
}

/* Is our handler to run on alternate stacks? */
static u32 alternate_is_wanted(const struct agent *a)
{
    if (a->alternate_is_shared || (a->alternate_smallest && a->alternate_smallest < handler_bytes_needed_sigsafe(a)))
        return 0;
    return a->strays_have_alternates || ((a->alternate_is_for_ours || a->alternate_handlers) && !a->handlers_are_plain);
}

/* Do two threads have the same memory for theirs? Harmless for handlers that end the program; not for ours. */
static void alternate_compare(struct agent *a, struct thread_slot *slot)
{
    u32 i;
    for (i = 0; i < a->slot_count; i++) {
        struct thread_slot *other = &a->slots[i];
        if (other != slot && other->tid && other->alternate_bytes &&
            slot->alternate_start < other->alternate_start + other->alternate_bytes &&
            other->alternate_start < slot->alternate_start + slot->alternate_bytes)
            other->alternate_is_shared = slot->alternate_is_shared = a->alternate_is_shared = 1;
    }
}

/* A thread's alternate stack became known; 0 bytes if it has none. */
static void alternate_note(struct agent *a, struct thread_slot *slot)
{
    u64 bytes = slot->alternate_bytes;
    if (bytes && (!slot->alternate_is_known || slot->alternate_compared != slot->alternate_start))
        alternate_compare(a, slot);
    slot->alternate_compared = slot->alternate_start;
    slot->alternate_is_known = 1;
    if (bytes && (!a->alternate_smallest || bytes < a->alternate_smallest))
        a->alternate_smallest = bytes;
}

/* Does the thread have one, and our handler runs there with room enough? */
static u32 alternate_has_room(const struct agent *a, const struct thread_slot *slot)
{
    return a->on_alternate_stack && slot->alternate_is_known && !slot->alternate_is_shared &&
           slot->alternate_bytes >= alternate_bytes_needed(a);
}

/* Would our handler run on one that is too small, or meet another handler there? */
static u32 alternate_is_too_small(const struct agent *a, const struct thread_slot *slot)
{
    return slot->alternate_bytes && (a->on_alternate_stack || a->alternate_handlers) &&
           (slot->alternate_is_shared || slot->alternate_bytes < alternate_bytes_needed(a));
}

/*
 * The target has handlers that run on alternate stacks, and how large this thread's is nobody knows yet. Its mask tells
 * when such a handler is at work: a thread that is ever seen so gets no signal, and one that is not only after a while,
 * unless other threads had large ones. Then to be met in a handler is as good as impossible. Where the handlers are for
 * signals that hardly ever come, it is so from the first look on; and where the target has our own signal handled there
 * (Go), the stacks are made for signals that come at any time.
 */
static void alternate_watch(struct agent *a, struct thread_slot *slot)
{
    struct thread_signals signals;
    if (!a->alternate_handlers || a->alternate_is_for_ours || slot->alternate_is_known || slot->is_in_own_handlers ||
        a->alternate_smallest >= alternate_bytes_needed(a) || !thread_signals_read(a, slot->tid, &signals))
        return;
    slot->quiet_looks++;
    if (signals.blocked & a->alternate_handlers)
        slot->is_in_own_handlers = 1;
}

/* May a thread whose alternate stack nobody knows get its first signal, as far as handlers of the target's go? */
static u32 alternate_is_quiet(const struct agent *a, const struct thread_slot *slot)
{
    if (!a->alternate_handlers || a->alternate_is_for_ours || a->alternate_smallest >= alternate_bytes_needed(a))
        return 1;
    return !slot->is_in_own_handlers && slot->quiet_looks > (a->alternate_handlers & ~SELDOM_SIGNALS ? QUIET_LOOKS : 0);
}
