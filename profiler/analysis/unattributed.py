"""Why CPU time has no stack: the reasons that the agent has counted. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ..model import Verdict

# Less is not worth a note.
SHARE_MIN = 0.005
# Less is 0.0% in words.
SHARE_SHOWN = 0.0005
# Of one core: of a process that nearly always sleeps, shares of its CPU time say nothing.
IDLE_SHARE = 0.01
# Counter of agent/abi.h → whose time it is.
REASONS = {
    "unattributed_blocked_ns": "of threads that block our signal",
    "unattributed_ended_ns": "of threads that ended before their first sample",
    "unattributed_unseen_ns": "of threads that came and went between two looks",
    "unattributed_handler_ns": "since the target set a handler of its own for our signal",
    "unattributed_stack_ns": "on stacks that may have no room for a signal",
}
NOT_IN_TIME = "not sampled in time"


def unattributed_notes(
    counters: Mapping[str, int], verdict_cpu_ns: Mapping[str, int], duration_ns: int
) -> list[str]:
    """Say what share of the CPU time has no stack, and why; empty for a small share.

    Args:
        counters: of the agent.
        verdict_cpu_ns: name of the verdict → CPU time, nanoseconds.
        duration_ns: of the recording.
    """
    total_ns = sum(verdict_cpu_ns.values())
    without_ns = verdict_cpu_ns.get(Verdict.NO_STACK.name, 0)
    if total_ns <= IDLE_SHARE * duration_ns or without_ns < SHARE_MIN * total_ns:
        return []
    found = {reason: float(counters.get(name, 0)) for name, reason in REASONS.items()}
    counted_ns = sum(found.values())
    if counted_ns > without_ns:  # the agent has counted what it has not sent yet
        found = {reason: ns * without_ns / counted_ns for reason, ns in found.items()}
    found[NOT_IN_TIME] = max(0.0, without_ns - counted_ns)
    reasons = [
        f"{ns / total_ns:.1%} {reason}"
        for reason, ns in sorted(found.items(), key=lambda item: -item[1])
        if ns >= SHARE_SHOWN * total_ns
    ]
    return [f"{without_ns / total_ns:.1%} of the CPU time has no stack: {', '.join(reasons)}"]
