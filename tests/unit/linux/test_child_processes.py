"""The processes below one, and the CPU time that they used."""

from __future__ import annotations

import os
import subprocess
import sys

from flametap.linux.child_processes import child_processes
from running import wait_until

# Starts a shell that starts a program of a strange name, which computes.
PARENT = """
import subprocess, sys, time
subprocess.run([sys.executable, "-c", sys.argv[1]])
"""
CHILD = """
import time
with open("/proc/self/comm", "w") as name:
    name.write(") R 1 (x")
while True:
    pass
"""


def test_child_of_a_child_is_found_with_its_time_whatever_it_is_called() -> None:
    command = [sys.executable, "-c", PARENT, CHILD]
    with subprocess.Popen(command) as parent:
        try:
            # Much more than its parent needs to start.
            wait_until(
                lambda: any(cpu_ns > 10**9 for _, _, cpu_ns in child_processes(parent.pid)),
                "CPU time of the child",
                60,
            )
            ((pid, name, _),) = child_processes(parent.pid)
            assert name == ") R 1 (x"
            found = [each[0] for each in child_processes(os.getpid())]
            assert found.index(pid) < found.index(parent.pid)  # the busiest first
        finally:
            for pid, _, _ in child_processes(parent.pid):
                os.kill(pid, 9)
            parent.kill()


def test_process_that_is_gone_has_none() -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    assert child_processes(gone.pid) == []
