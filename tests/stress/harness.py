"""What a stress scenario is, and what it is given to work with.

A scenario is a function that takes a ``Run``: it starts a target and its load, has flametap record
it, and checks that the target did what it does without us. ``@scenario`` puts it into the
catalogue, under its function's name. What it raises as AssertionError, or tells ``Run.expect``, is
a finding; a run without findings is clean. README.md shows one.
"""

from __future__ import annotations

import contextlib
import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import receipt
from capabilities import find
from running import Target
from tally import Tally
from targetbuild import Builder

RECORDER = Path(__file__).with_name("recorder.py")
# Short against a hang, long enough for a machine with twenty processes for each core.
# From the start of the recorder until it samples: Python, Frida, an attach that is tried twice.
STARTED_S = 180.0
# From the end of the sampling to the end of the recorder: its own deadlines sum up to less.
ENDED_S = 90.0


@dataclass(frozen=True)
class Scenario:
    """One entry of the catalogue."""

    name: str
    run: Callable[[Run], None]
    about: str
    needs: tuple[str, ...]


CATALOGUE: dict[str, Scenario] = {}


def enter(
    name: str,
    run: Callable[[Run], None],
    *,
    about: str,
    needs: tuple[str, ...],
) -> None:
    """Put a scenario into the catalogue. ``@scenario`` does it for a function."""
    assert name not in CATALOGUE, f"two scenarios are called {name}"
    CATALOGUE[name] = Scenario(name, run, about, ("attach", *needs))


def scenario(*needs: str) -> Callable[[Callable[[Run], None]], Callable[[Run], None]]:
    """Put a function into the catalogue.

    Args:
        needs: names from ``tests/support/capabilities.py``; without them it is skipped.
    """

    def decorate(function: Callable[[Run], None]) -> Callable[[Run], None]:
        about = (function.__doc__ or "").strip().splitlines()[0]
        enter(function.__name__.replace("_", "-"), function, about=about, needs=needs)
        return function

    return decorate


@dataclass(frozen=True)
class Outcome:
    """What a recording saw. Seconds are wall time unless said otherwise."""

    exit_code: int  # of the recorder: 0, or negative for a signal
    error: str = ""  # the refusal or the failure, empty if it was recorded
    reason: str = ""  # why it ended
    notes: list[str] = field(default_factory=list)
    duration_s: float = 0.0
    until_s: float = 0.0  # CLOCK_MONOTONIC of the last batch
    samples: int = 0
    threads: int = 0
    counters: dict[str, int] = field(default_factory=dict)
    handler_histogram: list[int] = field(default_factory=list)
    cpu_s: float = 0.0
    complete_cpu_s: float = 0.0
    verdict_cpu_s: dict[str, float] = field(default_factory=dict)
    verdict_modules: dict[str, int] = field(default_factory=dict)
    attach_s: float = 0.0
    stop_s: float = 0.0

    @property
    def recorded(self) -> bool:
        """True if sampling began and nothing went wrong with what came."""
        return not self.error and self.exit_code == 0


