"""Explain why running threads have no stacks, if our signals did not reach them. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping


def signal_notes(counters: Mapping[str, int]) -> list[str]:
    """Explain why threads that ran have no stacks, if the target or its limits cause that."""
    notes = []
    if counters.get("handler_replaced", 0):
        notes.append(
            "the target has set a handler of its own for our signal: from then on only its "
            "sleeping threads have stacks"
        )
    if counters.get("signals_failed", 0):
        notes.append(
            "the kernel rejected some of our signals: the limit of queued signals is reached "
            "(ulimit -i)"
        )
    return notes
