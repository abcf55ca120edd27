"""Keeps the line to a target that stands still in the middle of an attach: a process of its own,
since the profiler ends and the target may be stopped for hours.

Stopped (SIGSTOP) or frozen while it makes our script, the target finds two things waiting when it
goes on: the script to make, and the end of the connection. Frida's agent then unloads itself before
the thread that runs scripts has come to its loop, and that thread stays for good, or runs on where
no code is any more: the target dies of it (one of a hundred). So the connection ends only when the
target has been running for a while.

The descriptors to keep are inherited.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from ..linux.helper_process import start as start_process
from .stall_watch import Standstill

LOOK_INTERVAL_S = 0.1
# How many looks in a row must find the target going on. A script is made in less than 0.1 s.
LOOKS = 20


def start(pid: int, descriptors: Sequence[int]) -> None:
    """Starts a caretaker for a process, with descriptors of ours that it is to hold open.

    Raises:
        OSError: no process can be had.
    """
    if start_process("flametap.inject.connection_keeper", pid, descriptors=descriptors).wait():
        raise OSError("the caretaker could not start")


def main(pid: int) -> None:
    """Watches over a process; whoever has started this need not wait."""
    if os.fork() == 0:
        wait_until_it_goes_on(pid)


def wait_until_it_goes_on(pid: int) -> None:
    """Returns when a process has been going on for a while, or is gone."""
    standstill = Standstill(pid, patience=1)
    looks = 0
    while looks < LOOKS:
        time.sleep(LOOK_INTERVAL_S)
        looks = 0 if standstill.lasts() else looks + 1
