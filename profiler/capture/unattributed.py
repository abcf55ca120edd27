"""Explain CPU time without a stack by the reasons that the agent counts. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping

from ..model import Verdict

# No note for a smaller share of the CPU time.
SHARE_MIN = 0.005
# A smaller share would be printed as 0.0%.
SHARE_SHOWN = 0.0005
# No note if the process used less than this share of one core: shares of so little CPU time are
# mostly chance.
IDLE_SHARE = 0.01
# Counter of agent/abi.h → the time that it counts.
REASONS = {
    "unattributed_blocked_ns": "of threads that block our signal",
    "unattributed_ended_ns": "of threads that had no sample before the end",
    "unattributed_unseen_ns": "of threads that started and ended between two looks",
    "unattributed_handler_ns": "since the target set a handler of its own for our signal",
    "unattributed_full_ns": "whose stacks exceed flametap's memory limit",
    "unattributed_stack_ns": "on stacks that may have no room for a signal",
    "unattributed_early_ns": "of processes before they were attached to",
    "unattributed_short_ns": "of processes that ended too soon to be attached to",
}
NOT_IN_TIME = "not sampled in time"


def unattributed_notes(
    counters: Mapping[str, int], verdict_cpu_ns: Mapping[str, int], duration_ns: int
) -> list[str]:
    """Report the share of the CPU time without a stack, and the reasons; empty if it is small.

    Args:
        counters: the agent's counters, and those of ``Profile.losses``.
        verdict_cpu_ns: name of the verdict → CPU time, nanoseconds.
        duration_ns: duration of the recording.
    """
    total_ns = sum(verdict_cpu_ns.values())
    without_ns = verdict_cpu_ns.get(Verdict.NO_STACK.name, 0)
    if total_ns <= IDLE_SHARE * duration_ns or without_ns < SHARE_MIN * total_ns:
        return []
    found = {reason: float(counters.get(name, 0)) for name, reason in REASONS.items()}
    counted_ns = sum(found.values())
    if counted_ns > without_ns:  # the counters are ahead of the intervals that we have received
        found = {reason: ns * without_ns / counted_ns for reason, ns in found.items()}
    found[NOT_IN_TIME] = max(0.0, without_ns - counted_ns)
    reasons = [
        f"{ns / total_ns:.1%} {reason}"
        for reason, ns in sorted(found.items(), key=lambda item: -item[1])
        if ns >= SHARE_SHOWN * total_ns
    ]
    return [f"{without_ns / total_ns:.1%} of the CPU time has no stack: {', '.join(reasons)}"]
