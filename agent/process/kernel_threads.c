/*
 * Threads of the kernel that work for the target: those of io_uring(7) and vhost. They are listed with the target's own,
 * but run none of its code and have none of its stacks. A signal ends such a thread, also where the target has a handler
 * for it. A stop by a tracer may last for ever. So they are never sampled, and the host is asked for nothing about them.
 * Their CPU time is read from their clocks; its stack is one frame. Sampler thread only.
 */

/* Look at a thread of the kernel that used CPU time since the last look, or that was never looked at. */
static void kernel_thread_look(struct agent *a, struct thread_slot *slot, u64 now_ns)
{
    struct verdicts verdicts = {VERDICT_COMPLETE, MANAGED_NONE, 0, 0};
    struct thread_signals signals;
    u64 word = KERNEL_CODE;
    u32 injected = 0, trace_id;
    a->noted_by = (const struct managed_walk *)0;
    trace_id = trace_intern(a, &word, 1, &verdicts, &injected);
    interval_ran(a, slot, now_ns, slot->cpu_seen_ns, trace_id, 0);
    if (thread_signals_read(a, slot->tid, &signals) && signals.state != 'R')
        interval_asleep(a, slot, now_ns, trace_id, 0, STATE_BLOCKED, -1, 1);
}
