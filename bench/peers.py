"""The profilers that are compared: start each on a process, watch it, and stop it.

``PEERS`` has one entry for each profiler and set of options. A peer that is not installed says so
in ``missing`` and is reported as missing; this is not an error.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import usage
from flametap.capture.capture_options import BUDGET_PPM
from programs import Program

HERE = Path(__file__).resolve().parent
READY_TIMEOUT_S = 120.0  # with 300 busy threads on two CPUs an attach takes a minute
STOP_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Usage:
    """A profiler's resource usage since its start. The difference of two is a window's cost."""

    host_cpu_ns: int
    target_cpu_ns: int = 0  # by a thread of its own inside the target
    rss_kb: int = 0
    rounds: int = 0  # how often it has sampled the target, 0 if unknown
    status: dict[str, Any] = field(default_factory=dict)  # flametap's own figures


@dataclass(frozen=True)
class Outcome:
    """The result of a profile. ``samples`` is 0 and ``note`` is set if it failed."""

    output: Path
    samples: int = 0
    note: str = ""
    errors_percent: float | None = None  # of its samples, as it counts them itself
    status: dict[str, Any] = field(default_factory=dict)


class Flametap:
    """flametap, run by ``host.py``."""

    def __init__(self, pid: int, rate_hz: float, output: Path, options: tuple[str, ...]) -> None:
        self._output = output
        command = [sys.executable, str(HERE / "host.py"), str(pid), str(rate_hz), str(output)]
        command += options
        self._host = Program(command, READY_TIMEOUT_S)

    def mark(self) -> Usage:
        """Return the usage so far."""
        status = json.loads(self._host.ask())
        counters = status["counters"]
        return Usage(
            usage.cpu_ns(self._host.pid),
            counters.get("sampler_cpu_ns", 0),
            usage.status_kb(self._host.pid, "VmRSS"),
            counters.get("ticks", 0),
            status,
        )

    def stop(self) -> Outcome:
        """Stop and detach; returns when the output is complete."""
        lines = self._host.finish().splitlines()
        status = json.loads(lines[-1]) if lines else {}
        return Outcome(
            self._output,
            status.get("samples", 0),
            "; ".join(status.get("notes", [])),
            status.get("errors_percent"),
            status,
        )


class Recorder:
    """A profiler command that runs until SIGINT and then writes a file.

    Args:
        command: what to run.
        output: the file that it writes.
        samples: pattern of the number of samples in what it prints.
        errors: pattern of the number of errors there.
        is_percentage: what that finds is a percentage of the samples.
    """

    def __init__(
        self,
        command: list[str],
        output: Path,
        samples: str,
        errors: str = "",
        is_percentage: bool = False,
    ) -> None:
        self._output = output
        self._samples, self._errors, self._is_percentage = samples, errors, is_percentage
        self._log = output.with_suffix(".log").open("w+")
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log
        )

    def mark(self) -> Usage:
        pid = self._process.pid
        if self._process.poll() is not None:
            raise RuntimeError(self._failure())
        return Usage(usage.cpu_ns(pid), 0, usage.status_kb(pid, "VmRSS"))

    def stop(self) -> Outcome:
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        text = self._text()
        self._log.close()
        found = re.search(self._samples, text)
        if not self._output.exists():
            return Outcome(self._output, note=text.strip()[-200:] or "no output")
        samples = int(found.group(1)) if found else 0
        return Outcome(self._output, samples, errors_percent=self._errors_percent(text, samples))

    def _errors_percent(self, text: str, samples: int) -> float | None:
        found = re.search(self._errors, text) if self._errors else None
        if found is None:
            return None
        number = float(found.group(1))
        return number if self._is_percentage else 100 * number / max(1, samples)

    def wait_for(self, is_ready: Callable[[], bool]) -> None:
        """Wait until it samples; return without an error if that cannot be detected."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < deadline and self._process.poll() is None and not is_ready():
            time.sleep(0.02)

    def says(self, word: str) -> bool:
        return word in self._text()

    def holds(self, what: str) -> bool:
        """Return True if one of its descriptors is ``what``."""
        folder = f"/proc/{self._process.pid}/fd"
        try:
            return any(what in os.readlink(f"{folder}/{fd}") for fd in os.listdir(folder))
        except OSError:
            return False

    def _text(self) -> str:
        self._log.flush()
        return Path(self._log.name).read_text(errors="replace")

    def _failure(self) -> str:
        return f"ended by itself: {self._text().strip()[-200:]}"


class DumpLoop:
    """A command that prints the stacks of all threads once, in a loop: each run is a sample."""

    def __init__(self, command: list[str], output: Path) -> None:
        self._command, self._output = command, output
        self._stopping = threading.Event()
        self._cpu_ns = self._rounds = self._failures = self._running_pid = 0
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._thread.start()

    def _loop(self) -> None:
        while not self._stopping.is_set():
            with self._output.open("w") as output:
                process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.DEVNULL,
                )
                self._running_pid = process.pid
                _, status, used = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)  # waited for above
                self._running_pid = 0
            self._cpu_ns += int((used.ru_utime + used.ru_stime) * 1e9)
            self._rounds += 1
            self._failures += process.returncode != 0

    def mark(self) -> Usage:
        running = usage.cpu_ns(self._running_pid) if self._running_pid else 0
        return Usage(self._cpu_ns + running, rounds=self._rounds)

    def stop(self) -> Outcome:
        self._stopping.set()
        self._thread.join(STOP_TIMEOUT_S)
        errors_percent = 100 * self._failures / max(1, self._rounds)
        return Outcome(self._output, self._rounds, errors_percent=errors_percent)


