/*
 * When the next round is due: after a time drawn from the exponential distribution, so that rounds are a Poisson
 * process, or nearly so. Then no timer of the program, whatever its period, is met more often in one of its phases than in another.
 * With a period and some jitter it would be: at ±25 %, a program woken by a timer of the sampling period had 4.5 % of
 * its CPU time in the wrong function, on average over many runs; so it has 1 %. Sampler thread only.
 */

#define GAP_PERIODS_MAX 2                 /* longer gaps are cut: what a short life leaves unseen stays small */
/* The mean of an exponential variable that is cut off at 2 is 1 - e^-2: this makes up for it. */
#define GAP_SCALE_10 1184                 /* 1024 / (1 - e^-2) */

/*
 * -ln u for u = random / 2^64, times 2^20. The logarithm to base 2 is the number of leading zeros, and for the rest
 * log2(1 + x) = x + 0.343 x (1 - x), right to 1 % of the smallest step that matters.
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

/* From one round to the next; on average a->period_ns. */
static u64 next_gap_ns(struct agent *a)
{
    u64 gap_20;
    a->random = random_next(a->random);
    gap_20 = exponential_20(a->random);
    if (gap_20 > GAP_PERIODS_MAX << 20)
        gap_20 = GAP_PERIODS_MAX << 20;
    return (a->period_ns * (gap_20 * GAP_SCALE_10 >> 10)) >> 20;
}
