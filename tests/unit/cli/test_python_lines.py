"""What the summary says of the GIL and of the garbage collector."""

from __future__ import annotations

import wire
from flametap.cli.python_lines import collector_lines, gil_lines
from flametap.linux.syscalls import LOCK
from flametap.model import Clock
from flametap.recording.names.table import SymbolTable
from flametap.recording.profile.store import Profile
from flametap.tree.calltree import build
from flametap.wire.abi import MARK_COLLECTING, MARK_LOCK_AWAITED, MARK_LOCK_HELD
from gil_profiles import MS, NAMES, PARSE_ADDR, at, gil_profile
from profiles import apply, small_profile
from python_profiles import EVAL_ADDR, MAIN_ADDR, named
from recordings import recorded


def one_thread(marks: int, waits_ms: int = 0) -> tuple[Profile, SymbolTable]:
    """One thread that runs for 100 ms, and then waits for the GIL, which nobody else holds."""
    profile = Profile()
    frames = [EVAL_ADDR, PARSE_ADDR, MAIN_ADDR]
    waits = [wire.interval(1, 2, at(100), waits_ms * MS, 0, wire.PARKED, sysno=LOCK)]
    apply(
        profile,
        at(100 + waits_ms),
        threads=[wire.thread(1, 101, "python")],
        traces=[
            wire.trace(1, [wire.frame(1, 0x7000), *frames], marks=marks),
            wire.trace(2, frames, marks=MARK_LOCK_AWAITED),
        ],
        intervals=[wire.interval(1, 1, at(0), 100 * MS, 100 * MS), *waits[: waits_ms > 0]],
    )
    return profile, named(profile, NAMES)


def test_gil_of_several_threads() -> None:
    assert gil_lines(recorded(*gil_profile())) == [
        "GIL: held 95.0% of the wall time; 110 ms of 3 threads' time was spent waiting for it, "
        "held meanwhile by python (101) in parse (67%)"
    ]


def test_gil_of_one_thread() -> None:
    assert gil_lines(recorded(*one_thread(MARK_LOCK_HELD))) == [
        "GIL: held 100.0% of the wall time; no thread waited for it"
    ]
    assert gil_lines(recorded(*one_thread(MARK_LOCK_HELD, 100))) == [
        "GIL: held 50.0% of the wall time; 100 ms of 1 thread's time was spent waiting for it"
    ]


def test_no_gil() -> None:
    assert gil_lines(recorded(*small_profile())) == []


def test_garbage_collection() -> None:
    profile, table = one_thread(MARK_LOCK_HELD | MARK_COLLECTING, 100)
    assert collector_lines(build(profile, table, Clock.CPU), Clock.CPU) == [
        "garbage collection: 100.0% of the cpu time, 100% of that called by parse"
    ]
    assert collector_lines(build(profile, table, Clock.WALL), Clock.WALL) == [
        "garbage collection: 50.0% of the wall time, 100% of that called by parse"
    ]
    assert collector_lines(build(*one_thread(MARK_LOCK_HELD), Clock.CPU), Clock.CPU) == []
