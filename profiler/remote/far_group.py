"""Recordings on several machines, as the command line and the page control one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..capture.keeper import Kept
from ..errors import FlametapError
from ..linux.boot import boot_id
from ..model import ChildProcess, Process, Status
from ..recording.figures import duration
from ..recording.merge.joined import Joined
from .far_capture import FarCapture
from .offset import Offset

STEP_S = 0.1


class FarGroup(Kept):
    """See the module; its methods are those of ``FarCapture``.

    Args:
        captures: of each machine, at least one; none has begun.
        errors: why others cannot be recorded.

    Attributes:
        pid: of the first process.
        command: what it runs.
        program: the name of its program.
        host: where it runs.
        recording: what has come so far, of all.
        profile: its threads, modules, stacks and intervals.
    """

    def __init__(
        self, captures: Sequence[FarCapture], errors: Sequence[FlametapError] = ()
    ) -> None:
        self._captures, self._errors = list(captures), list(errors)
        first = self._captures[0]
        self.pid, self.command, self.program = first.pid, first.command, first.program
        self.host, self.exit_status = first.host, None
        for each in self._captures:
            each.measure_clock()
        self._joined = Joined(
            [
                (each.recording, _process_of(each), _shift_ns(each, self._captures))
                for each in self._captures
            ],
            [*_notes(self._captures), *(each.message for each in errors)],
        )
        self.recording = self._joined.recording
        self.profile = self.recording.profile
        self._is_closing = threading.Event()
        self._pump = threading.Thread(target=self._run, name="flametap-join", daemon=True)

    @property
    def error(self) -> FlametapError | None:
        """Why one of them could not be recorded, or ended early; None if none did."""
        ended = [each.error for each in self._captures if each.error is not None]
        return next(iter([*self._errors, *ended]), None)

    # ------------------------------------------------------------------ life

    def start(self, on_sampling: Callable[[], None] = lambda: None) -> None:
        """Let all begin, at once. Raises FlametapError if none does."""
        with ThreadPoolExecutor(len(self._captures)) as pool:
            failures = list(pool.map(_started, self._captures))
        begun = [each for each, why in zip(self._captures, failures, strict=True) if why is None]
        self._errors += [why for why in failures if why is not None]
        if not begun:
            raise self._errors[-1]
        self._captures = begun  # the others are closed
        on_sampling()
        self._pump.start()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of all; return False after a timeout."""
        return _all_within(timeout_s, [each.wait for each in self._captures])

    def stop(self) -> None:
        """Let all end. Idempotent."""
        for each in self._captures:
            each.stop()

    def finish_symbols(self, timeout_s: float) -> bool:
        """Wait until all has come, with its names; return False after a timeout."""
        if not _all_within(timeout_s, [each.finish_symbols for each in self._captures]):
            return False
        self._joined.finish()
        return True

    def what_is_left(self) -> str:
        """Say what ``finish_symbols`` waits for."""
        hosts = [each.host for each in self._captures if not each.finish_symbols(0)]
        return f"fetching the last samples and names from {', '.join(dict.fromkeys(hosts))}"

    def close(self) -> None:
        """End all, and the connections. Idempotent."""
        self.stop()
        for each in self._captures:
            each.close()
        self._is_closing.set()
        if self._pump.is_alive():
            self._pump.join()
        self._joined.finish()
        if self.keeper is not None:
            self.keeper.close()

    def _run(self) -> None:
        while not self._is_closing.wait(STEP_S):
            for each in self._captures:
                if each.wait(0):  # the others go on
                    each.finish_symbols(0)
            self._joined.step()
            if self.keeper is not None:
                self.keeper.step()

    # ------------------------------------------------------------------ its state, and controls

    def status(self) -> Status:
        """Return the state of all."""
        return self._joined.status()

    def children(self) -> list[ChildProcess]:
        """Return nothing: a process id alone does not say on which machine it is."""
        return []

    def set_paused(self, paused: bool) -> None:
        """Stop taking samples, or resume. Raises FlametapError."""
        self._each(lambda capture: capture.set_paused(paused))

    def set_sampling(self, rate_hz: float, budget_percent: float) -> None:
        """Sample at another rate, or within another budget. Raises FlametapError."""
        self._each(lambda capture: capture.set_sampling(rate_hz, budget_percent))

    def interpreters(self) -> list[Any]:
        """Return nothing: interpreters are looked at there."""
        return []

    def _each(self, work: Callable[[FarCapture], None]) -> None:
        errors: list[FlametapError] = []
        for each in self._captures:
            if not each.wait(0):
                try:
                    work(each)
                except FlametapError as error:
                    errors.append(error)
        if errors:
            raise errors[0]


def _started(capture: FarCapture) -> FlametapError | None:
    try:
        capture.start()
    except FlametapError as error:
        return error
    return None


def _all_within(timeout_s: float, waits: Sequence[Callable[[float], bool]]) -> bool:
    until_s = time.monotonic() + timeout_s
    return all(wait(max(0.0, until_s - time.monotonic())) for wait in waits)


def _process_of(capture: FarCapture) -> Process:
    return Process(0, capture.pid, capture.program, capture.command, host=capture.host)


def _shift_ns(capture: FarCapture, among: Sequence[FarCapture]) -> int:
    """Return what is added to its times: the same for all containers of one machine."""
    if _is_here(capture):
        return 0
    return min(_with_clock_of(capture, among), key=lambda each: each.error_ns).shift_ns


def _notes(captures: Sequence[FarCapture]) -> list[str]:
    """Say how certain it is what happened at the same time on several machines."""
    notes = []
    for each in captures:
        if _is_here(each):
            continue
        best = min(_with_clock_of(each, captures), key=lambda each: each.error_ns)
        if best.n_answers:
            error = duration(best.error_ns / 1e9)
            notes.append(f"times of {each.host} are certain within ± {error}")
        else:
            notes.append(f"the clock of {each.host} could not be read: its times may be wrong")
    return notes


def _with_clock_of(capture: FarCapture, among: Sequence[FarCapture]) -> list[Offset]:
    """Return what is known of a machine's clock."""
    same = [each for each in among if each is capture or (each.boot and each.boot == capture.boot)]
    return [each.offset for each in same]


def _is_here(capture: FarCapture) -> bool:
    """Return True if it is this machine, where all processes have one clock."""
    return bool(capture.boot) and capture.boot == boot_id()
