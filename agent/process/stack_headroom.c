/*
 * Whether the stack that a thread is on has room for a signal. The kernel puts a frame with all registers there, 3.4 KB
 * with AVX-512, and our handler needs some more. Too near the end of a stack, that kills the thread or, on a
 * coroutine's stack in the heap, overwrites the memory below. Such threads get no signal, unless they handle it on an
 * alternate stack with room (alternate_stack.c); they are sampled while they sleep. Sampler thread only, except
 * room_note.
 *
 * Memory is known as a stack if the C library says so (thread_stack.c; get_robust_list(2) leads to a thread's control
 * block even before the first signal), if it is the main thread's own, or if a page without access rights is right
 * below it. Of any other memory, the content below the stack pointer is unknown: a thread that was ever seen there, and
 * has no alternate stack, is expected to return there. Its stack pointer is known from each answer of the handler, each
 * look at it asleep, and, before the first signal, from stack_probe.py for threads that computed at the attach.
 *
 * One risk remains: the first signal to any other thread may arrive while it is on a small coroutine stack.
 */

#define SMALL_STACK_BYTES 32768           /* a smaller stack is tiny: PTHREAD_STACK_MIN is 16 KiB */
#define ROOM_MARGIN_BYTES 4096            /* stack that the thread may use beyond what was seen */
#define SIGHTINGS 3                       /* sightings needed in mappings that may have replaced another one: fibers
                                           * are created and freed */
#define DOUBT_MAX_NS 1000000000ULL        /* a target without procfs has no fresh maps: then its CPU time says why */
#define DOUBTED_READINGS 3                /* number of readings of the maps that must agree */

enum stack_room { ROOM_UNKNOWN = 0, ROOM_ENOUGH = 1, ROOM_IN_DOUBT = 2, ROOM_TOO_SMALL = 3, ROOM_STRAYED = 4 };

/* Return the address of a thread's robust list, 0 if it has none. tid 0: the sampler's own. get_robust_list(2) */
static u64 robust_list(const struct agent *a, u32 tid)
{
    u64 head = 0, bytes = 0;
    return permitted_call(a, NR_GET_ROBUST_LIST, tid, (u64)&head, (u64)&bytes, 0, 0) < 0 ? 0 : head;
}

/* Look up a thread's stack before its first signal. A thread that has just started has no robust list yet: its stack is
 * looked up again later. The main thread's stack grows: it needs no check. */
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

/* Return whether `sp` is on the main thread's stack, including growth since the maps were read. Context: signal. */
static u32 is_on_main_stack_sigsafe(const struct agent *a, u64 sp)
{
    const struct memory_range *main_stack = &a->map->main_stack;
    return sp < main_stack->end && (sp >= main_stack->start || main_stack->start - sp < STACK_GROWTH_BYTES) &&
           (sp >= main_stack->start || !stack_range_sigsafe(a->map, sp));
}

/* Return enum stack_room for a stack pointer `sp`; the thread's own stack is from `start` to `end`. Context: signal. */
static u32 room_at_sigsafe(const struct agent *a, u32 tid, u64 start, u64 end, u64 sp)
{
    const struct memory_range *range;
    u64 needed = handler_bytes_needed_sigsafe(a) + ROOM_MARGIN_BYTES;
    if (sp >= start && sp < end)
        return sp - start < needed ? ROOM_TOO_SMALL : ROOM_ENOUGH;
    if (tid == a->pid && is_on_main_stack_sigsafe(a, sp))
        return ROOM_ENOUGH;
    range = stack_range_sigsafe(a->map, sp);
    return range && range->is_guarded && sp - range->start >= needed ? ROOM_ENOUGH : ROOM_STRAYED;
}

static u32 room_at(const struct agent *a, const struct thread_slot *slot, u64 sp)
{
    return room_at_sigsafe(a, slot->tid, slot->stack_start, slot->stack_end, sp);
}

/* Return whether the handler may set the thread's timer again. If there was no room, the sampler checks first. Context:
 * signal. */
static u32 room_lasts_sigsafe(const struct agent *a, const struct thread_slot *slot, const struct unwinder *u, u64 sp)
{
    return slot->is_on_alternate || room_at_sigsafe(a, slot->tid, u->own_start, u->own_end, sp) == ROOM_ENOUGH;
}

/* Return the start of the mapping at `sp`, 0 if the maps have none. */
static u64 mapping_start(const struct agent *a, u64 sp)
{
    const struct memory_range *range = stack_range_sigsafe(a->map, sp);
    return range ? range->start : 0;
}

/* Learn from a stack pointer `sp`, seen by the handler or while the thread slept. If there was no room, the decision
 * waits for fresh maps: the current ones may contain stacks that no longer exist. */
