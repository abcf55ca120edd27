"""Hosts that are killed at a random moment of an attach: each is a fork of this process, which has
imported everything, so that a moment is one of the attach and not of Python's start.

Run as ``python hosts.py``. Each line of standard input is ``PID SHARE``: attach to a process, and
be killed after that share of the time that the last whole attach to it took, counted from the
moment at which the way in is free. ``0`` is a whole attach. The answer is a line ``STEP SECONDS``:
where it was, and after what time. Ends with its standard input.
"""

from __future__ import annotations

import mmap
import os
import signal
import sys
import time
import traceback
from enum import IntEnum

from flametap.inject.direct.injector import DirectInjector
from flametap.inject.direct.stub import Stub
from flametap.inject.link.injector import Entry
from flametap.inject.link.session import Session
from flametap.inject.link.target_memory import TargetMemory

RATE_HZ = 1000.0
SAMPLED_S = 0.01
# Of the agent that the host before has left: it ends some seconds after it.
FREE_S = 30.0
ENDED_S = 90.0


class Step(IntEnum):
    """What a host is at."""

    WAITING = 0
    ENTERING = 1  # the stop, the birth of our thread, its code
    PREPARING = 2
    STARTING = 3
    SAMPLING = 4
    STOPPING = 5
    LEAVING = 6
    OVER = 7
    FAILED = 8


class _Injector(DirectInjector):
    """Tells when the attach begins in earnest, and when our thread is there."""

    def __init__(self, pid: int, step: mmap.mmap) -> None:
        super().__init__(pid)
        self._step = step

    def _place(self, memory: TargetMemory, stub: Stub) -> int:
        place = super()._place(memory, stub)
        self._step[0] = Step.ENTERING
        return place

    def enter(self, filtered: int) -> Entry:
        entry = super().enter(filtered)
        self._step[0] = Step.PREPARING
        return entry


def _attach(pid: int, step: mmap.mmap) -> None:
    session = Session(pid, _Injector(pid, step))
    session.attach(RATE_HZ)
    step[0] = Step.STARTING
    session.start()
    step[0] = Step.SAMPLING
    time.sleep(SAMPLED_S)
    step[0] = Step.STOPPING
    session.stop()
    step[0] = Step.LEAVING
    session.close()
    step[0] = Step.OVER


def _fork(pid: int, step: mmap.mmap) -> int:
    step[0] = Step.WAITING
    child = os.fork()
    if child:
        return child
    try:
        _attach(pid, step)
    except BaseException:
        traceback.print_exc()
        step[0] = Step.FAILED
    finally:
        os._exit(0)


def _wait(step: mmap.mmap, least: Step, limit_s: float) -> None:
    end_s = time.monotonic() + limit_s
    while step[0] < least and time.monotonic() < end_s:
        time.sleep(0.0005)


def main() -> None:
    """See the module."""
    step = mmap.mmap(-1, mmap.PAGESIZE)
    whole_s: dict[int, float] = {}
    for line in sys.stdin:
        pid, share = int(line.split()[0]), float(line.split()[1])
        child = _fork(pid, step)
        _wait(step, Step.ENTERING, FREE_S)
        began_s = time.monotonic()
        if share:
            time.sleep(share * whole_s[pid])
        else:
            _wait(step, Step.OVER, ENDED_S)
        took_s = time.monotonic() - began_s
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if step[0] == Step.OVER and not share:
            whole_s[pid] = took_s
        print(Step(step[0]).name.lower(), took_s, flush=True)


if __name__ == "__main__":
    main()
