/*
 * The dead-man rule, the governor, the gaps between rounds and the turns of idle threads on literal clocks; what a thread
 * has run and waited for a CPU, on one that it shares; which recipes are in use; late signals. Built behind the agent's
 * sources. Prints one line per case: its name and the numbers that the test asks for.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MANY MAX_THREADS

static struct agent agent;
static struct ring_header ring;

static void agent_reset(u64 rate_hz, u64 budget_ppm)
{
    bytes_zero(&agent, sizeof agent);
    bytes_zero(&ring, sizeof ring);
    agent.ring = &ring;
    ring.budget_ppm = budget_ppm;
    agent.asked_period_ns = 1000000000ULL / rate_hz;
    agent.period_ns = agent.cpu_period_ns = agent.asked_period_ns;
    rounds_set(&agent, ~0ULL);
}

/* Looks every `step_ns`; the host beats while `beats` rounds last. Returns when it was found silent, 0 if never. */
static u64 silent_after(u64 step_ns, u64 beats, u64 rounds)
{
    u64 now_ns = 1000000000ULL, round;
    agent_reset(100, 0);
    agent.host_checked_ns = now_ns;
    for (round = 0; round < rounds; round++) {
        now_ns += step_ns;
        if (round < beats)
            ring.host_ns = now_ns;
        if (host_is_silent(&agent, now_ns))
            return (round + 1) * step_ns;
    }
    return 0;
}

/* Windows of a second in which sampling costs fixed_ns + rate * sample_ns, times noise; prints the rate after each. */
static void govern_for(const char *name, u64 windows, u64 fixed_ns, u64 sample_ns, u64 noise_percent)
{
    u64 i, random = 12345;
    printf("%s", name);
    for (i = 0; i < windows; i++) {
        u64 cost_ns = fixed_ns + ring.counters[COUNTER_RATE_MHZ_NOW] * sample_ns / 1000;
        random = random * 6364136223846793005ULL + 1442695040888963407ULL;
        cost_ns = cost_ns * (100 - noise_percent + (random >> 33) % (2 * noise_percent + 1)) / 100;
        govern_both(&agent, cost_ns, 0, budget_ns(&agent));
        printf(" %llu", ring.counters[COUNTER_RATE_MHZ_NOW]);
    }
    printf("\n");
}

/* The same for timers: rounds and samples cost so much each, a second of 1 Hz; prints both rates at the end, the interval
 * between rounds, and how many of a million looks they leave out. */
static void govern_timers(const char *name, u64 round_ns, u64 sample_ns)
{
    u64 i, left_out = 0;
    agent.engine_is_timers = 1;
    agent.random = 88172645463325252ULL;
    samples_set(&agent, ~0ULL);
    for (i = 0; i < 40; i++)
        govern_both(&agent, ring.counters[COUNTER_RATE_MHZ_NOW] * round_ns / 1000,
                    ring.counters[COUNTER_CPU_RATE_MHZ_NOW] * sample_ns / 1000, budget_ns(&agent));
    for (i = 0; i < 1000000; i++)
        left_out += look_is_left_out(&agent);
    printf("%s %llu %llu %llu %llu\n", name, ring.counters[COUNTER_RATE_MHZ_NOW], ring.counters[COUNTER_CPU_RATE_MHZ_NOW],
           agent.period_ns, left_out);
}

/* Of a million gaps at 1 000 Hz: the mean and the longest, in ns, and how many are below half a period and above two. */
static void print_gaps(void)
{
    u64 i, sum = 0, longest = 0, below = 0, above = 0;
    agent_reset(1000, 0);
    agent.random = 88172645463325252ULL;
    for (i = 0; i < 1000000; i++) {
        u64 gap_ns = next_gap_ns(&agent);
        sum += gap_ns;
        longest = gap_ns > longest ? gap_ns : longest;
        below += gap_ns < 500000;
        above += gap_ns > 2000000;
    }
    printf("gaps %llu %llu %llu %llu\n", sum / 1000000, longest, below, above);
}

/* `idle` threads that have slept for long, and one that runs, at `rate_hz` within a budget, for 100 rounds: looks at the
 * one that runs, looks at all others per second, the fewest and the most at one of them. */
