/*
 * The governor: keeps the cost of sampling within the host's budget by lowering rates, and raises them again up to the
 * requested rate when the budget allows. Sampler thread only.
 *
 * The cost is the sampler thread's CPU time, which depends on the rate of rounds, and the time in handlers, which
 * depends on the rate of samples (with timers; without them both are one rate). Rounds are lowered first: fewer of them
 * show a sleeping thread as well, while samples are what the user asked for. Rounds get what the handlers leave, and at
 * least a quarter. Below ROUNDS_MIN_MHZ, rounds stay as often, and each leaves out threads by chance (look_is_left_out):
 * where hundreds of threads wake up all the time, reading the stacks on which they sleep costs more than all else. One-time work is not counted, since no rate makes it cheaper: the first round, and compiling unwind
 * information once per file, mostly at the start. Where it never ends (a library that is loaded and unloaded all the
 * time), it counts after some seconds.
 *
 *   above the allowed cost twice in a row, or once by 1/5   rate * 0.9 allowed / cost
 *   below 0.7 of it three times in a row                    rate * 0.9 allowed / cost, at most doubled
 * The cost is about proportional to the rate; a constant part only makes a step smaller. So after a step the cost lies
 * between the two limits or above them, never below: the rate does not oscillate. Weights are nanoseconds and stay
 * exact at any rate.
 */

#define WINDOW_NS 1000000000ULL
#define EARLY_WINDOW_NS 100000000ULL      /* a window ends this early if the cost is out of bounds: */
#define START_NS 2000000000ULL
#define SOME_TIME_NS 300000000ULL
#define OUT_OF_BOUNDS 3                   /* rounds cost that many times the allowed cost, as at the start with many
                                           * threads */
#define RATE_MIN_MHZ 1000ULL              /* 1 Hz */
#define ROUNDS_MIN_MHZ 10000ULL           /* with timers: to notice new threads, and to send samples to the host */
#define LOOKS_ALL_16 65536U
#define ROUNDS_SHARE 4                    /* 1/4 of the budget, at least, is for rounds */
#define FAR_ABOVE 12                      /* tenths of the allowed cost: a recording may be over in some seconds */
#define LOWER_MOST 8                      /* one step lowers a rate to 1/8 at least */
#define ONCE_FREE_NS 3000000000ULL        /* more than the largest programs take: libjvm 0.1 s, chromium 1 s */
#define PER_MILLION 1000000ULL

/* Return the CPU time that a second of sampling may cost. */
static u64 budget_ns(const struct agent *a)
{
    return load_acquire_u64((const volatile u64 *)&a->ring->budget_ppm) * (WINDOW_NS / PER_MILLION);
}

/* Limit a rate to its bounds; sets `*period_ns` and `*now_mhz`. */
static void rate_set(struct agent *a, u64 rate_mhz, u64 least_mhz, u64 *period_ns, unsigned long long *now_mhz)
{
    u64 asked_mhz = PER_MILLION * PER_MILLION / a->asked_period_ns;
    if (rate_mhz < least_mhz)
        rate_mhz = least_mhz;
    if (rate_mhz >= asked_mhz) {
        rate_mhz = asked_mhz;
        *period_ns = a->asked_period_ns;
    } else {
        *period_ns = PER_MILLION * PER_MILLION / rate_mhz;
    }
    *now_mhz = rate_mhz;
}

static void rounds_set(struct agent *a, u64 rate_mhz)
{
    unsigned long long *counters = a->ring->counters;
    u64 least_mhz = PER_MILLION * PER_MILLION / a->asked_period_ns, now_mhz;
    rate_set(a, rate_mhz, RATE_MIN_MHZ, &a->period_ns, &counters[COUNTER_RATE_MHZ_NOW]);
    now_mhz = counters[COUNTER_RATE_MHZ_NOW];
    a->looks_16 = LOOKS_ALL_16;
    if (!a->engine_is_timers) {
        counters[COUNTER_CPU_RATE_MHZ_NOW] = now_mhz;
        return;
    }
    if (least_mhz > ROUNDS_MIN_MHZ)
        least_mhz = ROUNDS_MIN_MHZ;
    if (now_mhz < least_mhz) {
        a->looks_16 = (u32)((now_mhz << 16) / least_mhz);
        a->period_ns = PER_MILLION * PER_MILLION / least_mhz;
    }
}

/* Return whether this round leaves out a thread that has a stack already. It has the same chance in each round. */
static u32 look_is_left_out(struct agent *a)
{
    if (a->looks_16 == LOOKS_ALL_16)
        return 0;
    a->random = random_next(a->random);
    return a->random >> 48 >= a->looks_16;
}

static void samples_set(struct agent *a, u64 rate_mhz)
{
    rate_set(a, rate_mhz, RATE_MIN_MHZ, &a->cpu_period_ns, &a->ring->counters[COUNTER_CPU_RATE_MHZ_NOW]);
}

/* Return the new rate after a window in which the work of this rate cost `cost_ns` per second; the same rate for no
 * change. */
static u64 govern(struct agent *a, struct governed *governed, u64 rate_mhz, u64 cost_ns, u64 allowed_ns)
{
    u64 fitting_mhz = cost_ns ? rate_mhz * (allowed_ns / 10 * 9) / cost_ns : rate_mhz * 2;
    governed->windows_over = cost_ns > allowed_ns ? governed->windows_over + 1 : 0;
    governed->windows_under = cost_ns < allowed_ns / 10 * 7 ? governed->windows_under + 1 : 0;
    if (governed->windows_over && (governed->windows_over > 1 || cost_ns > allowed_ns / 10 * FAR_ABOVE) && rate_mhz > RATE_MIN_MHZ) {
        count_up(a, COUNTER_BUDGET_LOWERED, 1);
        governed->windows_over = 0;
        return fitting_mhz > rate_mhz / LOWER_MOST ? fitting_mhz : rate_mhz / LOWER_MOST;
    }
    if (governed->windows_under > 2 && rate_mhz < PER_MILLION * PER_MILLION / a->asked_period_ns) {
        count_up(a, COUNTER_BUDGET_RAISED, 1);
        governed->windows_under = 0;
        return fitting_mhz < rate_mhz * 2 ? fitting_mhz : rate_mhz * 2;
    }
    return rate_mhz;
}

