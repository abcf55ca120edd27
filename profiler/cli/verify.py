"""``--verify-detach``: compare the process before the attach and after the detach."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from ..errors import LeftBehindError
from ..inject.ways import FRIDA
from ..linux import procfs
from ..recording.figures import counted
from .progress import Progress

if TYPE_CHECKING:
    from ..safety.snapshot import Receipt
    from ..safety.snapshot_diff import Blame, Difference
    from .attach_options import AttachOptions

# Frida's threads may need longer to exit than our detach waits.
SETTLE_S = 3.0
LOOK_INTERVAL_S = 0.1
SHOWN_CHANGES = 5  # caused by the target itself; -v shows all


class Verification:
    """Snapshots of the process around one recording.

    Args:
        pid: a process that is not attached to yet.
        is_wanted: whether the option was given; if not, this object does nothing.
        by_frida: whether Frida is the way in.
    """

    def __init__(self, pid: int, *, is_wanted: bool, by_frida: bool = False) -> None:
        self._pid = pid
        self._by_frida = by_frida
        self._before = _look(pid) if is_wanted else None
        self._attached: Receipt | None = None
        self._was_touched = False

    def note_attaching(self) -> None:
        """Note that an attach begins. Without one, ``tell`` prints nothing."""
        self._was_touched = True

    def note_attached(self) -> None:
        """Take a snapshot as soon as sampling has begun."""
        if self._before is not None:
            self._attached = _look(self._pid)

    def tell(self, progress: Progress, *, verbose: bool = False) -> None:
        """Print what differs after the detach; nothing if no attach was tried.

        Raises:
            LeftBehindError: something of ours is left in the process.
        """
        if self._before is None or not self._was_touched:
            return
        from ..safety.snapshot_diff import Blame

        found = self._differences()
        if found is None:
            progress.say(f"detach receipt: process {self._pid} has ended or replaced itself")
            return
        by_blame: dict[Blame, list[Difference]] = defaultdict(list)
        for difference in found:
            by_blame[difference.blame].append(difference)
        ours = by_blame[Blame.OURS]
        for difference in ours:
            progress.warn(f"left behind in process {self._pid}: {difference.what}")
        for difference in by_blame[Blame.UNCLEAR]:
            progress.warn(f"new since the attach, cause unknown: {difference.what}")
        if not ours:
            progress.say(
                f"detach receipt of process {self._pid}: no thread, timer, descriptor or patch of "
                "ours is left in it"
            )
        for line in _residue(by_blame[Blame.RESIDUE]):
            progress.say(f"  left by the injection: {line}")
        own = by_blame[Blame.TARGET]
        if own:
            progress.say(f"  probably by the process itself: {counted(len(own), 'change')}")
            for difference in own if verbose else own[:SHOWN_CHANGES]:
                progress.say(f"    {difference.what}")
        if ours:
            raise LeftBehindError(
                f"{counted(len(ours), 'thing')} of ours left in process {self._pid}: "
                + "; ".join(difference.what for difference in ours[:3]),
                "the recording is saved; please report this, with the output of -v",
            )

    def _differences(self) -> list[Difference] | None:
        from ..safety import snapshot_diff

        assert self._before is not None
        attached = self._attached or self._before
        came = attached.threads.keys() - self._before.threads.keys()
        deadline = time.monotonic() + SETTLE_S
        while True:
            after = _look(self._pid)
            if after is None or not self._before.files & after.files:
                return None
            found = snapshot_diff.differences(
                self._before, after, attached=self._attached, by_frida=self._by_frida
            )
            is_settled = came.isdisjoint(after.threads) and not any(
                difference.blame is snapshot_diff.Blame.OURS for difference in found
            )
            if is_settled or time.monotonic() > deadline:
                return found
            time.sleep(LOOK_INTERVAL_S)


@contextmanager
def verified(pid: int, progress: Progress, how: AttachOptions) -> Iterator[Verification]:
    """Take a snapshot before the block, which attaches and detaches, and print the changes after.

    Raises:
        LeftBehindError: something of ours is left. Not raised if the block has failed.
    """
    verification = Verification(pid, is_wanted=how.verify_detach, by_frida=how.inject == FRIDA)
    try:
        yield verification
    except BaseException:
        with suppress(LeftBehindError):
            verification.tell(progress, verbose=how.verbose)
        raise
    verification.tell(progress, verbose=how.verbose)


def _look(pid: int) -> Receipt | None:
    """Take a snapshot; None if the process has exited or cannot be read (the checks report it)."""
    from ..safety import snapshot

    try:
        return snapshot.take(pid)
    except (*procfs.GONE, PermissionError, KeyError):
        return None  # KeyError: /proc/PID/status of a zombie lacks lines


def _residue(found: list[Difference]) -> Iterator[str]:
    """Yield one line for each cause."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for difference in found:
        by_reason[difference.why].append(difference.what)
    for why, things in by_reason.items():
        yield f"{', '.join(things)} ({why})"
