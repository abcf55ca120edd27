"""Keep the line to a target that stands still in the middle of an attach: a process of its own,
since the profiler ends and the target may be stopped for hours.

Stopped (SIGSTOP) or frozen while it makes our script, the target finds two things waiting when it
continues: the script to make, and the end of the connection. Frida's agent then unloads itself
before the thread that runs scripts has come to its loop, and that thread stays for good, or runs on
where no code is any more: the target dies of it (one of a hundred). So the connection ends only
when the target has been running for a while.

The descriptors to keep are inherited.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from ...linux.helper_process import start as start_process
from ..link.standstill import Standstill

LOOK_INTERVAL_S = 0.1
# How many looks in a row must find the target going on. A script is made in less than 0.1 s.
LOOKS = 20


def keep(pid: int, descriptors: Sequence[int]) -> None:
    """Hold descriptors open until a process has been running for a while, then close them.

    Another process does it. Where there is none to be had, this call takes as long.
    """
    try:
        if descriptors:
            start(pid, descriptors)
    except OSError:
        wait_until_it_goes_on(pid)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def start(pid: int, descriptors: Sequence[int]) -> None:
    """Start a process that holds descriptors of ours open.

    Raises:
        OSError: no process can be had.
    """
    if start_process(
        "flametap.inject.frida.connection_keeper", pid, descriptors=descriptors
    ).wait():
        raise OSError("the process that keeps the connection could not start")


def main(pid: int) -> None:
    """Watch over a process, in a process of its own; return at once."""
    if os.fork() == 0:
        wait_until_it_goes_on(pid)


def wait_until_it_goes_on(pid: int) -> None:
    """Return when a process has been running for a while, or is gone."""
    standstill = Standstill(pid, patience=1)
    looks = 0
    while looks < LOOKS:
        time.sleep(LOOK_INTERVAL_S)
        looks = 0 if standstill.lasts() else looks + 1