static void print_turns(const char *name, u64 idle, u64 rate_hz, u64 budget_ppm)
{
    static struct thread_slot slots[MANY];
    static u64 looks[MANY];
    u64 now_ns = 10 * IDLE_NS, round, i, sum = 0, fewest = ~0ULL, most = 0;
    agent_reset(rate_hz, budget_ppm);
    agent.slots = slots;
    for (i = 0; i <= idle; i++) {
        agent.slots[i].tid = 1;
        agent.slots[i].open.state = STATE_PARKED;
        agent.slots[i].ran_ns = i ? 0 : now_ns;
        idle_note(&agent, &agent.slots[i], now_ns);
        looks[i] = 0;
    }
    for (round = 0; round < 100; round++) {
        idle_turns_begin(&agent);
        for (i = 0; i <= idle; i++)
            looks[i] += !idle_turn_is_over(&agent, (u32)i);
    }
    for (i = 1; i <= idle; i++) {
        sum += looks[i];
        fewest = looks[i] < fewest ? looks[i] : fewest;
        most = looks[i] > most ? looks[i] : most;
    }
    printf("%s %llu %llu %llu %llu\n", name, looks[0], sum * rate_hz / 100, fewest, most);
}

/* This thread shares a CPU with two others until it has had BUSY_NS of it. Prints how long that took, the most that one
 * thread has run and waited for a CPU meanwhile, and how long it took when that was known. */
#define SHARERS 2
#define BUSY_NS 50000000
static void print_longest_run(void)
{
    static struct thread_slot slots[1];
    struct thread_slot *slot = slots;
    pid_t sharers[SHARERS];
    cpu_set_t all, one;
    u64 start_ns, before_ns, longest_ns;
    u32 i;
    sched_getaffinity(0, sizeof all, &all);
    CPU_ZERO(&one);
    for (i = 0; !CPU_COUNT(&one); i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    sched_setaffinity(0, sizeof one, &one);
    for (i = 0; i < SHARERS; i++)
        if ((sharers[i] = fork()) == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;)
                ;
        }
    agent_reset(100, 0);
    agent.slots = slots;
    agent.slot_count = 1;
    slot->tid = (u32)getpid();
    slot->schedstat_fd = -1;
    start_ns = now_ns_sigsafe();
    slot->cpu_seen_ns = (u64)clock_ns_sigsafe(THREAD_CPU_CLOCK(slot->tid));
    slot->run_delay_seen_ns = run_delay_of(&agent, slot);
    while ((u64)clock_ns_sigsafe(THREAD_CPU_CLOCK(slot->tid)) < slot->cpu_seen_ns + BUSY_NS)
        ;
    before_ns = now_ns_sigsafe() - start_ns;
    longest_ns = longest_run_ns(&agent);
    printf("longest_run %llu %llu %llu\n", before_ns, longest_ns, now_ns_sigsafe() - start_ns);
    for (i = 0; i < SHARERS; i++) {
        kill(sharers[i], SIGKILL);
        waitpid(sharers[i], NULL, 0);
    }
}

/* Threads with timers run as the drain begins; prints for how many of them their CPU time counts at once. */
static void print_drained_together(void)
{
    static struct thread_slot threads[3];
    u32 i, counting = 0;
    agent_reset(100, 0);
    agent.slots = threads;
    agent.slot_count = 3;
    for (i = 0; i < 3; i++) {
        threads[i].tid = (u32)gettid();
        threads[i].had_timer = 1;
    }
    restore_and_note(&agent);
    for (i = 0; i < 3; i++)
        counting += threads[i].drain_cpu_ns > 0;
    printf("drained_together %u\n", counting);
}

/* Recipes that are given, corrected, withdrawn, given again, and too many; prints how many were refused and the bits of
 * those in use. */
static void print_recipes(void)
{
    static u64 words[RECIPES_STORED_MAX + 1][RECIPE_WORDS];
    static const u32 steps[][2] = {{0, 2}, {1, 2}, {0, 0}, {0, 1}, {0, RECIPES_STORED_MAX + 1}};
    u32 i;
    bytes_zero(&agent, sizeof agent);
    for (i = 0; i <= RECIPES_STORED_MAX; i++)
        words[i][RECIPE_RUNTIME_ADDR] = i;
    printf("recipes");
    for (i = 0; i < sizeof steps / sizeof *steps; i++) {
        u32 refused = recipes_set(&agent, words[steps[i][0]], steps[i][1]);
        printf(" %u %llu", refused, agent.recipes_used);
    }
    printf("\n");
}

