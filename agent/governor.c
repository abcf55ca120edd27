/*
 * The governor: keeps what sampling costs within the budget that the host gave, by lowering the rate, and raises it
 * again, up to what was asked for, when there is room. Sampler thread only.
 *
 * The cost is the sampler thread's CPU time and the time in handlers, over windows of a second. What happens once is
 * left out, since no rate makes it cheaper: the first round, and compiling unwind information, once a file, at the start
 * above all. Where that never ends (a library that comes and goes) it counts after some seconds.
 *
 *   above the budget twice in a row, or once by far   rate * 0.9 budget / cost
 *   below 0.7 of it three times in a row              rate * 0.9 budget / cost, at most doubled
 * The cost is about proportional to the rate, and what part of it is not only makes a step smaller, so after a step it
 * lies between the two marks or above them, never below: the rate does not swing. Weights are nanoseconds and stay
 * exact whatever the rate.
 */

#define WINDOW_NS 1000000000ULL
#define EARLY_WINDOW_NS 100000000ULL      /* a window ends after so little where the cost is out of all bounds */
#define RATE_MIN_MHZ 1000ULL              /* 1 Hz */
#define LOWER_MOST 8                      /* one step lowers to no less than 1/8 */
#define ONCE_FREE_NS 3000000000ULL        /* more than the largest programs need: libjvm 0.1 s, chromium 1 s */
#define PER_MILLION 1000000ULL

/* What a second of sampling may cost. */
static u64 budget_ns(const struct agent *a)
{
    return load_acquire_u64((const volatile u64 *)&a->ring->budget_ppm) * (WINDOW_NS / PER_MILLION);
}

static void rate_set(struct agent *a, u64 rate_mhz)
{
    u64 asked_mhz = PER_MILLION * PER_MILLION / a->asked_period_ns;
    if (rate_mhz < RATE_MIN_MHZ)
        rate_mhz = RATE_MIN_MHZ;
    if (rate_mhz >= asked_mhz) {
        rate_mhz = asked_mhz;
        a->period_ns = a->asked_period_ns;
    } else {
        a->period_ns = PER_MILLION * PER_MILLION / rate_mhz;
    }
    a->ring->counters[COUNTER_RATE_MHZ_NOW] = rate_mhz;
}

/* One window has ended in which sampling cost `cost_ns` a second. */
static void govern(struct agent *a, u64 cost_ns, u64 allowed_ns)
{
    u64 rate_mhz = a->ring->counters[COUNTER_RATE_MHZ_NOW];
    u64 fitting_mhz = cost_ns ? rate_mhz * (allowed_ns / 10 * 9) / cost_ns : rate_mhz * 2;
    a->windows_over = cost_ns > allowed_ns ? a->windows_over + 1 : 0;
    a->windows_under = cost_ns < allowed_ns / 10 * 7 ? a->windows_under + 1 : 0;
    if (a->windows_over && (a->windows_over > 1 || cost_ns > 2 * allowed_ns) && rate_mhz > RATE_MIN_MHZ) {
        rate_set(a, fitting_mhz > rate_mhz / LOWER_MOST ? fitting_mhz : rate_mhz / LOWER_MOST);
        count_up(a, COUNTER_BUDGET_LOWERED, 1);
        a->windows_over = 0;
    } else if (a->windows_under > 2 && a->period_ns > a->asked_period_ns) {
        rate_set(a, fitting_mhz < rate_mhz * 2 ? fitting_mhz : rate_mhz * 2);
        count_up(a, COUNTER_BUDGET_RAISED, 1);
        a->windows_under = 0;
    }
}

static u64 sampling_cost_ns(const struct agent *a)
{
    i64 sampler_ns = clock_ns_sigsafe(THREAD_CPU_CLOCK_OWN);
    u64 free_ns = a->once_cpu_ns < ONCE_FREE_NS ? a->once_cpu_ns : ONCE_FREE_NS;
    return (sampler_ns > 0 ? (u64)sampler_ns : 0) + a->handler_cost_ns - free_ns;
}

/* Forget the window that had begun: at the start, and after a pause. */
static void governor_restart(struct agent *a, u64 now_ns)
{
    a->window_start_ns = now_ns;
    a->window_cost_ns = sampling_cost_ns(a);
    a->windows_over = 0;
    a->windows_under = 0;
}

static void governor_keep(struct agent *a, u64 now_ns)
{
    u64 passed_ns = now_ns - a->window_start_ns, allowed_ns, cost_ns;
    if (passed_ns < EARLY_WINDOW_NS || (passed_ns < WINDOW_NS && passed_ns < a->early_check_ns))
        return;
    allowed_ns = budget_ns(a);
    cost_ns = sampling_cost_ns(a) - a->window_cost_ns;
    /* Look again after another tenth of a second, unless two seconds' worth is spent already. */
    if (passed_ns < WINDOW_NS && (!allowed_ns || cost_ns < 2 * allowed_ns)) {
        a->early_check_ns = passed_ns + EARLY_WINDOW_NS;
        return;
    }
    if (allowed_ns)
        govern(a, cost_ns * (WINDOW_NS / 1000) / (passed_ns / 1000), allowed_ns);
    else if (a->period_ns != a->asked_period_ns)
        rate_set(a, ~0ULL);
    a->early_check_ns = 0;
    a->window_start_ns = now_ns;
    a->window_cost_ns = sampling_cost_ns(a);
}
