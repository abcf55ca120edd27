"""``--verify-detach``: looks at the process before the attach and after the detach, and tells."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from ..capture.figures import counted
from ..errors import LeftBehindError
from ..linux import procfs
from .progress import Progress

if TYPE_CHECKING:
    from ..safety.snapshot import Receipt
    from ..safety.snapshot_diff import Blame, Difference
    from .attach_options import How

# Frida's side may need a moment more than our own detach waits for.
SETTLE_S = 3.0
LOOK_INTERVAL_S = 0.1
SHOWN_CHANGES = 5  # of the target's own; -v shows all


class Verification:
    """The receipt of one recording. Does nothing unless it is wanted.

    Args:
        pid: the process, not attached to yet.
        is_wanted: the option was given.
    """

    def __init__(self, pid: int, *, is_wanted: bool) -> None:
        self._pid = pid
        self._before = _look(pid) if is_wanted else None
        self._attached: Receipt | None = None
        self._was_touched = False

    def note_attaching(self) -> None:
        """Remember that an attach was tried. Without one there is nothing to tell."""
        self._was_touched = True

    def note_attached(self) -> None:
        """Look at the process as soon as sampling has begun."""
        if self._before is not None:
            self._attached = _look(self._pid)

    def tell(self, progress: Progress, *, verbose: bool = False) -> None:
        """Print what differs after the detach; nothing where no attach was tried.

        Raises:
            LeftBehindError: some of it is ours.
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
            progress.warn(f"new since the attach, perhaps its own: {difference.what}")
        if not ours:
            progress.say(
                f"detach receipt of process {self._pid}: nothing of ours runs in it, is open in "
                "it or stays patched"
            )
        for line in _residue(by_blame[Blame.RESIDUE]):
            progress.say(f"  left by the injection: {line}")
        own = by_blame[Blame.TARGET]
        if own:
            progress.say(f"  its own doing, as far as can be told: {counted(len(own), 'change')}")
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
            found = snapshot_diff.differences(self._before, after, attached=self._attached)
            is_settled = came.isdisjoint(after.threads) and not any(
                difference.blame is snapshot_diff.Blame.OURS for difference in found
            )
            if is_settled or time.monotonic() > deadline:
                return found
            time.sleep(LOOK_INTERVAL_S)


@contextmanager
def verified(pid: int, progress: Progress, how: How) -> Iterator[Verification]:
    """Looks before the block, which attaches and detaches, and tells after it.

    Raises:
        LeftBehindError: something of ours is left; not where the block has failed.
    """
    verification = Verification(pid, is_wanted=how.verify_detach)
    try:
        yield verification
    except BaseException:
        with suppress(LeftBehindError):
            verification.tell(progress, verbose=how.verbose)
        raise
    verification.tell(progress, verbose=how.verbose)


def _look(pid: int) -> Receipt | None:
    """None when the process has gone, or may not be looked at: the checks will say so."""
    from ..safety import snapshot

    try:
        return snapshot.take(pid)
    except (*procfs.GONE, PermissionError, KeyError):
        return None  # KeyError: of a zombie, not all lines are there


def _residue(found: list[Difference]) -> Iterator[str]:
    """One line for each explanation."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for difference in found:
        by_reason[difference.why].append(difference.what)
    for why, things in by_reason.items():
        yield f"{', '.join(things)} ({why})"