static void room_learn(struct agent *a, struct thread_slot *slot, u64 sp)
{
    if (slot->room <= ROOM_ENOUGH && !slot->stack_end)
        room_look(a, slot);
    if (slot->room == ROOM_IN_DOUBT && mapping_start(a, sp) == slot->doubted_start)
        slot->sightings++;
    if (sp - slot->alternate_start < slot->alternate_bytes || slot->room >= ROOM_IN_DOUBT ||
        alternate_has_room(a, slot) || room_at(a, slot, sp) == ROOM_ENOUGH)
        return;
    a->want_refresh = 1;
    slot->doubted_start = mapping_start(a, sp);
    if (!slot->doubted_start)
        return;                           /* a stack newer than the maps: fibers are created and freed */
    slot->room = ROOM_IN_DOUBT;
    slot->doubted_sp = sp;
    slot->doubted_readings = 0;
    slot->doubted_ns = now_ns_sigsafe();
}

/* Return whether `sp` is in memory of malloc. */
static u32 is_heap(const struct agent *a, u64 sp)
{
    const struct memory_range *range = stack_range_sigsafe(a->map, sp);
    return range && range->is_heap;
}

/*
 * Decide about a stack pointer in doubt with fresh maps. If nothing is mapped there now, or something else than before,
 * the stack no longer exists, and its room is unknown. A reading during a change of the mappings may lack a line, so
 * several readings must agree.
 */
static void room_decide(struct agent *a, struct thread_slot *slot)
{
    u64 sp = slot->doubted_sp, start = mapping_start(a, sp);
    u32 room = start == slot->doubted_start ? room_at(a, slot, sp) : ROOM_ENOUGH;
    if (room != ROOM_ENOUGH && ++slot->doubted_readings < DOUBTED_READINGS) {
        slot->doubted_ns = now_ns_sigsafe();
        a->want_refresh = 1;
        return;
    }
    if (room == ROOM_STRAYED && !is_heap(a, sp) && ++slot->sightings < SIGHTINGS)
        room = ROOM_ENOUGH;
    slot->room = room;
    if (room != ROOM_STRAYED || !slot->alternate_is_known)
        return;
    if (slot->alternate_bytes >= alternate_bytes_needed(a)) {
        a->strays_have_alternates = 1;
        a->dispositions_read_ns = 0;      /* update our handler's flags soon */
    } else {
        a->has_strays = 1;
    }
}

/*
 * Return whether the thread may get a signal now, as far as its stacks are known: ROOM_ENOUGH, or why not.
 * ROOM_IN_DOUBT is temporary.
 *
 * A thread that left its own stack, and whose alternate stack is unknown, is assumed to have one if the target has
 * handlers that run there: it needs it for those.
 */
static u32 room_for_signal(struct agent *a, struct thread_slot *slot)
{
    if (alternate_has_room(a, slot))
        return ROOM_ENOUGH;
    alternate_take(a, slot);
    if (slot->room == ROOM_UNKNOWN)
        room_look(a, slot);
    if (slot->room == ROOM_IN_DOUBT) {
        if (a->map_read_ns < slot->doubted_ns)
            return now_ns_sigsafe() - slot->doubted_ns < DOUBT_MAX_NS ? ROOM_IN_DOUBT : ROOM_STRAYED;
        room_decide(a, slot);
        if (slot->room == ROOM_IN_DOUBT)
            return ROOM_IN_DOUBT;
    }
    if (alternate_is_too_small(a, slot) || slot->room == ROOM_TOO_SMALL)
        return ROOM_TOO_SMALL;
    if (slot->alternate_is_known)
        return slot->room == ROOM_STRAYED && a->strays_have_alternates && !a->on_alternate_stack ? ROOM_IN_DOUBT
                                                                                                 : slot->room;
    alternate_watch(a, slot);
    if (!a->on_alternate_stack && (slot->room == ROOM_STRAYED || a->has_strays))
        return ROOM_STRAYED;
    if (alternate_is_quiet(a, slot))
        return ROOM_ENOUGH;
    if (slot->tid == a->pid)
        alternate_settle(a, slot, a->map->main_stack.end);
    else
        alternate_settle(a, slot, slot->stack_end);
    return ROOM_IN_DOUBT;
}

/*
 * Note what the host saw of a thread: its stack pointer, and its alternate stack (`alternate_bytes` below 0: unknown).
 * Before sampling begins; rooms_begin evaluates it.
 */
static void room_note(struct agent *a, u32 tid, u64 sp, u64 alternate_start, i64 alternate_bytes)
{
    u32 hint = 0;
    struct thread_slot *slot = thread_find(a, tid, &hint);
    if (!slot)
        return;
    if (alternate_bytes >= 0) {
        slot->alternate_start = alternate_start;
        slot->alternate_bytes = (u64)alternate_bytes;
        alternate_note(a, slot);
    }
    if (a->probe_count < CONTROL_PROBES) {
        a->probes[a->probe_count].tid = tid;
        a->probes[a->probe_count++].sp = sp;
    }
}

/* Context: sampler thread, at its start. */
static void rooms_begin(struct agent *a)
{
    u32 i, hint = 0;
    for (i = 0; i < a->probe_count; i++) {
        struct thread_slot *slot = thread_find(a, a->probes[i].tid, &hint);
        if (slot)
            room_learn(a, slot, a->probes[i].sp);
    }
}
