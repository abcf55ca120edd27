/*
 * Which thread holds the lock that a sleeping thread waits for. Sampler thread only.
 *
 * A futex has no owner (futex(2)). But the word that a thread waits for is part of a mutex, which says whose it is:
 *
 *   pthread_mutex_t of glibc     the word is 2 (held, and others wait); the owner's tid is two words behind it:
 *                                struct __pthread_mutex_s, sysdeps/nptl/bits/struct_mutex.h
 *   FUTEX_WAITERS | tid          in the word itself: mutexes that are robust (the tid is there twice), or that inherit
 *                                priority (FUTEX_LOCK_PI); recursive and checking ones of musl, whose type is in front of
 *                                it (pthread_impl.h). A normal one of musl does not say whose it is.
 *
 * A thread of Java may wait for a monitor (java_monitor.c), by a futex that has nothing to do with it.
 *
 * Other memory may look like a mutex by chance. So the owner has to be another thread of this process, and what lies around
 * it possible for a mutex. The owner is looked at again while the thread sleeps on: others may have got the lock before it.
 */

#define FUTEX_COMMAND 0x7fU               /* without FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME: <linux/futex.h> */
#define FUTEX_WAIT 0
#define FUTEX_LOCK_PI 6
#define FUTEX_WAIT_BITSET 9
#define FUTEX_LOCK_PI2 13
#define FUTEX_WAITERS 0x80000000U
#define FUTEX_TID 0x3fffffffU
#define GLIBC_CONTENDED 2                 /* sysdeps/nptl/lowlevellock.h */
#define GLIBC_OWNER_OFFSET 8
#define GLIBC_KINDS 0x383U                /* normal, recursive, error-checking, adaptive; shared between processes, and both
                                           * flags of lock elision */
#define GLIBC_ROBUST 0x10U
#define GLIBC_USERS_MAX 0xffffU
#define MUSL_KIND 0xfU                    /* recursive 1, checking 2; robust 4, inherits priority 8; 0: its lock has no tid */
#define MUSL_KINDS 0x8fU                  /* shared between processes: 128 */
#define HOLDER_PAUSE_NS 20000000ULL       /* between two looks at an owner: each change makes an interval … */
#define HOLDER_PAUSE_MAX_NS 1000000000ULL /* … at one that was not known: all threads must be asked */

/* glibc's mutex. */
struct mutex_words {
    u32 lock;
    u32 count;
    u32 owner;                            /* tid */
    u32 users;
    u32 kind;
    u32 spins;
    u64 list[2];                          /* of robust ones; else 0 */
};

/* musl's mutex; it waits at `lock`. */
struct musl_mutex_words {
    u32 type;
    u32 lock;
    u32 waiters;
};

/* Return whether a wait may be for a mutex that says whose it is, by the arguments of futex(2). */
static u32 may_be_mutex_wait(const u64 *args)
{
    u32 command = (u32)args[1] & FUTEX_COMMAND, value = (u32)args[2];
    return (command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET) &&
           (value == GLIBC_CONTENDED || (value & FUTEX_WAITERS && value & FUTEX_TID));
}

/* Return whether such a wait is for a mutex that inherits priority. */
static u32 is_priority_wait(const u64 *args)
{
    u32 command = (u32)args[1] & FUTEX_COMMAND;
    return command == FUTEX_LOCK_PI || command == FUTEX_LOCK_PI2;
}

/* Return the tid in the lock of musl's mutex, which is at `runtime_addr`; 0 if it is none. */
static u32 musl_owner(const struct agent *a, u64 runtime_addr)
{
    struct musl_mutex_words mutex;
    if (read_memory(a, runtime_addr - 4, &mutex, sizeof mutex) != sizeof mutex || !(mutex.type & MUSL_KIND) ||
        (mutex.type & 3) == 3 || mutex.type & ~MUSL_KINDS || !mutex.waiters || mutex.waiters > GLIBC_USERS_MAX)
        return 0;
    return mutex.lock & FUTEX_WAITERS ? mutex.lock & FUTEX_TID : 0;
}

