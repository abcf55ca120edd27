/*
 * What the handlers have sampled: taken out of the threads' rings and slots, and turned into intervals. Sampler thread only.
 */

#define FORK_BACKOFF_NS 100000000ULL
#define FORK_BACKOFF_MAX_NS 6400000000ULL
#define HANDLER_COST_MAX_NS 200000ULL

/* Compile the modules that stacks asked for. Its cost is counted apart: a file is compiled once, at any sampling rate. */
static void compile_wanted(struct agent *a)
{
    i64 cpu_ns;
    if (!a->want_modules)
        return;
    cpu_ns = clock_ns_sigsafe(THREAD_CPU_CLOCK_OWN);
    modules_compile_wanted(a);
    a->once_cpu_ns += (u64)(clock_ns_sigsafe(THREAD_CPU_CLOCK_OWN) - cpu_ns);
}

/* A stack that met something new: make it known, so that the next attempt gets further. */
static void learn(struct agent *a)
{
    count_up(a, COUNTER_NOT_READY, 1);
    if (a->want_refresh && now_ns_sigsafe() - a->map_read_ns > MAP_REREAD_MIN_NS)
        maps_refresh(a);
    compile_wanted(a);
}

static void handler_cost_add(struct agent *a, u64 took_tsc, u64 took_cpu_ns)
{
    u64 ns = took_cpu_ns ? took_cpu_ns : took_tsc * a->ns_per_tsc_20 >> 20;
    u64 bucket = ns / HANDLER_HISTOGRAM_NS;
    count_up(a, COUNTER_SIGNALS_HANDLED, 1);
    count_up(a, COUNTER_HANDLER_NS_TOTAL, ns);
    /* What is longer was spent waiting for a CPU, which is no cost of ours. */
    a->handler_cost_ns += ns < HANDLER_COST_MAX_NS ? ns : HANDLER_COST_MAX_NS;
    if (ns > a->ring->counters[COUNTER_HANDLER_NS_MAX])
        a->ring->counters[COUNTER_HANDLER_NS_MAX] = ns;
    a->ring->handler_histogram[bucket < HANDLER_HISTOGRAM_BUCKETS ? bucket : HANDLER_HISTOGRAM_BUCKETS - 1]++;
}

/* Must an unwind that ended so be tried again? `taken_ns`: when it began, at the latest. Unknown code may have been mapped
 * since the maps were read; anything not compiled yet is compiled now. */
static u32 must_learn(struct agent *a, u32 verdict, u64 taken_ns)
{
    if (verdict != VERDICT_RETRY &&
        (verdict != VERDICT_BAD_MEMORY || !a->want_refresh || a->map_read_ns >= taken_ns - MAP_REREAD_MIN_NS))
        return 0;
    learn(a);
    return 1;
}

/* What a sample tells of the thread's stacks. */
static void stacks_note(struct agent *a, struct thread_slot *slot, u64 sp)
{
    stack_learn(a, slot);
    alternate_note(a, slot);
    room_learn(a, slot, sp);
}

/* One sample of the timer's: its stack stands for the CPU time since the one before. */
static void sample_take(struct agent *a, struct thread_slot *slot, const struct sample *sample, u64 now_ns, u64 now_tsc)
{
    /* It may have come after the clock was read. */
    u64 age_tsc = now_tsc > sample->began_tsc ? now_tsc - sample->began_tsc : 0;
    u64 taken_ns = now_ns - (age_tsc * a->ns_per_tsc_20 >> 20);
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
    trace_id = trace_intern(a, sample->frames, sample->frame_count, sample->verdict, sample->fault_pc, &injected);
    if (injected && slot->owner == OWNER_UNKNOWN)
        return;                           /* probably Frida's: wait until agent.js has said */
    interval_ran(a, slot, taken_ns, sample->cpu_ns, trace_id);
}

static void samples_collect(struct agent *a, struct thread_slot *slot)
{
    struct sample *sample;
    u32 missed = slot->samples_missed;
    u64 now_ns, now_tsc;
    count_up(a, COUNTER_SAMPLES_LOST, missed - slot->samples_missed_told);
    slot->samples_missed_told = missed;
    sample = sample_next(slot);
    if (!sample)
        return;
    now_ns = now_ns_sigsafe();
    now_tsc = read_tsc_sigsafe();
    for (; sample; sample = sample_next(slot)) {
        sample_take(a, slot, sample, now_ns, now_tsc);
        sample_drop(slot, sample);
    }
}

/* Take the answer of a handler to a signal that was sent: a stack for the time up to the moment of sending. */
static void answer_collect(struct agent *a, struct thread_slot *slot)
{
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
        /* Longer each time: a process may take seconds to fork, and older kernels begin again at every signal. */
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
    trace_id = trace_intern(a, slot->frames, slot->frame_count, slot->verdict, slot->fault_pc, &injected);
    if (injected && slot->owner == OWNER_UNKNOWN)
        return;                           /* probably Frida's: wait until agent.js has said */
    if (slot->waited_in != NOT_WAITING) {
        /* It had gone to sleep when the signal came: its CPU time belongs to what it did before. */
        interval_asleep(a, slot, slot->sent_ns, trace_id, slot->waited_in < 0 ? STATE_BLOCKED : STATE_PARKED,
                        (i16)(slot->waited_in < 0 ? -1 : slot->waited_in), 1);
        count_up(a, COUNTER_WAITS_INTERRUPTED, 1);
        return;
    }
    if (slot->woken)
        return;                           /* on its way out of a wait, until then without a CPU: nor has it used one here */
    if (stands_for_cpu(a, slot)) {
        interval_ran(a, slot, slot->sent_ns, slot->sent_cpu_ns, trace_id);
        slot->timer_set_cpu_ns = slot->sent_cpu_ns;
        cpu_timer_set_far(a, slot);
    } else {
        /* Should it end before it is seen on a CPU again, what was seen there last still stands for what it does. */
        if (!slot->last_run_trace)
            slot->last_run_trace = trace_id;
        slot->last_run_ns = slot->sent_ns;
    }
}
