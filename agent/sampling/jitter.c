/*
 * The time of the next round is drawn from the exponential distribution, so that rounds are nearly a Poisson process.
 * Then no timer of the program, whatever its period, is met more often in one of its phases than in another. A fixed
 * period with some jitter would do that: at ±25 %, a program woken by a timer of the sampling period had 4.5 % of its
 * CPU time in the wrong function, on average over many runs; with this it has 1 %. Sampler thread only.
 */

#define GAP_PERIODS_MAX 2                 /* longer gaps are cut, so that few short-lived threads are missed */
/* The mean of an exponential variable that is cut off at 2 is 1 - e^-2: this makes up for it. */
#define GAP_SCALE_10 1184                 /* 1024 / (1 - e^-2) */

/*
 * Return -ln u for u = random / 2^64, times 2^20. The logarithm to base 2 is the number of leading zeros and, for the
 * rest, log2(1 + x) = x + 0.343 x (1 - x), accurate to 1 % of the smallest step that matters.
 */
static u64 exponential_20(u64 random)
{
    u64 zeros = 0, x, log2_20;
    random |= 1;
    while (!(random >> 63)) {
        random <<= 1;
        zeros++;
    }
    x = (random << 1) >> 44;
    log2_20 = x + ((359662 * (x * ((1U << 20) - x) >> 20)) >> 20);
    return ((((zeros + 1) << 20) - log2_20) * 726817) >> 20;      /* ln 2 */
}

/* xorshift64 */
static u64 random_next(u64 random)
{
    random ^= random << 13;
    random ^= random >> 7;
    return random ^ random << 17;
}

/* Return the time from one round to the next; on average a->period_ns. */
static u64 next_gap_ns(struct agent *a)
{
    u64 gap_20;
    a->random = random_next(a->random);
    gap_20 = exponential_20(a->random);
    if (gap_20 > GAP_PERIODS_MAX << 20)
        gap_20 = GAP_PERIODS_MAX << 20;
    return (a->period_ns * (gap_20 * GAP_SCALE_10 >> 10)) >> 20;
}
