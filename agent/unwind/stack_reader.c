/*
 * Which stack memory an unwind may read, and how. Everything here may run in the handler: no libc, no locks, no
 * allocation.
 *
 * A rule that is wrong for the code at hand (a module replaced since the maps were read, a guess, hand-written rules)
 * gives an address anywhere, so no word is read before it is known to be there:
 *
 *   in place  the stack that the kernel or glibc gave to this very thread, and only from its own handler: nobody else
 *             can unmap that meanwhile. Each page is asked for once, since a target may have protected some of them
 *             (guard pages of coroutines that live in an array on a thread's stack).
 *             In its own handler a thread's stack pointer is also good for the one page it points to, wherever that is.
 *   copied    all other stacks: coroutines, alternate signal stacks, Go's, those of other threads. What lies beyond their
 *             frames may be unmapped at any time, and maps may not tell of their guard pages (MADV_GUARD_INSTALL).
 *
 * What may be read is the window; it moves along as the walk goes up.
 */

#define RED_ZONE_BYTES 128                /* below sp, kept by the kernel when it delivers a signal: ABI 3.2.2 */
#define COPY_FIRST_BYTES 8192             /* most stacks need no more; the time is that of the call, not of the bytes */
#define COPY_BELOW_BYTES 256              /* what a rule reads besides the return address lies below it */
#define STACK_UNKNOWN_BYTES (1ULL << 20)  /* looked at above sp where the maps know of no mapping */
#define STACK_GROWTH_BYTES (64ULL << 20)  /* how far the main thread's stack may have grown since the maps were read */
#define WINDOW_MOVES_MAX 2048             /* what one walk may cost: 0.12 us each in place, 1.4 us copied */
#define STACK_SWITCHES_MAX 8              /* handlers on alternate stacks, split stacks */
#define SCAN_CHECKS_MAX 96                /* copies of code that the searches of one walk may cost */
#define PAGE_BYTES 4096ULL

struct unwinder {
    struct agent *agent;
    const struct memory_map *map;
    u64 pc;                               /* where the frame is: the interrupted instruction or a call site */
    u64 sp;
    u64 bp;
    u64 window_start;                     /* what may be read now: runtime addresses … */
    u64 window_end;
    u64 window_delta;                     /* … and what to add to get at the bytes */
    u64 stack_start;                      /* the stack it is a part of */
    u64 stack_end;
    u64 thread_pointer;                   /* in the handler: its base of fs, 0 when not known */
    u64 own_start;                        /* the thread's own stack, in its handler; 0 when not known */
    u64 own_end;
    u8 *copy;                             /* where other stacks are copied to */
    u32 copy_bytes;
    u32 in_place;
    u32 in_handler;                       /* of the thread whose stack it is */
    u64 live_page;                        /* the thread's stack pointer points to it: it is there to stay */
    u32 moves;
    u32 switches;
    const u64 *gregs;                     /* ucontext registers, leaf only, 0 when unknown */
    u64 signal_gregs[16];                 /* those of a frame that a signal of the target's own interrupted */
    u64 *frames;
    u64 fault_pc;
    u32 frame_count;
    u32 verdict;
    u32 bp_known;
    u32 guessed;
    u32 scan_checks;
    u32 entry_reads;
    u32 chained;                          /* frame_count when rbp was read from a frame that JIT code had made; 0 never */
};

/* The stack that holds `sp` becomes the one to read; nothing is read yet. `is_live`: the register's value, not something
 * that memory or a rule led to. Context: signal. */
static void window_open_sigsafe(struct unwinder *u, u64 sp, u32 is_live)
{
    const struct memory_range *range = stack_range_sigsafe(u->map, sp);
    const struct memory_range *main_stack = &u->map->main_stack;
    u64 start = 0;
    u->in_place = sp >= u->own_start && sp < u->own_end;
    if (u->in_place) {
        start = u->own_start;
        u->stack_end = u->own_end;
    } else if (range) {
        start = range->start;
        u->stack_end = range->end;
    } else if (sp < main_stack->start && main_stack->start - sp < STACK_GROWTH_BYTES) {
        u->stack_end = main_stack->end;
        u->agent->want_refresh = 1;
    } else {
        u->stack_end = (sp + STACK_UNKNOWN_BYTES) & ~7ULL;
    }
    /* Compilers do not say `rbp restored` after a pop: the rule still points to its slot, which then lies just below
     * sp, and still holds the value. */
    u->stack_start = sp - start > RED_ZONE_BYTES ? (sp - RED_ZONE_BYTES) & ~7ULL : (start + 7) & ~7ULL;
    u->live_page = is_live && u->in_handler ? sp & ~(PAGE_BYTES - 1) : 0;
    u->window_start = u->window_end = u->stack_start;
    u->window_delta = 0;
}

