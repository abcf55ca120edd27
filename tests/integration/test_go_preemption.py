"""Go preempts a goroutine by a signal, which makes the thread call ``asyncPreempt``.

Where the CPU is shared, that signal and ours are often delivered together. The call has then begun,
but the time before was the goroutine's.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from objects import run
from recording import ENOUGH_CPU_S, record, stacks
from running import Target
from targetbuild import SOURCES

pytestmark = pytest.mark.needs("attach", "go")


def test_preempted_code_keeps_its_time(
    adopt: Callable[[Target], Target],
    require_capability: Callable[[str], str],
    tmp_path: Path,
    seconds: float,
) -> None:
    program = tmp_path / "preempted"
    build = ["env", "GOPROXY=off", "GOTOOLCHAIN=local", f"GOCACHE={tmp_path}/cache"]
    build += [require_capability("go"), "build", "-ldflags=-linkmode=external", "-o", str(program)]
    run([*build, str(SOURCES / "preempted.go")])
    cpu = min(os.sched_getaffinity(0))
    pinned = ["taskset", "-c", str(cpu)]
    neighbour = adopt(Target([*pinned, sys.executable, "-c", "while True: pass"], announces=False))
    target = adopt(Target([*pinned, str(program)]))
    capture = record(target.pid, seconds, cpu_s=ENOUGH_CPU_S)
    assert neighbour.alive
    seen = stacks(capture)
    preempted = seen.where(lambda path: path[-1] == "runtime.asyncPreempt")
    assert seen.share("main.compute") > 0.9, seen.heaviest()
    assert preempted.total < 0.01 * seen.total, seen.heaviest()
