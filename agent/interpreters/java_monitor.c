/*
 * Which thread holds the monitor that a thread of Java waits for, in a `synchronized` method or block. Sampler thread only.
 *
 * A JavaThread says which ObjectMonitor it waits to enter. Its owner is a JavaThread, or a place on the stack of one that took
 * the monitor before others came (a BasicLock), or since 24 the number of a java.lang.Thread, which each JavaThread has of
 * the one that it runs. runtime/objectMonitor.hpp.
 */

#define MONITOR_OWNER_UNKNOWN 1ULL        /* a thread that is not known: ANONYMOUS_OWNER */

/* Return whether a JavaThread is still that of the thread: its memory may be another's by now. */
static u32 is_java_thread_of(const struct agent *a, const u64 *recipe, const struct thread_slot *slot)
{
    u64 system = 0;
    u32 tid = 0;
    return slot->java_thread && read_memory(a, slot->java_thread + recipe[HOTSPOT_THREAD_SYSTEM], &system, 8) == 8 && system &&
           read_memory(a, system + recipe[HOTSPOT_SYSTEM_TID], &tid, 4) == 4 && tid == slot->tid;
}

/* Return the runtime_addr of the monitor that a thread waits to enter; 0 if there is none. */
static u64 java_monitor_of(const struct agent *a, const struct thread_slot *slot)
{
    const u64 *recipe = a->heaps ? a->recipes[a->heaps->recipe] : (const u64 *)0;
    u64 monitor = 0;
    if (!recipe || !slot->java_thread || recipe[HOTSPOT_THREAD_PENDING_MONITOR] == ABSENT ||
        read_memory(a, slot->java_thread + recipe[HOTSPOT_THREAD_PENDING_MONITOR], &monitor, 8) != 8 || !monitor)
        return 0;
    return is_java_thread_of(a, recipe, slot) ? monitor : 0;
}

/* Return where a monitor names its owner. */
static u64 java_owner_addr(const struct agent *a, u64 monitor)
{
    return monitor + a->recipes[a->heaps->recipe][HOTSPOT_MONITOR_OWNER];
}

/* Return the owner that a monitor names; 0 if nobody holds it. */
static u64 java_monitor_owner(const struct agent *a, u64 monitor)
{
    u64 owner = 0;
    return read_memory(a, java_owner_addr(a, monitor), &owner, 8) == 8 ? owner : 0;
}

/* Return whether a thread is the owner that a monitor names. */
static u32 is_monitor_owner(const struct agent *a, const u64 *recipe, const struct thread_slot *slot, u64 owner)
{
    u64 number = 0;
    if (!slot->tid || !slot->java_thread)
        return 0;
    if (recipe[HOTSPOT_THREAD_OWNER_ID] != ABSENT) {
        if (read_memory(a, slot->java_thread + recipe[HOTSPOT_THREAD_OWNER_ID], &number, 8) != 8 || number != owner)
            return 0;
    } else if (slot->java_thread != owner && !(owner >= slot->stack_start && owner < slot->stack_end)) {
        return 0;
    }
    return is_java_thread_of(a, recipe, slot);
}

/* Return the thread that is the owner of a monitor; 0 if it is not known. Mostly it is the last holder that was found. The
 * threads that wait for a monitor whose owner is not known ask for the same one in a round, at `now_ns`. */
static struct thread_slot *java_owner_find(struct agent *a, u64 owner, u64 now_ns)
{
    const u64 *recipe = a->recipes[a->heaps->recipe];
    u32 i = a->holder_hint;
    if (owner == MONITOR_OWNER_UNKNOWN || (owner == a->unknown_owner && now_ns == a->unknown_owner_ns))
        return (struct thread_slot *)0;
    if (i < a->slot_count && is_monitor_owner(a, recipe, &a->slots[i], owner))
        return &a->slots[i];
    for (i = 0; i < a->slot_count; i++)
        if (is_monitor_owner(a, recipe, &a->slots[i], owner)) {
            a->holder_hint = i;
            return &a->slots[i];
        }
    a->unknown_owner = owner;
    a->unknown_owner_ns = now_ns;
    return (struct thread_slot *)0;
}