/* Is `runtime_addr` on a stack that we know of, and not on this one? Context: signal. */
static u32 window_is_elsewhere_sigsafe(const struct unwinder *u, u64 runtime_addr)
{
    const struct memory_range *range = stack_range_sigsafe(u->map, runtime_addr);
    if (runtime_addr >= u->own_start && runtime_addr < u->own_end)
        return u->stack_end != u->own_end;
    return range && range->end != u->stack_end;
}

static u64 larger_sigsafe(u64 a, u64 b)
{
    return a > b ? a : b;
}

/* Add the page that holds `runtime_addr`, or begin again with it. 0 when it is not there. Context: signal. */
static u32 window_move_in_place_sigsafe(struct unwinder *u, u64 runtime_addr)
{
    u64 page = runtime_addr & ~(PAGE_BYTES - 1), end = page + PAGE_BYTES;
    if (!memory_is_readable_sigsafe(runtime_addr))
        return 0;
    if (end > u->stack_end)
        end = u->stack_end;
    if (page == u->window_end) {
        u->window_end = end;
    } else {
        if (end != u->window_start)
            u->window_end = end;
        u->window_start = larger_sigsafe(page, u->stack_start);
    }
    return 1;
}

/* Copy stack from `from` on. 0 when the copy does not hold the word at `runtime_addr`. Context: signal. */
static u32 window_copy_sigsafe(struct unwinder *u, u64 from, u64 runtime_addr)
{
    u64 bytes = u->moves == 1 && u->copy_bytes > COPY_FIRST_BYTES ? COPY_FIRST_BYTES : u->copy_bytes;
    i64 got;
    if (bytes > u->stack_end - from)
        bytes = u->stack_end - from;
    got = read_memory_sigsafe(u->agent, from, u->copy, bytes);
    if (got < 8 || runtime_addr + 8 > from + (u64)got)
        return 0;
    u->window_start = from;
    u->window_end = from + ((u64)got & ~7ULL);
    u->window_delta = (u64)u->copy - from;
    return 1;
}

/* Move the window to where it holds the aligned word at `runtime_addr`. 0 when that is not of this stack, not mapped,
 * or when the walk has cost enough. Context: signal. */
static u32 window_move_sigsafe(struct unwinder *u, u64 runtime_addr)
{
    u64 from;
    if (runtime_addr < u->stack_start || runtime_addr >= u->stack_end || u->stack_end - runtime_addr < 8)
        return 0;
    if (u->moves >= WINDOW_MOVES_MAX)
        return 0;
    u->moves++;
    if (u->in_place || (u->live_page && (runtime_addr & ~(PAGE_BYTES - 1)) == u->live_page)) {
        if (u->window_delta)
            u->window_start = u->window_end = u->stack_start;
        u->window_delta = 0;
        return window_move_in_place_sigsafe(u, runtime_addr);
    }
    from = runtime_addr - u->sp < COPY_FIRST_BYTES - RED_ZONE_BYTES - 8 ? u->sp - RED_ZONE_BYTES
                                                                        : runtime_addr - COPY_BELOW_BYTES;
    from = from > runtime_addr ? u->stack_start : larger_sigsafe(from & ~7ULL, u->stack_start);
    if (window_copy_sigsafe(u, from, runtime_addr))
        return 1;
    /* The page below may be gone, as below the end of a stack that was left. */
    return window_copy_sigsafe(u, larger_sigsafe(runtime_addr & ~(PAGE_BYTES - 1), u->stack_start), runtime_addr);
}

/* Can the words from `low` up to `high` be read at once? They lie close together. Context: signal. */
static u32 window_holds_sigsafe(struct unwinder *u, u64 low, u64 high)
{
    if ((high > u->window_end || high - 8 < u->window_start) && !window_move_sigsafe(u, high - 8))
        return 0;
    return low >= u->window_start || (u->in_place && window_move_sigsafe(u, low) && high <= u->window_end);
}

/* A word of the stack. 0 when it cannot be read. Context: signal. */
static u32 stack_word_sigsafe(struct unwinder *u, u64 runtime_addr, u64 *value)
{
    if (runtime_addr & 7)
        return 0;
    if ((runtime_addr < u->window_start || runtime_addr >= u->window_end) && !window_move_sigsafe(u, runtime_addr))
        return 0;
    *value = *(const u64 *)(runtime_addr + u->window_delta);
    return 1;
}
