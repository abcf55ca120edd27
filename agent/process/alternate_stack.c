/*
 * Alternate signal stacks (sigaltstack(2)): whether our handler runs on them, and whether they have room for it.
 * Sampler thread only, except alternate_note.
 *
 * Programs whose threads leave their own stacks (BEAM, Go, OCaml 5) give each thread an alternate stack, and run all
 * their handlers there (SA_ONSTACK). Ours must run there, too: a signal frame on a stack in the heap would overwrite
 * the memory below. Other programs handle signals on the stack that a thread is on, and have an alternate stack for
 * SIGSEGV alone; some have long freed its memory (SWI-Prolog), so ours must not run there. The flag belongs to the
 * signal, not to a thread. We set it if the target's handlers that return have it and none of them lacks it, or if a
 * thread that left its own stack is known to have an alternate one with room; not if one is known that is too small, or
 * that several threads share. A thread without an alternate stack handles the signal on the stack that it is on.
 *
 * The size of a thread's alternate stack is known from each answer of the handler (ucontext's uc_stack), from
 * stack_probe.py for threads that computed at the attach, and from the host when it is asked for one that stays in
 * doubt. A stack with room for our handler alone may still be too small if our signal interrupts a handler of the
 * target's there: then our handler checks how much of it is left, and takes no sample if that is too little. Only its
 * frame and its entry must have room.
 */

/* What the code needs at most is computed when it is built, and refused if it is more (stack_use.py). */
#define HANDLER_STACK_BYTES 2816          /* red zone, our handler and its callees */
#define CALLEES_STACK_BYTES 2560          /* of it, the callees */
#define ENTRY_STACK_BYTES 640             /* of it, where our handler finds that there is no room for its callees */
/* Reserve for the target's own handler. CPython's need 400, and 1700 when they call another library for the first time;
 * with AVX-512 3000. Its main thread's alternate stack (faulthandler) has 8192 and a frame, which is room for this one. */
#define OTHER_HANDLER_BYTES 3584
#define FRAME_BYTES_FALLBACK 4096         /* before Linux 5.14 there is no AT_MINSIGSTKSZ */
#define QUIET_LOOKS 100                   /* looks at a thread that was never seen in a handler on an alternate stack */
#define BLOCKED_LOOKS 8                   /* looks at a thread that always blocked such signals */
/* SIGHUP 1, SIGINT 2, SIGQUIT 3, SIGTERM 15, SIGCONT 18, SIGTSTP 20, SIGWINCH 28: requests to end, stop or restart the
 * program, and other sizes of its terminal, so rare. Every Python program has a handler for SIGINT, those that load
 * readline one for SIGWINCH, and CPython lets all its handlers run on alternate stacks. */
#define SELDOM_SIGNALS (1ULL << 0 | 1ULL << 1 | 1ULL << 2 | 1ULL << 14 | 1ULL << 17 | 1ULL << 19 | 1ULL << 27)
/* SIGILL 4, SIGTRAP 5, SIGABRT 6, SIGBUS 7, SIGFPE 8, SIGSEGV 11, SIGSTKFLT 16, SIGSYS 31: the program is usually about
 * to die. Rust and CPython have small alternate stacks for these alone. */
#define FATAL_SIGNALS (1ULL << 3 | 1ULL << 4 | 1ULL << 5 | 1ULL << 6 | 1ULL << 7 | 1ULL << 10 | 1ULL << 15 | 1ULL << 30)
#define SIGNALS_OF_LIBC (3ULL << 31)      /* 32 and 33: glibc uses them to cancel threads and to change their uids */
#define AUXV_MINSIGSTKSZ 51
#define ALTERNATE_DOUBT_NS 20000000ULL    /* so long in doubt, before the host is asked */
#define ALTERNATE_PAUSE_MAX_NS 2000000000ULL
#define ALTERNATE_DOUBT_LONG_NS 500000000ULL /* a pause after which nothing may ever be known: tick.c */
#define FREQUENT_HANDLER_BYTES 16384      /* of an alternate stack, for a handler that was seen running */

/* Read the size of a signal frame on this machine: AT_MINSIGSTKSZ, getauxval(3). */
static void frame_bytes_read(struct agent *a)
{
    u64 *entries = (u64 *)a->text;
    i64 got = auxv_read(a, entries, TEXT_BYTES), i;
    a->frame_bytes = FRAME_BYTES_FALLBACK;
    for (i = 0; i + 1 < got / 8; i += 2)
        if (entries[i] == AUXV_MINSIGSTKSZ)
            a->frame_bytes = entries[i + 1];
}

/* Return the stack bytes that our handler needs if no other handler is running. Context: signal. */
static u64 handler_bytes_needed_sigsafe(const struct agent *a)
{
    return a->frame_bytes + HANDLER_STACK_BYTES;
}

/* Return the stack bytes that it needs if it may interrupt a handler of the target's. */
static u64 alternate_bytes_needed(const struct agent *a)
{
    u64 alone = handler_bytes_needed_sigsafe(a), nested = 2 * a->frame_bytes + OTHER_HANDLER_BYTES + ENTRY_STACK_BYTES;
    return a->alternate_handlers && nested > alone ? nested : alone;
}