static u64 rounds_cost_ns(const struct agent *a)
{
    i64 sampler_ns = clock_ns_sigsafe(THREAD_CPU_CLOCK_OWN);
    u64 free_ns = (a->once_cpu_ns < ONCE_FREE_NS ? a->once_cpu_ns : ONCE_FREE_NS) + a->newcomers_cpu_ns;
    return sampler_ns > (i64)free_ns ? (u64)sampler_ns - free_ns : 0;
}

/* Return what looking for new threads between rounds has cost in this window: newcomers.c. */
static u64 newcomers_cost_ns(const struct agent *a)
{
    return a->newcomers_cpu_ns - a->newcomers_window_ns;
}

/* Set both rates after a window, by the cost of rounds and samples per second in it. */
static void govern_both(struct agent *a, u64 rounds_ns, u64 samples_ns, u64 allowed_ns)
{
    u64 least_ns = allowed_ns / ROUNDS_SHARE, rounds_mhz = a->ring->counters[COUNTER_RATE_MHZ_NOW];
    if (!a->engine_is_timers) {
        rounds_set(a, govern(a, &a->rounds, rounds_mhz, rounds_ns + samples_ns, allowed_ns));
        return;
    }
    rounds_set(a, govern(a, &a->rounds, rounds_mhz, rounds_ns,
                         samples_ns + least_ns < allowed_ns ? allowed_ns - samples_ns : least_ns));
    samples_set(a, govern(a, &a->samples, a->ring->counters[COUNTER_CPU_RATE_MHZ_NOW], samples_ns, allowed_ns - least_ns));
}

/* Begin a new window: at the start, and after a pause. */
static void governor_restart(struct agent *a, u64 now_ns)
{
    a->window_start_ns = now_ns;
    a->rounds.window_cost_ns = rounds_cost_ns(a);
    a->samples.window_cost_ns = a->handler_cost_ns;
    a->newcomers_window_ns = a->newcomers_cpu_ns;
    a->rounds.windows_over = a->rounds.windows_under = a->samples.windows_over = a->samples.windows_under = 0;
}

/* Take over another rate that the host asks for. Both rates begin with it; the budget lowers them again. */
static void asked_rate_keep(struct agent *a, u64 now_ns)
{
    u32 rate_hz = load_acquire_u32(&a->asked_rate_hz);
    if (!rate_hz || a->asked_period_ns == WINDOW_NS / rate_hz)
        return;
    a->asked_period_ns = WINDOW_NS / rate_hz;
    rounds_set(a, ~0ULL);
    samples_set(a, ~0ULL);
    a->early_check_ns = 0;
    governor_restart(a, now_ns);
}

/* Return whether a window ends before its second is over: the budget of two seconds is spent, or rounds cost far more than
 * is allowed, or, at the start, all together some more for long enough to be no chance. */
static u32 is_early_enough(u64 rounds_ns, u64 samples_ns, u64 allowed_ns, u64 passed_ns, u32 is_start)
{
    u64 so_far_ns = allowed_ns * passed_ns / WINDOW_NS, both_ns = rounds_ns + samples_ns;
    return both_ns >= 2 * allowed_ns || rounds_ns / OUT_OF_BOUNDS >= so_far_ns ||
           (is_start && passed_ns >= SOME_TIME_NS && both_ns >= so_far_ns / 10 * FAR_ABOVE);
}

static void governor_keep(struct agent *a, u64 now_ns)
{
    u64 passed_ns = now_ns - a->window_start_ns, allowed_ns, rounds_ns, samples_ns;
    if (passed_ns < EARLY_WINDOW_NS || (passed_ns < WINDOW_NS && passed_ns < a->early_check_ns))
        return;
    allowed_ns = budget_ns(a);
    rounds_ns = rounds_cost_ns(a) - a->rounds.window_cost_ns;
    samples_ns = a->handler_cost_ns - a->samples.window_cost_ns;
    /* Check again after another tenth of a second, unless so much is spent already. */
    if (passed_ns < WINDOW_NS && (!allowed_ns || !is_early_enough(rounds_ns, samples_ns, allowed_ns, passed_ns,
                                                                      now_ns - a->ring->start_ns < START_NS))) {
        a->early_check_ns = passed_ns + EARLY_WINDOW_NS;
        return;
    }
    if (allowed_ns) {
        govern_both(a, rounds_ns * (WINDOW_NS / 1000) / (passed_ns / 1000),
                    samples_ns * (WINDOW_NS / 1000) / (passed_ns / 1000), allowed_ns);
    } else {
        rounds_set(a, ~0ULL);
        samples_set(a, ~0ULL);
    }
    a->early_check_ns = 0;
    a->window_start_ns = now_ns;
    a->rounds.window_cost_ns = rounds_cost_ns(a);
    a->samples.window_cost_ns = a->handler_cost_ns;
    /* What was too much counts in the next window. */
    if (!allowed_ns || newcomers_cost_ns(a) < allowed_ns)
        a->newcomers_window_ns = a->newcomers_cpu_ns;
    else
        a->newcomers_window_ns += allowed_ns;
}
