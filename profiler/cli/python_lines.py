"""What the summary says of a Python program: its lock (the GIL), and its garbage collector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..model import Clock
from ..recording.figures import duration
from .targets import shorten

if TYPE_CHECKING:
    from ..locks.lock_waits import Holder
    from ..recording.recording import Recording
    from ..tree.calltree import CallTree

NAME_WIDTH = 60
WAIT_SHOWN = 0.001  # of the elapsed time: less is a wait now and then
SHARE_SHOWN = 0.0005  # less would be printed as 0.0%


def gil_lines(recording: Recording) -> list[str]:
    """Say how long the GIL was held, how long threads waited for it, and who held it meanwhile.

    Returns:
        Lines without a full stop; none for a process without a GIL.
    """
    # Imported here: it loads numpy.
    from ..locks.lock_waits import lock_share, lock_waits

    share = lock_share(recording.profile)
    if share is None:
        return []
    line = f"GIL: held {share.held:.1%} of the wall time"
    if share.awaited_ns < WAIT_SHOWN * share.duration_ns:
        return [f"{line}; no thread waited for it"]
    whose = "1 thread's" if share.n_waiting == 1 else f"{share.n_waiting:,} threads'"
    line += f"; {duration(share.awaited_ns / 1e9)} of {whose} time was spent waiting for it"
    waits = lock_waits(recording.profile, recording.names)
    if waits.holders:
        heaviest = waits.holders[0]
        part = heaviest.ns / waits.total_ns
        line += f", held meanwhile by {_holder(recording, heaviest)} ({part:.0%})"
    return [line]


def _holder(recording: Recording, holder: Holder) -> str:
    thread = recording.profile.threads.get(holder.thread_id)
    name = f"{thread.name} ({thread.tid})" if thread else "a thread that ended"
    if holder.function_id < 0:
        return name
    return f"{name} in {shorten(recording.functions[holder.function_id].name, NAME_WIDTH)}"


def collector_lines(tree: CallTree, clock: Clock) -> list[str]:
    """Say how much of a tree's time the garbage collector took, and what made it run.

    Args:
        tree: weighted by ``clock``.
        clock: named in the line.

    Returns:
        Lines without a full stop; none if it took next to nothing.
    """
    from ..tree.collector_share import collector_share

    share = collector_share(tree)
    total_ns = int(tree.total_ns[0])
    if share is None or share.ns < SHARE_SHOWN * total_ns:
        return []
    line = f"garbage collection: {share.ns / total_ns:.1%} of the {clock.value} time"
    if share.trigger is not None:
        name = shorten(share.trigger.name, NAME_WIDTH)
        line += f", {share.trigger_ns / share.ns:.0%} of that called by {name}"
    return [line]