class Recording:
    """A recording under way, by ``recorder.py``.

    Args:
        pid: the target.
        seconds: how long to sample.
        rate_hz: how often.
        folder: for its files; emptied by whoever made it.
    """

    def __init__(self, pid: int, seconds: float, rate_hz: float, folder: Path) -> None:
        self._seconds = seconds
        self._result = Path(tempfile.mkstemp(".json", dir=folder)[1])
        self._said = self._result.with_suffix(".out")
        self._complained = self._result.with_suffix(".err")
        arguments = (str(pid), str(seconds), str(rate_hz), str(self._result))
        with self._said.open("w") as said, self._complained.open("w") as complained:
            self.process = subprocess.Popen(
                [sys.executable, str(RECORDER), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=complained,
            )

    @property
    def has_begun(self) -> bool:
        """True once it samples."""
        return "recording" in self._said.read_text()

    def wait_begun(self) -> bool:
        """Wait until it samples; False if it ended before."""
        deadline = time.monotonic() + STARTED_S
        while not self.has_begun:
            if self.process.poll() is not None:
                return self.has_begun
            assert time.monotonic() < deadline, f"the attach takes more than {STARTED_S:g} s"
            time.sleep(0.005)
        return True

    def stop(self) -> None:
        """Ask it to end now. May be called at any time after it has begun."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)

    def outcome(self) -> Outcome:
        """Wait for its end.

        Raises:
            AssertionError: it hangs, and was killed.
        """
        try:
            code = self.process.wait(STARTED_S + self._seconds + ENDED_S)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGUSR1)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(1.0)  # time to print its stacks
            self.kill()
            raise AssertionError(f"the recorder hangs:\n{self._complained.read_text()}") from None
        text = self._result.read_text()
        if not text:
            return Outcome(code, error=f"exit {code}: {self._complained.read_text()[-2000:]}")
        seen: dict[str, Any] = json.loads(text)
        return Outcome(exit_code=code, **seen)

    def kill(self) -> None:
        """Kills it, as the out-of-memory killer would. May be called again."""
        self.process.kill()
        self.process.wait()


class Run:
    """One run of one scenario.

    Args:
        seconds: how long each recording should last.
        builder: for targets in C; may be shared by runs on several threads.
        folder: an empty one, for whatever the scenario writes.
        rate_hz: for all recordings.
        seed: of ``random``, so that a run with random moments can be told to happen again.
    """

    _building = threading.Lock()

    def __init__(
        self, seconds: float, builder: Builder, folder: Path, *, rate_hz: float, seed: int
    ) -> None:
        self.seconds = seconds
        self.rate_hz = rate_hz
        self.folder = folder
        self.random = random.Random(seed)
        self.builder = builder
        self.tally = Tally()
        self.findings: list[str] = []
        self.facts: dict[str, float] = {}
        self._failures = 0
        self._cleanups = contextlib.ExitStack()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanups.close()

    # ------------------------------------------------------------------ programs

    def program(self, name: str, variant: str = "") -> Path:
        """The compiled target ``name``."""
        with self._building:
            return self.builder.program(name, variant)

    def go_program(self, name: str) -> Path:
        """The target ``name`` in Go, static."""
        with self._building:
            return self.builder.go_program(name, "static", self.capability("go"))

    def java_class(self, name: str) -> Path:
        """The folder with the compiled class ``name``."""
        with self._building:
            return self.builder.java_class(name)

    def start(
        self,
        argv: Sequence[str | Path],
        *,
        announces: bool = False,
        cwd: Path | None = None,
        stdin: int | IO[bytes] | None = subprocess.PIPE,
    ) -> Target:
        """Start a program of others; it ends with the run. ``announces``: it prints ``ready``."""
        target = Target(argv, announces=announces, cwd=cwd, stdin=stdin)
        self._cleanups.callback(target.close)
        return target

    def target(self, name: str, *arguments: str, variant: str = "") -> Target:
        """Build and start one of ``tests/targets`` and wait until it is ready."""
        return self.start([self.program(name, variant), *arguments], announces=True)

    def at_end(self, call: Callable[[], object]) -> None:
        """Has something called when the run is over, the last one first."""
        self._cleanups.callback(call)

    def capability(self, name: str) -> str:
        """The path of a program that the scenario named among its needs."""
        path = find(name)
        assert path, f"{name} is not here, and not among the scenario's needs"
        return path

    # ------------------------------------------------------------------ recordings

    def begin(self, pid: int, seconds: float | None = None) -> Recording:
        """Start a recording and return at once; ``collect`` its outcome."""
        recording = Recording(
            pid, self.seconds if seconds is None else seconds, self.rate_hz, self.folder
        )
        self._cleanups.callback(recording.kill)
        return recording

    def collect(self, recording: Recording) -> Outcome:
        """Wait for the end of a recording and add what it saw to the table. That it failed, and
        each EINTR it could not repair, is a finding."""
        outcome = self.collect_any(recording)
        if not outcome.recorded:
            self._failures += 1
            self.findings.append(f"no recording: {outcome.error} (exit {outcome.exit_code})")
        return outcome

    def collect_any(self, recording: Recording) -> Outcome:
        """The same for a recording that may fail, because its target ends during the attach, say.
        It still may neither crash nor hang."""
        outcome = recording.outcome()
        self.tally.add(
            duration_s=outcome.duration_s,
            samples=outcome.samples,
            counters=outcome.counters,
            histogram=outcome.handler_histogram,
            attach_s=outcome.attach_s,
            stop_s=outcome.stop_s,
            cpu_s=outcome.cpu_s,
            complete_cpu_s=outcome.complete_cpu_s,
        )
        self.expect(outcome.exit_code == 0, f"the recorder crashed: {outcome.error}")
        return outcome

    def record(
        self,
        pid: int,
        seconds: float | None = None,
        *,
        attaches: int = 1,
        has_jit: bool = False,
        own_threads: str = "",
        ignore: Callable[[str], bool] = lambda line: False,
    ) -> Outcome:
        """A whole recording, and the no-harm receipt before and after it.

        Args:
            pid: the target; has to outlive it.
            seconds: how long; the run's when None.
            attaches, has_jit, own_threads: see ``receipt.harm``.
            ignore: true for lines of harm that the target does to itself all the time.
        """
        with self.unharmed(
            pid, attaches=attaches, has_jit=has_jit, own_threads=own_threads, ignore=ignore
        ):
            return self.collect(self.begin(pid, seconds))

    @contextlib.contextmanager
    def unharmed(
        self,
        pid: int,
        *,
        attaches: int = 1,
        was_killed: bool = False,
        has_jit: bool = False,
        own_threads: str = "",
        ignore: Callable[[str], bool] = lambda line: False,
    ) -> Iterator[None]:
        """Compares the no-harm receipts around the block; each difference is a finding."""
        before = receipt.take_at_rest(pid)
        failures = self._failures
        yield
        try:
            found = receipt.harm_after_settling(
                pid,
                before,
                timeout_s=10.0 if was_killed else 6.0,
                attaches=attaches,
                # An attach that fails may leave the loader's memory to a thread that is in it.
                was_killed=was_killed or self._failures > failures,
                has_jit=has_jit,
                own_threads=own_threads,
            )
        except (FileNotFoundError, ProcessLookupError):  # also while it is a zombie
            self.findings.append(f"the target {pid} is gone")
            return
        self.findings += [f"harm: {line}" for line in found if not ignore(line)]

    # ------------------------------------------------------------------ verdict

    def expect(self, holds: object, finding: str) -> bool:
        """Notes a finding unless ``holds``, and goes on."""
        if not holds:
            self.findings.append(finding)
        return bool(holds)

    def fact(self, name: str, value: float) -> None:
        """A figure for the report: the largest one given under a name is kept."""
        self.facts[name] = max(value, self.facts.get(name, value))
