/*
 * Timers on the CPU clock of each thread decide when it is sampled: a POSIX timer sends our signal to the thread
 * (timer_create(2), SIGEV_THREAD_ID). The sampler thread creates and deletes the timers; the handler sets the next
 * expiry.
 *
 * Properties of these timers (kernel/time/posix-cpu-timers.c):
 *   A thread's timer advances only while the thread runs, even if the sampler gets no CPU.
 *   Expiry is noticed at the scheduler's tick. So there are at most HZ samples in a second of CPU time, and a period
 *   lasts half a tick longer on average: the timer is set that much shorter.
 *   Since Linux 5.11 the signal is raised on the thread's way back to user mode (POSIX_CPU_TIMERS_TASK_WORK): it ends no
 *   wait and wakes no thread. On older kernels it would, so no timers are used there, and the sampler's rounds decide.
 *   fork does not copy them, exec deletes them, and a thread's end leaves its timer to be deleted. Each uses one of the
 *   signals that the user may have queued (RLIMIT_SIGPENDING).
 *
 * Each period is random, between half and one and a half times the mean, so that no loop of the program stays in step.
 * The first one is random from zero on, so that threads with short lives get their share; of a new thread, from its
 * beginning on.
 *
 * The timer of a thread that has a precise clock is far ahead (perf_clocks.c).
 */

#define SIGEV_THREAD_ID_NOTIFY 4
#define TIMER_VALUE_MIN_NS 1000ULL
#define CLOCK_MONOTONIC_COARSE_ID 6       /* its resolution is the length of a tick; clock_getres(2) */
#define TICK_NS_MAX 20000000ULL
#define TASK_WORK_SINCE_MAJOR 5           /* Linux 5.11 */
#define TASK_WORK_SINCE_MINOR 11
#define FAR_PERIODS 4                     /* distance of the timer after a round has sampled the thread: tick_phase.c */
#define CLOCK_FAR_PERIODS 8               /* the same after a clock has, whose samples have random distances */
#define PENDING_SHARE 2                   /* at least half of the signals that may still be queued are left to the
                                           * target */

struct timer_value {                      /* struct itimerspec: interval and first expiry */
    struct timespec64 interval;
    struct timespec64 value;
};

/* Return whether the kernel is at least version `major`.`minor`. uname(2) */
static u32 kernel_is_since(u32 major, u32 minor)
{
    char names[6][65];                    /* struct utsname: sysname, nodename, release … */
    const char *at = names[2];
    u64 is_major, is_minor;
    if (sys_call3(NR_UNAME, (u64)names, 0, 0) < 0)
        return 0;
    is_major = parse_number(&at, names[2] + 65, 10);
    at++;
    is_minor = parse_number(&at, names[2] + 65, 10);
    return is_major > major || (is_major == major && is_minor >= minor);
}

/* Find the limits of all timers. The user has `queued` signals pending. JS thread, before sampling begins. */
static void cpu_timers_prepare(struct agent *a, u64 queued)
{
    struct timespec64 tick;
    u64 limit = resource_limit(11 /* RLIMIT_SIGPENDING */);
    a->engine_is_timers = kernel_is_since(TASK_WORK_SINCE_MAJOR, TASK_WORK_SINCE_MINOR);
    a->timers_left = limit > queued ? (limit - queued) / PENDING_SHARE : 0;
    if (sys_call3(NR_CLOCK_GETRES, CLOCK_MONOTONIC_COARSE_ID, (u64)&tick, 0) == 0 && tick.sec == 0 &&
        (u64)tick.nsec <= TICK_NS_MAX)
        a->tick_ns = (u64)tick.nsec;
}

/* Return a random period around the mean, or the first one, in nanoseconds. */
static u64 cpu_timer_period_sigsafe(const struct agent *a, struct thread_slot *slot, u32 is_first)
{
    u64 mean_ns = a->cpu_period_ns, share_20, ns;
    slot->timer_random ^= slot->timer_random << 13;
    slot->timer_random ^= slot->timer_random >> 7;
    slot->timer_random ^= slot->timer_random << 17;
    share_20 = slot->timer_random >> 44;
    ns = (mean_ns >> 10) * (share_20 >> 10);
    if (!is_first)
        ns += mean_ns / 2;
    return ns > a->tick_ns / 2 + TIMER_VALUE_MIN_NS ? ns - a->tick_ns / 2 : TIMER_VALUE_MIN_NS;
}

static void cpu_timer_value_fill(struct timer_value *value, u64 ns)
{
    value->interval.sec = value->interval.nsec = 0;
    value->value.sec = (i64)(ns / 1000000000ULL);
    value->value.nsec = (i64)(ns % 1000000000ULL);
}

/* Set the timer for the next sample of this thread, if samples are wanted. Returns 0 or -errno: EACCES if a filter was
 * installed. Context: signal. */