/* Return whether our handler shall run on alternate stacks. */
static u32 alternate_is_wanted(const struct agent *a)
{
    if (a->alternate_is_shared || (a->alternate_smallest && a->alternate_smallest < handler_bytes_needed_sigsafe(a)))
        return 0;
    return a->strays_have_alternates || ((a->alternate_is_for_ours || a->alternate_handlers) && !a->handlers_are_plain);
}

/* Find other threads with the same memory for their alternate stack. Harmless for handlers that end the program; not
 * for ours. */
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

/* Note that a thread's alternate stack is known; 0 bytes if it has none. */
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

/* Return whether our handler runs on the thread's alternate stack and has room there. */
static u32 alternate_has_room(const struct agent *a, const struct thread_slot *slot)
{
    return a->on_alternate_stack && slot->alternate_is_known && !slot->alternate_is_shared &&
           slot->alternate_bytes >= alternate_bytes_needed(a);
}

/* Return whether our handler would run on an alternate stack that is too small, or interrupt another handler there. */
static u32 alternate_is_too_small(const struct agent *a, const struct thread_slot *slot)
{
    return slot->alternate_bytes && (a->on_alternate_stack || a->alternate_handlers) &&
           (slot->alternate_is_shared || slot->alternate_bytes < alternate_bytes_needed(a));
}

/*
 * Watch a thread whose alternate stack is unknown, in a target with handlers that run on alternate stacks. A signal that
 * it blocks now and then is one whose handler runs now and then: such a thread gets no signal. Any other gets one only
 * after QUIET_LOOKS looks, unless other threads have large stacks. By then, interrupting a handler there is very
 * unlikely. If the handlers are for rare signals, or CPython's, which only note the signal, one look is enough, or
 * BLOCKED_LOOKS if it has blocked them ever since; a thread that blocked ours, too (admission.c), blocks them for good,
 * as libzmq's do. If the target handles our own signal there (Go), the stacks are made for signals at any time.
 */
static void alternate_watch(struct agent *a, struct thread_slot *slot)
{
    struct thread_signals signals;
    u64 own = a->alternate_handlers & ~SELDOM_SIGNALS;
    if (!a->alternate_handlers || a->alternate_is_for_ours || slot->alternate_is_known || slot->is_in_own_handlers ||
        a->alternate_smallest >= alternate_bytes_needed(a) || !thread_signals_read(a, slot->tid, &signals))
        return;
    slot->quiet_looks++;
    slot->signals_taken |= own & ~signals.blocked;
    slot->may_be_in_handler = (own & signals.blocked) != 0;
    if (signals.blocked & slot->signals_taken)
        slot->is_in_own_handlers = 1;
}

/* Return whether a thread whose alternate stack is unknown may get its first signal, as far as handlers of the target's
 * go. */
static u32 alternate_is_quiet(const struct agent *a, const struct thread_slot *slot)
{
    u32 looks = slot->may_be_in_handler && !slot->is_admitted ? BLOCKED_LOOKS : 0;
    if (!a->alternate_handlers || a->alternate_is_for_ours || a->alternate_smallest >= alternate_bytes_needed(a))
        return 1;
    if (a->frequent_handlers)
        looks = QUIET_LOOKS;
    return !slot->is_in_own_handlers && slot->quiet_looks > looks;
}

/* Take the host's answer, if it has come. A handler that was seen running again and again may need more of the stack than others
 * (profilers walk stacks there): without much room, the thread stays as it is. */
static void alternate_take(struct agent *a, struct thread_slot *slot)
{
    if (!slot->alternate_is_told)
        return;
    slot->alternate_is_told = 0;
    if (slot->alternate_bytes && slot->is_in_own_handlers &&
        slot->alternate_bytes < 2 * a->frame_bytes + HANDLER_STACK_BYTES + FREQUENT_HANDLER_BYTES) {
        slot->alternate_asks = ALTERNATE_ASKS_MAX;
        slot->alternate_bytes = 0;
        return;
    }
    slot->alternate_pause_ns = 0;
    alternate_note(a, slot);
}

/* Ask the host for the alternate stack of a thread that stays in doubt, again if it was not met while it ran.
 * Nobody is asked about a thread with an unknown own stack. */
static void alternate_settle(struct agent *a, struct thread_slot *slot, u64 own_stack_end)
{
    u64 now_ns = now_ns_sigsafe();
    if (!slot->alternate_from_ns) {
        slot->alternate_from_ns = now_ns + ALTERNATE_DOUBT_NS;
        slot->alternate_pause_ns = ALTERNATE_DOUBT_NS;
    }
    if (slot->alternate_asks >= ALTERNATE_ASKS_MAX || now_ns < slot->alternate_from_ns || slot->owner != OWNER_TARGET ||
        !own_stack_end)
        return;
    slot->alternate_from_ns = now_ns + slot->alternate_pause_ns;
    if (slot->alternate_pause_ns < ALTERNATE_PAUSE_MAX_NS)
        slot->alternate_pause_ns *= 2;
    alternate_ask(a, slot);
}
