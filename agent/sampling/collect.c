/*
 * Collect what the handlers have sampled from the threads' rings and slots, and turn it into intervals. Sampler thread
 * only.
 */

#define FORK_BACKOFF_NS 100000000ULL
#define FORK_BACKOFF_MAX_NS 6400000000ULL
#define HANDLER_COST_MAX_NS 200000ULL

/* Compile the modules that stacks need. The cost is counted separately: a file is compiled once, whatever the sampling
 * rate. */
static void compile_wanted(struct agent *a)
{
    i64 cpu_ns;
    if (!a->want_modules)
        return;
    cpu_ns = clock_ns_sigsafe(THREAD_CPU_CLOCK_OWN);
    modules_compile_wanted(a);
    a->once_cpu_ns += (u64)(clock_ns_sigsafe(THREAD_CPU_CLOCK_OWN) - cpu_ns);
}

/* Read the maps or compile modules that a stack needed, so that the next attempt gets further. */
static void learn(struct agent *a)
{
    count_up(a, COUNTER_NOT_READY, 1);
    if (a->want_refresh && now_ns_sigsafe() - a->map_read_ns > MAP_REREAD_MIN_NS)
        maps_refresh(a);
    compile_wanted(a);
}

/* Return the bucket of a handler's time. */
static u32 histogram_bucket(u64 ns)
{
    u32 doublings = ns < HANDLER_HISTOGRAM_NS ? 0 : 55U - (u32)__builtin_clzll(ns);
    u64 bucket = ns < HANDLER_HISTOGRAM_NS ? 0 : 1 + 4 * doublings + (ns >> (doublings + 6) & 3);
    return bucket < HANDLER_HISTOGRAM_BUCKETS ? (u32)bucket : HANDLER_HISTOGRAM_BUCKETS - 1;
}

static void handler_cost_add(struct agent *a, u64 took_tsc, u64 took_cpu_ns)
{
    u64 ns = took_cpu_ns ? took_cpu_ns : took_tsc * a->ns_per_tsc_20 >> 20;
    count_up(a, COUNTER_SIGNALS_HANDLED, 1);
    count_up(a, COUNTER_HANDLER_NS_TOTAL, ns);
    /* Time beyond that was spent waiting for a CPU, which is not our cost. */
    a->handler_cost_ns += ns < HANDLER_COST_MAX_NS ? ns : HANDLER_COST_MAX_NS;
    if (ns > a->ring->counters[COUNTER_HANDLER_NS_MAX])
        a->ring->counters[COUNTER_HANDLER_NS_MAX] = ns;
    a->ring->handler_histogram[histogram_bucket(ns)]++;
}

/* Return whether an unwind with this verdict must be repeated; `taken_ns` is the latest time when it began. New code
 * may have been mapped since the maps were read; modules that are not compiled yet are compiled now. */
static u32 must_learn(struct agent *a, u32 verdict, u64 taken_ns)
{
    if (verdict != VERDICT_RETRY &&
        (verdict != VERDICT_BAD_MEMORY || !a->want_refresh || a->map_read_ns >= taken_ns - MAP_REREAD_MIN_NS))
        return 0;
    learn(a);
    return 1;
}

/* Learn about the thread's stacks from a sample. */
static void stacks_note(struct agent *a, struct thread_slot *slot, u64 sp)
{
    stack_learn(a, slot);
    alternate_note(a, slot);
    room_learn(a, slot, sp);
}

/* Return when a handler began, by the counter. `now` is read again for a sample that came meanwhile: the one before may
 * have taken long, as its modules were compiled. */
static u64 handler_began_ns(const struct agent *a, struct moment *now, u64 began_tsc)
{
    if (began_tsc > now->tsc)
        moment_read(now);
    return now->ns - ((now->tsc > began_tsc ? now->tsc - began_tsc : 0) * a->ns_per_tsc_20 >> 20);
}

/* Take one timer sample: its stack stands for the CPU time since the sample before. */
static void sample_take(struct agent *a, struct thread_slot *slot, struct sample *sample, struct moment *now)
{
    u64 taken_ns = handler_began_ns(a, now, sample->began_tsc);
    struct verdicts verdicts = {sample->verdict, sample->managed_verdict, sample->marks, sample->fault_pc};
    u32 trace_id, injected = 0;
    handler_cost_add(a, sample->took_tsc, sample->took_cpu_ns);
    slot->timer_set_cpu_ns = sample->cpu_ns;
    slot->sp_seen = sample->sp;
    slot->thread_pointer_seen = sample->thread_pointer;
    slot->alternate_start = sample->alternate_start;
    slot->alternate_bytes = sample->alternate_bytes;
    stacks_note(a, slot, sample->sp);
    if (must_learn(a, sample->verdict, taken_ns))
        return;
    a->noted_by = slot->managed;
    trace_id = trace_intern(a, sample->frames, sample->frame_count, &verdicts, &injected);
    if (injected && slot->owner == OWNER_UNKNOWN)
        return;                           /* probably Frida's: wait until agent.js has said */
    interval_ran(a, slot, taken_ns, sample->cpu_ns, trace_id, sample->marks | sample->held_lock << HELD_LOCK_SHIFT);
}