/* The lock is always held. Each 10 ms, one thread runs for 3 ms with it and waits for a CPU for 14 ms; another one waits
 * for a CPU, too, and was never seen to hold it. Prints for how many ms each is told to hold it while it waits. */
static void print_queued_with_lock(void)
{
    static struct thread_slot busy, idle;
    u64 busy_ns = 0, idle_ns = 0;
    u32 i;
    agent_reset(100, 0);
    agent.lock_count = 1;
    busy.last_run_marks = idle.last_run_marks = MARK_LOCK_HELD;
    for (i = 0; i < 1000; i++) {
        agent.lock_ns += 10000000;
        busy.lock_ns += 10000000;
        agent.lock_ns -= 3000000;
        busy_ns += 14000000 - queued_without_lock(&agent, &busy, 14000000);
        idle_ns += 5000000 - queued_without_lock(&agent, &idle, 5000000);
    }
    printf("queued_with_lock %llu %llu\n", busy_ns / 1000000, idle_ns / 1000000);
    busy.last_run_marks = MARK_LOCK_RELEASED;
    printf("queued_after_release %llu\n", queued_without_lock(&agent, &busy, 14000000));
    busy.last_run_marks = MARK_LOCK_HELD;
    agent.lock_count = 0;
    printf("queued_with_unknown_lock %llu\n", queued_without_lock(&agent, &busy, 14000000));
}

/* Prints times of a handler, in ns, each followed by its bucket. */
static void print_buckets(void)
{
    u64 ns;
    printf("buckets");
    for (ns = 1; ns < 100000000; ns += ns / 7 + 1)
        printf(" %llu %u", ns, histogram_bucket(ns));
    printf(" 255 %u 256 %u 320 %u\n", histogram_bucket(255), histogram_bucket(256), histogram_bucket(320));
}

/* Prints the time between two batches, in ms, after recordings of so many seconds. */
static void print_flush_pauses(void)
{
    static const u64 lasted_s[] = {0, 1, 5, 3600};
    u32 i;
    printf("flush_pauses");
    for (i = 0; i < sizeof lasted_s / sizeof *lasted_s; i++)
        printf(" %llu", flush_pause_ns(lasted_s[i] * 1000000000ULL) / 1000000);
    printf("\n");
}

static void *until_read_sleep(void *pipe_ends)
{
    char end;
    (void)!read(((int *)pipe_ends)[0], &end, 1);
    return NULL;
}

/* A process of `listed` slots lists its threads; then one starts. Prints after how many ms, looking each ms, it is listed;
 * 100 if it never is. */
static void print_thread_noticed(const char *name, u32 listed)
{
    static struct thread_slot slots[MANY];
    static u8 text[2 * TEXT_BYTES] __attribute__((aligned(8)));
    u64 now_ns = 10000000000ULL, ms;
    pthread_t thread;
    int ends[2];
    u32 before, i;
    agent_reset(1000, 0);
    bytes_zero(slots, sizeof slots);
    agent.slots = slots;
    agent.text = text;
    agent.signo = SIGNO_URG;
    threads_keep(&agent, now_ns);
    before = agent.slot_count;
    for (i = agent.slot_count; i < listed; i++)
        slots[i].signal_state = SIGNAL_SENT;  /* not free */
    agent.slot_count = i;
    if (pipe(ends) || pthread_create(&thread, NULL, until_read_sleep, ends))
        exit(2);
    for (ms = 1; ms < 100 && agent.list_number < 2; ms++)
        threads_keep(&agent, now_ns + ms * 1000000);
    printf("%s %u %llu\n", name, before, ms - 1);
    (void)!write(ends[1], "", 1);
    pthread_join(thread, NULL);
    close(ends[0]);
    close(ends[1]);
}

/* A signal of the kernel's comes to an admitted thread, whose precise clock was given up just before, if it had one. Prints
 * whether the thread is still admitted, and whether the program gets a signal. */