/* Return the tid of the thread that holds a mutex; 0 if nobody does, or it is none. */
static u32 mutex_owner(const struct agent *a, u64 runtime_addr, u32 is_priority)
{
    struct mutex_words mutex;
    u64 bytes = is_priority ? sizeof mutex.lock : sizeof mutex;
    if (read_memory(a, runtime_addr, &mutex, bytes) != (i64)bytes)
        return 0;
    if (is_priority)
        return mutex.lock & FUTEX_TID;
    if (mutex.lock & FUTEX_WAITERS)
        return (mutex.kind & ~GLIBC_KINDS) == GLIBC_ROBUST && mutex.owner == (mutex.lock & FUTEX_TID)
                   ? mutex.owner
                   : musl_owner(a, runtime_addr);
    if (mutex.lock != GLIBC_CONTENDED || mutex.kind & ~GLIBC_KINDS || !mutex.users || mutex.users > GLIBC_USERS_MAX ||
        mutex.list[0] || mutex.list[1])
        return 0;
    return mutex.owner;
}

/* Return the thread with this tid; 0 if there is none. The next search is likely for the same. */
static struct thread_slot *owner_find(struct agent *a, u32 tid)
{
    struct thread_slot *owner = thread_find(a, tid, &a->holder_hint);
    if (owner)
        a->holder_hint = (u32)(owner - a->slots);
    return owner;
}

/* Note which lock a sleeping thread waits for and that another one holds, in that one's slot, and which word tells so. */
static u32 held_lock_tell(struct agent *a, struct thread_slot *slot, struct thread_slot *holder, u64 owner)
{
    u64 runtime_addr = slot->awaited, mask = FUTEX_TID;
    u32 lock = lock_number(runtime_addr);
    if (slot->awaited_is_monitor) {
        runtime_addr = java_owner_addr(a, runtime_addr);
        mask = ~0ULL;
    } else if (!is_priority_wait(slot->wait_args) && (u32)slot->wait_args[2] == GLIBC_CONTENDED) {
        runtime_addr += GLIBC_OWNER_OFFSET;
    }
    held_lock_note(a, holder, lock, runtime_addr, owner, mask);
    return lock;
}

/* Note who holds the lock that a sleeping thread waits for. In the moment between two owners, it remains the last one.
 * `is_new`: see interval_held_by. */
static void holder_look(struct agent *a, struct thread_slot *slot, u64 now_ns, u32 is_new)
{
    struct thread_slot *holder;
    u64 owner;
    u32 is_known, lock;
    if (!slot->awaited || (!is_new && now_ns < slot->awaited_from_ns))
        return;
    if (slot->awaited_owner)
        slot->awaited_pause_ns = HOLDER_PAUSE_NS;
    else if (!is_new && slot->awaited_pause_ns < HOLDER_PAUSE_MAX_NS)
        slot->awaited_pause_ns *= 2;
    slot->awaited_from_ns = now_ns + slot->awaited_pause_ns;
    owner = slot->awaited_is_monitor ? java_monitor_owner(a, slot->awaited)
                                     : mutex_owner(a, slot->awaited, is_priority_wait(slot->wait_args));
    if (!owner || (!is_new && owner == slot->awaited_owner && slot->awaited_list == a->list_number))
        return;
    holder = slot->awaited_is_monitor ? java_owner_find(a, owner, now_ns) : owner_find(a, (u32)owner);
    is_known = holder && holder != slot && !holder->is_gone && holder->owner != OWNER_INJECTED;
    slot->awaited_owner = is_known ? owner : 0;
    slot->awaited_list = a->list_number;
    if (is_known && !holder->announced)
        thread_announce(a, holder, 0);
    lock = is_known ? held_lock_tell(a, slot, holder, owner) : slot->open.awaited_lock;
    interval_held_by(a, slot, now_ns, lock, is_known ? holder->thread_id : 0, is_new);
}

/* Note what a thread waits for, right after a look at it. */
static void holder_wait_note(struct agent *a, struct thread_slot *slot, u64 now_ns)
{
    slot->awaited = slot->awaited_owner = 0;
    if (slot->open.sysno != NR_FUTEX)
        return;
    slot->awaited = java_monitor_of(a, slot);
    slot->awaited_is_monitor = slot->awaited != 0;
    if (!slot->awaited && (is_priority_wait(slot->wait_args) || may_be_mutex_wait(slot->wait_args)))
        slot->awaited = slot->wait_args[0];
    slot->awaited_from_ns = 0;
    slot->awaited_pause_ns = HOLDER_PAUSE_NS;
    holder_look(a, slot, now_ns, slot->open.samples == 1);
}
