/*
 * The stack memory that an unwind may read, and how it is read. All of this may run in the handler: no libc, no locks,
 * no allocation.
 *
 * A rule that is wrong for the code (a module replaced since the maps were read, a guess, hand-written rules) can yield
 * any address, so no word is read before it is known to be mapped:
 *
 *   in place  the stack that the kernel or glibc gave to this very thread, and only in its own handler: no other thread
 *             can unmap it meanwhile. Each page is checked once, since a target may have protected some of them (guard
 *             pages of coroutines in an array on a thread's stack). In its own handler, the one page that a thread's
 *             stack pointer points to is also safe, wherever it is.
 *   copied    all other stacks: coroutines, alternate signal stacks, Go's, those of other threads. Memory beyond their
 *             frames may be unmapped at any time, and maps may not show their guard pages (MADV_GUARD_INSTALL).
 *
 * The readable range is the window; it moves up with the walk.
 */

#define RED_ZONE_BYTES 128                /* below sp, kept by the kernel when it delivers a signal: ABI 3.2.2 */
#define COPY_FIRST_BYTES 8192             /* most stacks need no more; the cost is per call, not per byte */
#define COPY_BELOW_BYTES 256              /* a rule also reads below the return address */
#define STACK_UNKNOWN_BYTES (1ULL << 20)  /* stack read above sp where the maps have no mapping */
#define STACK_GROWTH_BYTES (64ULL << 20)  /* limit of the growth of the main thread's stack since the maps were read */
#define WINDOW_MOVES_MAX 2048             /* limit for one walk: 0.12 us each in place, 1.4 us copied */
#define STACK_SWITCHES_MAX 8              /* handlers on alternate stacks, split stacks */
#define SCAN_CHECKS_MAX 96                /* limit of code copies for the searches of one walk */
#define PAGE_BYTES 4096ULL

struct unwinder {
    struct agent *agent;
    const struct memory_map *map;
    u64 pc;                               /* position of the frame: the interrupted instruction or a call site */
    u64 sp;
    u64 bp;
    u64 window_start;                     /* the readable range, runtime addresses */
    u64 window_end;
    u64 window_delta;                     /* offset from a runtime address to the bytes */
    u64 stack_start;                      /* the stack that contains the window */
    u64 stack_end;
    u64 thread_pointer;                   /* in the handler: its base of fs; 0 if unknown */
    u64 own_start;                        /* the thread's own stack, in its handler; 0 if unknown */
    u64 own_end;
    u8 *copy;                             /* buffer for copies of other stacks */
    u32 copy_bytes;
    u32 in_place;
    u32 in_handler;                       /* running in the handler of the thread whose stack this is */
    u64 live_page;                        /* page of the thread's stack pointer, which stays mapped */
    u32 moves;
    u32 switches;
    const u64 *gregs;                     /* ucontext registers, leaf only; 0 if unknown */
    u64 signal_gregs[16];                 /* registers of a frame that a target signal interrupted */
    u64 *frames;
    u64 *cfas;                            /* gets the CFA of each frame, 0 if unknown; may be 0 */
    u64 fault_pc;
    u32 frame_count;
    u32 verdict;
    u32 bp_known;
    u32 guessed;
    u32 ends_in_zero;                     /* the walk ended at a return address of 0 */
    u64 scanned_pc;                       /* code whose caller was the first likely word further up; 0: none */
    u32 guessed_at;                       /* index of the frame whose caller was the first guess */
    u32 scan_checks;
    u32 entry_reads;
    struct managed_walk *walk;            /* for reading what Java frames refer to; may be 0 */
    u32 managed_verdict;                  /* enum managed_verdict of its frames of Java and JavaScript */
    u32 is_bare;                          /* v8_frame.c: the frame was found through a word on the stack */
    u32 java_tid;                         /* the thread whose stack this is, if it has a … */
    u64 java_thread;                      /* JavaThread: its runtime_addr; 0: none is known */
    u64 anchor_sp;                        /* where it left Java, while the walk is below; 0: not known, or passed */
    u64 anchor_pc;
    u64 anchor_fp;                        /* 0: not known */
    u32 anchor_asked;
    u32 chained;                          /* frame_count when rbp was read from a frame of JIT code; 0: never */
};

/* Select the stack that contains `sp`, without reading it. `is_live`: `sp` is the register's value, not read from
 * memory or computed by a rule. Context: signal. */
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
    /* Compilers emit no `rbp restored` after a pop: the rule still points to its slot, which is then just below sp and
     * still holds the value. */
    u->stack_start = sp - start > RED_ZONE_BYTES ? (sp - RED_ZONE_BYTES) & ~7ULL : (start + 7) & ~7ULL;
    u->live_page = is_live && u->in_handler ? sp & ~(PAGE_BYTES - 1) : 0;
    u->window_start = u->window_end = u->stack_start;
    u->window_delta = 0;
}

/* Return whether `runtime_addr` is on a known stack other than this one. Context: signal. */
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

/* Add the page of `runtime_addr` to the window, or begin a new window with it. Returns 0 if it is not mapped. Context:
 * signal. */
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

/* Copy stack from `from` on. Returns 0 if the copy does not contain the word at `runtime_addr`. Context: signal. */
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

/* Move the window so that it contains the aligned word at `runtime_addr`. Returns 0 if that is not on this stack, not
 * mapped, or if the walk has cost too much. Context: signal. */
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
    /* The page below may be unmapped, as below the end of a stack that was left. */
    return window_copy_sigsafe(u, larger_sigsafe(runtime_addr & ~(PAGE_BYTES - 1), u->stack_start), runtime_addr);
}

/* Return whether the words from `low` up to `high` can be read together. They are close to each other. Context:
 * signal. */
static u32 window_holds_sigsafe(struct unwinder *u, u64 low, u64 high)
{
    if ((high > u->window_end || high - 8 < u->window_start) && !window_move_sigsafe(u, high - 8))
        return 0;
    return low >= u->window_start || (u->in_place && window_move_sigsafe(u, low) && high <= u->window_end);
}

/* Read a word of the stack. Returns 0 if it cannot be read. Context: signal. */
static u32 stack_word_sigsafe(struct unwinder *u, u64 runtime_addr, u64 *value)
{
    if (runtime_addr & 7)
        return 0;
    if ((runtime_addr < u->window_start || runtime_addr >= u->window_end) && !window_move_sigsafe(u, runtime_addr))
        return 0;
    *value = *(const u64 *)(runtime_addr + u->window_delta);
    return 1;
}
