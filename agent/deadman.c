/*
 * The dead-man rule: an agent that hears nothing from its host ends by itself, so that a host that was killed or
 * stopped leaves nothing at work in the target. The host writes the time into the ring several times a second.
 *
 * What counts is the time in which the agent itself could run: a target that was stopped or frozen meanwhile, or a
 * machine that slept, says nothing about the host. So each look adds no more than SILENCE_STEP_NS.
 *
 * Context: the JS thread before sampling has begun, the sampler thread from then on.
 */

#define SILENCE_STEP_NS 500000000ULL      /* five times the longest time between two looks (SLEEP_SLICE_NS) */

/* 1 when the host has given no sign of life for HOST_SILENCE_NS. To be asked several times a second. */
static u32 host_is_silent(struct agent *a, u64 now_ns)
{
    u64 host_ns = load_acquire_u64((const volatile u64 *)&a->ring->host_ns);
    u64 step_ns = now_ns - a->host_checked_ns;
    a->host_checked_ns = now_ns;
    if (host_ns != a->host_seen_ns) {
        a->host_seen_ns = host_ns;
        a->host_silence_ns = 0;
    } else {
        a->host_silence_ns += step_ns < SILENCE_STEP_NS ? step_ns : SILENCE_STEP_NS;
    }
    return a->host_silence_ns >= HOST_SILENCE_NS;
}
