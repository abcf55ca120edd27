"""A profile with one thread that waits, and the names of its stack."""

from __future__ import annotations

import wire
from flametap.locks.wait_causes import WaitCauses
from flametap.model import Activity, Frame, FrameKind, Function
from flametap.recording.names.table import SymbolTable
from flametap.recording.profile.store import Profile
from flametap.timeline.lanes import LaneQuery, lanes
from flametap.timeline.time_sums import TimeSums
from flametap.wire.decoder import Decoder
from time_rows import FUTEX
from wire import PARKED

SECOND = 10**9
SEM = ("__futex_abstimed_wait_common64", "do_futex_wait", "__new_sem_wait_slow64")
PY_LOCK = (*SEM, "PyThread_acquire_lock_timed", "acquire_timed@python", "cfunction_call@python")
PARK = ("__futex_abstimed_wait_common", "pthread_cond_wait@@GLIBC_2.3.2", "Unsafe_Park@libjvm.so")
SYNC = "java.util.concurrent.locks.AbstractQueuedSynchronizer"


def function(text: str) -> Function:
    """Return the function of NAME, NAME@MODULE, FILE:NAME (Python), or ? (no name)."""
    if text == "?":
        return Function("lib.so+0x10", "lib.so", kind=FrameKind.UNKNOWN)
    file, _, python = text.partition(".py:")
    if python:
        return Function(python, "", f"/usr/lib/{file}.py", FrameKind.PYTHON)
    name, _, module = text.partition("@") if "@@" not in text else (text, "", "")
    return Function(name, module or "libc.so.6")


class Waits:
    """A profile with one thread that waits for two seconds, and the names of its stack."""

    def __init__(self, n_frames: int) -> None:
        self.now_s = 0.0
        self.profile = Profile()
        self.table = SymbolTable(self.profile.locate)
        self.sums = TimeSums(self.profile.moments, WaitCauses(self.table, lambda: self.now_s))
        frames = [wire.frame(1, 0x100 + at) for at in range(n_frames)]
        rows = [wire.interval(1, 1, SECOND, 2 * SECOND, 0, PARKED, sysno=FUTEX)]
        traces = [wire.trace(1, frames)]
        for batch in Decoder().feed(wire.batch(3 * SECOND, traces=traces, intervals=rows)):
            self.profile.apply(batch)

    def name(self, *leaf_first: str) -> None:
        """Give names to the addresses at the leaf end."""
        addresses = [address for address, _ in self.profile.news().addresses]
        by_addr = {self.profile.locate(address)[0].addr: address for address in addresses}
        for at, text in enumerate(leaf_first):
            self.table.set(by_addr[0x100 + at], [Frame(function(text), at)])

    def cause(self) -> Activity:
        """Return what all of the time is."""
        spent = lanes(self.sums, LaneQuery()).all.sums_ns
        assert sum(spent) == 2 * SECOND
        return Activity(spent.index(2 * SECOND))