static void print_late_signal_of_a_clock(const char *name, u32 had_clock)
{
    static struct thread_slot slot;
    static u64 info[16], context[128];
    sigset_t urgent, pending;
    agent_reset(100, 0);
    bytes_zero(&slot, sizeof slot);
    agent.pid = slot.tid = (u32)getpid();
    agent.slots = &slot;
    agent.slot_count = 1;
    agent.had_clocks = 1;
    slot.is_admitted = 1;
    slot.had_clock = had_clock;
    *(i32 *)((u8 *)info + SIGINFO_CODE) = SIGINFO_CODE_KERNEL;
    sigemptyset(&urgent);
    sigaddset(&urgent, SIGURG);
    sigprocmask(SIG_BLOCK, &urgent, NULL);
    agent_cell = &agent;
    handle_signal_sigsafe(SIGURG, info, context);
    agent_cell = (struct agent *)0;
    sigpending(&pending);
    printf("%s %u %d\n", name, slot.is_admitted, sigismember(&pending, SIGURG));
    if (sigismember(&pending, SIGURG))
        sigwaitinfo(&urgent, NULL);
    sigprocmask(SIG_UNBLOCK, &urgent, NULL);
}

/* A thread runs for 3 ms, less than between two samples, and sleeps for a second until the end of the recording. Prints how
 * many ms before the end its CPU time is told to end, and how much it is. */
static void print_rest_of_cpu_time(void)
{
    static struct thread_slot slot;
    static u8 out[4096] __attribute__((aligned(8)));
    const struct interval_record *told = (const struct interval_record *)out;
    u64 now_ns = 10000000000ULL;
    agent_reset(100, 0);
    bytes_zero(&slot, sizeof slot);
    agent.intervals_out.data = out;
    agent.intervals_out.capacity = sizeof out;
    slot.tid = slot.announced = 1;
    time_begin(&slot, now_ns, 0, 0);
    slot.cpu_seen_ns += 3000000;
    time_pass(&slot, now_ns += 5000000, 3000000, 0);
    time_pass(&slot, now_ns += 1000000000, 0, 0);
    intervals_finish(&agent, &slot);
    printf("rest_of_cpu_time %llu %llu\n", (now_ns - told->t0_ns - told->wall_ns) / 1000000, told->cpu_ns / 1000000);
}

int main(void)
{
    agent_cell = (struct agent *)0;
    printf("silent_from_the_start %llu\n", silent_after(10000000, 0, 1000));
    printf("silent_at_low_rate %llu\n", silent_after(100000000, 0, 100));
    printf("silent_after_ten_seconds %llu\n", silent_after(10000000, 1000, 2000));
    printf("never_silent %llu\n", silent_after(10000000, 1000, 1000));
    printf("machine_is_overloaded %llu\n", silent_after(600000000, 0, 100));
    printf("target_was_stopped_for_a_minute %llu\n", silent_after(60000000000ULL, 0, 5));

    agent_reset(1000, 10000);
    govern_for("no_need", 10, 0, 5000, 0);
    agent_reset(1000, 10000);
    govern_for("too_dear", 10, 0, 30000, 0);
    govern_for("then_cheap", 20, 0, 3000, 0);
    agent_reset(1000, 10000);
    govern_for("mostly_fixed", 30, 8000000, 20000, 0);
    agent_reset(1000, 10000);
    govern_for("fixed_alone_is_too_much", 40, 20000000, 1000, 0);
    agent_reset(1000, 10000);
    govern_for("noisy", 200, 0, 30000, 15);
    agent_reset(100, 10000);
    govern_timers("dear_rounds", 500000, 10000);
    agent_reset(100, 10000);
    govern_timers("dear_looks", 5000000, 10000);
    agent_reset(5, 10000);
    govern_timers("few_asked", 5000000, 10000);
    agent_reset(100, 10000);
    govern_timers("dear_samples", 10000, 1000000);
    agent_reset(1000, 0);
    printf("no_limit %llu\n", budget_ns(&agent));
    print_gaps();
    print_turns("few_idle", 500, 100, 0);
    print_turns("many_idle", MANY - 1, 100, 0);
    print_turns("many_idle_at_a_high_rate", MANY - 1, 1000, 0);
    print_turns("many_idle_on_a_budget", 1000, 100, 10000);
    print_longest_run();
    print_drained_together();
    print_recipes();
    print_queued_with_lock();
    print_flush_pauses();
    print_buckets();
    print_thread_noticed("thread_noticed_among_few", 1);
    print_thread_noticed("thread_noticed_among_many", 1000);
    print_late_signal_of_a_clock("late_signal_of_a_clock", 1);
    print_late_signal_of_a_clock("signal_without_a_clock", 0);
    print_rest_of_cpu_time();
    return 0;
}