Running = Flametap | Recorder | DumpLoop


def _start_gdb(pid: int, _rate_hz: float, output: Path, _options: tuple[str, ...]) -> Running:
    command = ["gdb", "-q", "-nx", "-p", str(pid), "-batch"]
    command += ["-ex", "set debuginfod enabled off", "-ex", "thread apply all bt"]
    return DumpLoop(command, output)


def _start_py_spy_dump(
    pid: int, _rate_hz: float, output: Path, options: tuple[str, ...]
) -> Running:
    return DumpLoop([_find("py-spy"), "dump", "-p", str(pid), *options], output)


def _start_py_spy(pid: int, rate_hz: float, output: Path, options: tuple[str, ...]) -> Running:
    command = [_find("py-spy"), "record", "-p", str(pid), "-r", f"{rate_hz:.0f}", "-d", "3600"]
    command += ["-f", "raw", "-o", str(output), *options]
    recorder = Recorder(command, output, r"Samples: (\d+)", r"Errors: (\d+)")
    recorder.wait_for(lambda: recorder.says("Sampling process"))
    return recorder


def _start_perf(pid: int, rate_hz: float, output: Path, options: tuple[str, ...]) -> Running:
    command = ["perf", "record", "-e", "cpu-clock", "-F", f"{rate_hz:.0f}", *options]
    command += ["-o", str(output)] if "-a" in options else ["-p", str(pid), "-o", str(output)]
    recorder = Recorder(command, output, r"\((\d+) samples\)")
    recorder.wait_for(lambda: recorder.holds("perf_event"))
    return recorder


def _start_austin(pid: int, rate_hz: float, output: Path, options: tuple[str, ...]) -> Running:
    interval_us = round(1e6 / rate_hz)
    command = [_find("austin"), "-i", str(interval_us), "-p", str(pid), "-o", str(output), *options]
    recorder = Recorder(command, output, r"Error rate.*?\d+/(\d+)", r"Error rate.*?(\d+)/")
    recorder.wait_for(lambda: recorder.says("version"))
    return recorder


TACHYON_NAME = "Tachyon"


def tachyon(python: str) -> Peer:
    """Return Python's own sampling profiler (3.15), which needs the Python of its target.

    Args:
        python: the command.
    """

    def start(pid: int, rate_hz: float, output: Path, options: tuple[str, ...]) -> Running:
        command = [python, "-u", "-m", "profiling.sampling", "attach", "-r", f"{rate_hz:.0f}"]
        command += ["-a", "--realtime-stats", *options, "--collapsed", "-o", str(output), str(pid)]
        recorder = Recorder(command, output, r"Captured (\d+)", r"Error rate: ([\d.]+)", True)
        recorder.wait_for(lambda: recorder.says("Stats:"))
        return recorder

    return Peer(TACHYON_NAME, python, start, python_only=True)


def _find(program: str) -> str:
    """Return the path of a program, beside this Python or in PATH; "" if it is missing."""
    beside = Path(sys.executable).parent / program
    return str(beside) if beside.exists() else shutil.which(program) or ""


@dataclass(frozen=True)
class Peer:
    """A profiler with a set of options."""

    name: str
    program: str  # what must be installed; "" for flametap
    start: Callable[[int, float, Path, tuple[str, ...]], Running]
    options: tuple[str, ...] = ()
    python_only: bool = False
    has_rate: bool = True

    @property
    def missing(self) -> bool:
        return bool(self.program) and not _find(self.program)


FLAMETAP = Peer("flametap", "", Flametap)
FLAMETAP_IN_BUDGET = Peer("flametap, default budget", "", Flametap, (str(BUDGET_PPM),))
PERF_FLAT = Peer("perf", "perf", _start_perf)  # leaves only
# For all processes: the timer then belongs to the CPU. The timer of one process is set again at
# every context switch, which doubles the CPU time of a server of short requests in a VM.
PERF_ALL = Peer("perf -a", "perf", _start_perf, ("-a",))
PERF_FP = Peer("perf -g fp", "perf", _start_perf, ("-g",))
PERF_DWARF = Peer("perf dwarf", "perf", _start_perf, ("--call-graph", "dwarf"))
PY_SPY = Peer("py-spy", "py-spy", _start_py_spy, python_only=True)
PY_SPY_NATIVE = Peer("py-spy --native", "py-spy", _start_py_spy, ("--native",), python_only=True)
PY_SPY_FREE = Peer(
    "py-spy --nonblocking", "py-spy", _start_py_spy, ("--nonblocking",), python_only=True
)
AUSTIN = Peer("austin", "austin", _start_austin, python_only=True)
PY_SPY_DUMP = Peer(
    "py-spy dump in a loop", "py-spy", _start_py_spy_dump, python_only=True, has_rate=False
)
GDB = Peer("gdb in a loop", "gdb", _start_gdb, has_rate=False)

# Tables have the same order.
FOR_ALL = (FLAMETAP, PERF_FP, PERF_DWARF, GDB)
FOR_PYTHON = (
    FLAMETAP,
    PERF_FP,
    PY_SPY,
    PY_SPY_NATIVE,
    PY_SPY_FREE,
    AUSTIN,
    GDB,
)
ALL = (*FOR_ALL[:-1], *(peer for peer in FOR_PYTHON if peer not in FOR_ALL), PY_SPY_DUMP, GDB)