static i64 cpu_timer_set_next_sigsafe(const struct agent *a, struct thread_slot *slot)
{
    struct timer_value value;
    if (!load_acquire_u32(&slot->timer_is_set))
        return 0;
    cpu_timer_value_fill(&value, load_acquire_u32(&slot->has_clock) ? CLOCK_FAR_PERIODS * a->cpu_period_ns
                                                                    : cpu_timer_period_sigsafe(a, slot, 0));
    return permitted_call_sigsafe(a, NR_TIMER_SETTIME, (u64)slot->timer_id, 0, (u64)&value, 0, 0);
}

static u32 cpu_timer_new(struct agent *a, struct thread_slot *slot)
{
    u64 event[8];                         /* struct sigevent: value 0, signal 8, notify 12, tid 16 */
    i32 id = 0;
    u32 i;
    if (!a->timers_left)
        return 0;
    for (i = 0; i < 8; i++)
        event[i] = 0;
    event[0] = (u64)slot;
    event[1] = (u64)SIGEV_THREAD_ID_NOTIFY << 32 | (u32)a->signo;
    event[2] = slot->tid;
    if (permitted_call(a, NR_TIMER_CREATE, (u64)(i64)THREAD_CPU_CLOCK(slot->tid), (u64)event, (u64)&id, 0, 0) < 0) {
        count_up(a, COUNTER_TIMERS_FAILED, !slot->timer_has_failed);
        slot->timer_has_failed = 1;
        return 0;
    }
    a->timers_left--;
    slot->timer_id = id;
    slot->timer_random = a->random = random_next(a->random);
    store_release_u32(&slot->has_timer, 1);
    return 1;
}

/* Start to sample the thread by its CPU clock. Returns 0 if it has no timer because no signal is left for one. */
static u32 cpu_timer_start(struct agent *a, struct thread_slot *slot)
{
    struct timer_value value;
    u64 first_ns, used_ns = slot->cpu_seen_ns;
    u32 is_at_birth = !slot->has_timer && slot->early_samples == EARLY_SAMPLES;
    if (slot->timer_is_set)
        return 1;
    if (!a->engine_is_timers || (!slot->has_timer && !cpu_timer_new(a, slot)))
        return 0;
    first_ns = cpu_timer_period_sigsafe(a, slot, 1);
    if (is_at_birth) {
        i64 clock_ns = clock_ns_sigsafe(THREAD_CPU_CLOCK(slot->tid));
        used_ns = clock_ns > 0 ? (u64)clock_ns : 0;
        first_ns = used_ns + TIMER_VALUE_MIN_NS < first_ns ? first_ns - used_ns : TIMER_VALUE_MIN_NS;
    }
    cpu_timer_value_fill(&value, first_ns);
    slot->timer_set_cpu_ns = used_ns;
    slot->timer_may_be_set = 1;
    store_release_u32(&slot->timer_is_set, 1);
    clock_want_sigsafe(a, slot, 1);
    permitted_call(a, NR_TIMER_SETTIME, (u64)slot->timer_id, 0, (u64)&value, 0, 0);
    return 1;
}

/* Move the timer far ahead after a round has sampled the thread: it is only for CPU time that rounds do not sample. */
static void cpu_timer_set_far(const struct agent *a, const struct thread_slot *slot)
{
    struct timer_value value;
    if (!slot->timer_is_set)
        return;
    cpu_timer_value_fill(&value, FAR_PERIODS * a->cpu_period_ns);
    permitted_call(a, NR_TIMER_SETTIME, (u64)slot->timer_id, 0, (u64)&value, 0, 0);
}

/* Stop samples. One may still be on its way. */
static void cpu_timer_stop(struct agent *a, struct thread_slot *slot)
{
    struct timer_value value;
    clock_want_sigsafe(a, slot, 0);
    if (!slot->timer_may_be_set)
        return;
    /* A handler that has just read the flag sets the timer again; then stop it once more in a later round. */
    slot->timer_may_be_set = slot->is_taking;
    store_release_u32(&slot->timer_is_set, 0);
    cpu_timer_value_fill(&value, 0);
    permitted_call(a, NR_TIMER_SETTIME, (u64)slot->timer_id, 0, (u64)&value, 0, 0);
}

/* Stop samples of the thread that calls this: it blocks our signal from now on. Context: signal. */
static void samples_end_sigsafe(struct agent *a, struct thread_slot *slot)
{
    struct timer_value value;
    clock_want_sigsafe(a, slot, 0);
    if (!load_acquire_u32(&slot->timer_is_set))
        return;
    store_release_u32(&slot->timer_is_set, 0);
    cpu_timer_value_fill(&value, 0);
    permitted_call_sigsafe(a, NR_TIMER_SETTIME, (u64)slot->timer_id, 0, (u64)&value, 0, 0);
}

static void cpu_timer_delete(struct agent *a, struct thread_slot *slot)
{
    clock_close(a, slot);
    if (!slot->has_timer)
        return;
    slot->timer_is_set = 0;
    slot->timer_may_be_set = 0;
    slot->has_timer = 0;
    permitted_call(a, NR_TIMER_DELETE, (u64)slot->timer_id, 0, 0, 0, 0);
    a->timers_left++;
}

static void cpu_timers_stop(struct agent *a)
{
    u32 i;
    for (i = 0; i < a->slot_count; i++)
        cpu_timer_stop(a, &a->slots[i]);
}
