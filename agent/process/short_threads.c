/*
 * CPU time of threads that started and ended between two looks, or ended after the last: the process's CPU clock
 * includes it, no thread's clock does any more. What threads that were sampled have probably used of it is theirs. The rest
 * is reported as one thread without stacks, so that nothing is lost silently. Sampler thread only.
 */

#define UNSEEN_CHECK_NS 250000000ULL      /* plus CHECK_PER_THREAD_NS for each slot, since all clocks are read */
/* Clocks are read one after another while busy threads run: a smaller difference means nothing. */
#define UNSEEN_SKEW_NS 5000000ULL
#define TAILS_PER_THREAD_NS 100000ULL     /* between two measurements, for each slot: a clock takes 0.25 us */

static u64 smaller(u64 one, u64 other)
{
    return one < other ? one : other;
}

/* Return by how much a number exceeds another; 0 if it does not. */
static u64 excess(u64 of, u64 over)
{
    return of > over ? of - over : 0;
}

static u64 process_cpu_ns(void)
{
    return (u64)clock_ns_sigsafe(2 /* CLOCK_PROCESS_CPUTIME_ID */);
}

/* Return the CPU time since the start of the target's known threads, of Frida's and of ours. */
static u64 known_measure(struct agent *a)
{
    u64 known_ns = 0;
    u32 i;
    for (i = 0; i < a->slot_count; i++) {
        struct thread_slot *slot = &a->slots[i];
        i64 cpu_ns = slot->tid ? clock_ns_sigsafe(THREAD_CPU_CLOCK(slot->tid)) : -1;
        if (cpu_ns <= (i64)slot->cpu_seen_ns)
            continue;
        if (slot->owner == OWNER_INJECTED) {
            a->injected_cpu_ns += (u64)cpu_ns - slot->cpu_seen_ns;
            slot->cpu_seen_ns = (u64)cpu_ns;
        } else {
            known_ns += (u64)cpu_ns - slot->cpu_seen_ns; /* the next look accounts for it */
        }
    }
    known_ns += a->target_cpu_ns + a->injected_cpu_ns;
    if (a->sampler_tid) {
        i64 own_ns = clock_ns_sigsafe(THREAD_CPU_CLOCK(a->sampler_tid));
        a->ring->counters[COUNTER_SAMPLER_CPU_NS] = own_ns > 0 ? (u64)own_ns : a->ring->counters[COUNTER_SAMPLER_CPU_NS];
    }
    return known_ns + a->ring->counters[COUNTER_SAMPLER_CPU_NS];
}

/* Return the process's CPU time since the start that belongs to none of those. The process clock is read first, so that
 * CPU time used during the reading does not look like that of unknown threads. */
static u64 unseen_measure(struct agent *a)
{
    u64 process_ns = process_cpu_ns();
    return excess(process_ns, known_measure(a) + a->process_cpu_start_ns);
}

/*
 * Return how much CPU time a thread that has ended used after the last look; its last samples have shown `shown_ns` of it.
 * What all ended threads together have used is known. One that ran to its end gets what is likely between its last sample
 * and its end: half a period. Threads of some tens of milliseconds would lose much of their time otherwise, all of it from
 * their last part.
 */
static u64 tail_take(struct agent *a, const struct thread_slot *slot, u64 shown_ns)
{
    u64 likely_ns = (a->cpu_period_ns + a->tick_ns) / 2, now_ns = now_ns_sigsafe();
    a->tails_ns = excess(a->tails_ns, shown_ns);
    if (now_ns - a->tails_measured_ns >= a->slot_count * TAILS_PER_THREAD_NS) {
        u64 unseen_ns = unseen_measure(a);
        a->tails_ns = excess(unseen_ns, a->unseen_cpu_ns);
        a->tails_measured_ns = now_ns;
    }
    if (slot->open.state || !last_run_holds(a, slot))
        return 0;
    likely_ns = smaller(likely_ns, slot->cpu_told_ns);
    likely_ns = excess(likely_ns, excess(slot->cpu_seen_ns, slot->cpu_told_ns));
    likely_ns = smaller(likely_ns, excess(now_ns, slot->accounted_ns + shown_ns));
    likely_ns = smaller(likely_ns, a->tails_ns);
    a->tails_ns -= likely_ns;
    return likely_ns;
}

/* Begin to count anew: at the start, and after a pause. Reported time stays reported. The process clock is read last, for
 * the same reason: among many threads that want a CPU, the reading takes long. */
static void unseen_rebase(struct agent *a)
{
    u64 known_ns = known_measure(a);
    a->process_cpu_start_ns = excess(process_cpu_ns(), known_ns + a->unseen_cpu_ns);
}

static void unseen_report(struct agent *a, u64 now_ns)
{
    static const char name[16] = "[ended threads]";
    u64 unseen_ns = unseen_measure(a);
    a->unseen_checked_ns = now_ns;
    a->tails_ns = 0;                      /* it is reported now */
    if (unseen_ns < a->unseen_cpu_ns + UNSEEN_SKEW_NS)
        return;
    if (!a->unseen.thread_id) {
        a->unseen.thread_id = ++a->next_thread_id;
        a->unseen.first_seen_ns = now_ns;
        bytes_copy(a->unseen.name, name, 16);
        thread_announce(a, &a->unseen, THREAD_EXITED);
    }
    a->unseen.cpu_seen_ns = unseen_ns;
    a->unseen.cpu_told_ns = a->unseen_cpu_ns;
    interval_unattributed(a, &a->unseen, now_ns, COUNTER_UNATTRIBUTED_UNSEEN_NS);
    a->unseen_cpu_ns = unseen_ns;
}

static void unseen_keep(struct agent *a, u64 now_ns)
{
    if (now_ns - a->unseen_checked_ns >= UNSEEN_CHECK_NS + a->slot_count * CHECK_PER_THREAD_NS)
        unseen_report(a, now_ns);
}