static void samples_collect(struct agent *a, struct thread_slot *slot)
{
    struct sample *sample;
    u32 missed = slot->samples_missed, crowded = slot->signals_crowded;
    struct moment now;
    count_up(a, COUNTER_SAMPLES_LOST, missed - slot->samples_missed_told);
    slot->samples_missed_told = missed;
    count_up(a, COUNTER_SMALL_STACK, crowded - slot->signals_crowded_told);
    slot->signals_crowded_told = crowded;
    sample = sample_next(slot);
    if (!sample)
        return;
    moment_read(&now);
    for (; sample; sample = sample_next(slot)) {
        sample_take(a, slot, sample, &now);
        sample_drop(slot, sample);
    }
}

/* Collect a handler's answer to a signal that was sent: its stack stands for the CPU time up to the look before the
 * sending. This thread may have waited for a CPU between the two, so its moment is that of the handler. */
static void answer_collect(struct agent *a, struct thread_slot *slot)
{
    struct verdicts verdicts;
    struct moment now;
    u32 trace_id, injected = 0;
    repairs_collect(a, slot);
    if (load_acquire_u32(&slot->signal_state) != SIGNAL_ANSWERED)
        return;
    slot->signal_state = SIGNAL_IDLE;
    slot->given_up = 0;
    slot->late_ticks = 0;
    handler_cost_add(a, slot->handler_tsc, 0);
    stacks_note(a, slot, slot->sp_seen);
    count_up(a, COUNTER_SIGNALS_FAILED, slot->came_bare);
    slot->came_bare = 0;
    if (slot->near_fork) {
        /* Doubles each time: a process may take seconds to fork, and older kernels restart the fork at every signal. */
        slot->backoff_ns = slot->backoff_ns ? slot->backoff_ns * 2 : FORK_BACKOFF_NS;
        if (slot->backoff_ns > FORK_BACKOFF_MAX_NS)
            slot->backoff_ns = FORK_BACKOFF_MAX_NS;
        slot->backoff_until_ns = slot->sent_ns + slot->backoff_ns;
        count_up(a, COUNTER_FORK_BACKOFF, 1);
        return;
    }
    slot->backoff_ns = 0;
    if (must_learn(a, slot->verdict, slot->sent_ns))
        return;
    verdicts.native = slot->verdict;
    verdicts.managed = slot->managed_verdict;
    verdicts.marks = slot->marks;
    verdicts.fault_pc = slot->fault_pc;
    a->noted_by = slot->managed;
    trace_id = trace_intern(a, slot->frames, slot->frame_count, &verdicts, &injected);
    if (injected && slot->owner == OWNER_UNKNOWN)
        return;                           /* probably Frida's: wait until agent.js has said */
    if (slot->waited_in != NOT_WAITING) {
        /* It was asleep when the signal arrived: its CPU time belongs to what it did before. */
        interval_asleep(a, slot, slot->sent_ns, trace_id, slot->marks, slot->waited_in < 0 ? STATE_BLOCKED : STATE_PARKED,
                        (i16)(slot->waited_in < 0 ? -1 : slot->waited_in), 1);
        count_up(a, COUNTER_WAITS_INTERRUPTED, 1);
        return;
    }
    if (slot->woken)
        return;                           /* it was leaving a wait, so it had no CPU and used no CPU time here */
    if (stands_for_cpu(a, slot)) {
        moment_read(&now);
        interval_ran(a, slot, handler_began_ns(a, &now, slot->began_tsc), slot->sent_cpu_ns, trace_id, slot->marks);
        slot->timer_set_cpu_ns = slot->sent_cpu_ns;
        cpu_timer_set_far(a, slot);
    } else {
        /* If it ends before it is seen on a CPU again, the last stack seen there stands for its CPU time. */
        if (!slot->last_run_trace) {
            slot->last_run_trace = trace_id;
            slot->last_run_marks = slot->marks;
        }
        slot->last_run_ns = slot->sent_ns;
    }
}
