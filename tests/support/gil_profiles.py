"""A recording of a Python program whose threads share the interpreter's lock."""

from __future__ import annotations

import wire
from flametap.linux.syscalls import LOCK
from flametap.model import Frame, FrameKind, Function, Status
from flametap.recording.names.table import SymbolTable
from flametap.recording.profile.store import Profile
from flametap.recording.recording import Recording, with_sums
from flametap.wire.abi import MARK_LOCK_AWAITED, MARK_LOCK_HELD, MARK_LOCK_RELEASED
from profiles import apply
from python_profiles import EVAL, EVAL_ADDR, MAIN, MAIN_ADDR, named
from recordings import recorded

PARSE = Function("parse", "app/parse.py", "/srv/app/parse.py", FrameKind.PYTHON)
RENDER = Function("render", "app/render.py", "/srv/app/render.py", FrameKind.PYTHON)
READ = Function("read", "app/read.py", "/srv/app/read.py", FrameKind.PYTHON)
PARSE_ADDR, RENDER_ADDR, READ_ADDR = (wire.managed_frame(code, 1) for code in (1, 2, 3))
NAMES = {
    MAIN_ADDR: [Frame(MAIN, 0)],
    EVAL_ADDR: [Frame(EVAL, 0)],
    PARSE_ADDR: [Frame(PARSE, 1)],
    RENDER_ADDR: [Frame(RENDER, 1)],
    READ_ADDR: [Frame(READ, 1)],
}
MS = 1_000_000
START = 1_000 * MS
MAIN_THREAD, WORKER, READER = 1, 2, 3
SELECT = 23


def at(ms: int) -> int:
    """Return a time of the recording, CLOCK_MONOTONIC in nanoseconds."""
    return START + ms * MS


def gil_profile() -> tuple[Profile, SymbolTable]:
    """Three threads, 100 ms.

    ===========  ============================================================================
    main thread  0 to 60 holds the lock in ``parse``; 60 to 100 waits for it
    worker       0 to 60 waits for the lock; 60 to 80 holds it in ``render``; 80 to 100 waits
                 for a CPU, and holds it for 15 of that
    reader       0 to 50 in select without the lock; 50 to 60 waits for the lock; 60 to 100 in
                 select
    ===========  ============================================================================
    """
    profile = Profile()
    paths = {
        1: (PARSE_ADDR, MARK_LOCK_HELD),
        2: (PARSE_ADDR, MARK_LOCK_AWAITED),
        3: (RENDER_ADDR, MARK_LOCK_HELD),
        4: (RENDER_ADDR, MARK_LOCK_AWAITED),
        5: (READ_ADDR, MARK_LOCK_RELEASED),
        6: (READ_ADDR, MARK_LOCK_AWAITED),
    }
    rows = [
        (MAIN_THREAD, 1, 0, 60, wire.RUNNING, -1),
        (MAIN_THREAD, 2, 60, 40, wire.PARKED, LOCK),
        (WORKER, 4, 0, 60, wire.PARKED, LOCK),
        (WORKER, 3, 60, 20, wire.RUNNING, -1),
        (WORKER, 3, 80, 5, wire.QUEUED, LOCK),
        (WORKER, 3, 85, 15, wire.QUEUED, -1),
        (READER, 5, 0, 50, wire.PARKED, SELECT),
        (READER, 6, 50, 10, wire.PARKED, LOCK),
        (READER, 5, 60, 40, wire.PARKED, SELECT),
    ]
    apply(
        profile,
        at(100),
        modules=[wire.module(1, "/usr/lib/libpython3.12.so")],
        threads=[
            wire.thread(MAIN_THREAD, 101, "python"),
            wire.thread(WORKER, 102, "worker-1"),
            wire.thread(READER, 103, "reader"),
        ],
        traces=[
            wire.trace(number, [EVAL_ADDR, python, MAIN_ADDR], marks=marks)
            for number, (python, marks) in paths.items()
        ],
        intervals=[
            wire.interval(
                thread,
                trace,
                at(start),
                ms * MS,
                ms * MS if state == wire.RUNNING else 0,
                state,
                sysno=sysno,
            )
            for thread, trace, start, ms, state, sysno in rows
        ],
    )
    return profile, named(profile, NAMES)


def gil_recording() -> Recording:
    """The recording that has this profile, of a program that still runs."""
    profile, names = gil_profile()
    status = Status(101, "/usr/bin/python3.12 -m app", "recording", languages=["Python"])
    return recorded(profile, names, with_sums(status, profile))
