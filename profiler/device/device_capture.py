"""A recording of a process on a device, as the command line and the page control one made here."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..capture.keeper import KEPT_S, Kept
from ..errors import AttachFailedError, FlametapError, InputError, UsageError
from ..model import LOOKS, ChildProcess, Process, Status
from ..recording.names.table import SymbolTable
from ..recording.profile.store import Profile
from ..recording.recording import Recording, machine, with_sums
from ..recording.revision import Revision
from .batches import Batches
from .connect import Where, find_process, open_device, quiet_stdout
from .far_agent import LOST, FarAgent, period_us
from .images import image_facts
from .looks import DeviceLies, address_of, look_of, modules_of, names_of
from .names import DeviceNames

LEAST_HZ, MOST_HZ = 1.0, 100.0
FIRST_S = 30.0  # until the first look
SILENT_S = 20.0  # between two
MAX_WAITING = 1 << 7  # looks that came, and were not read
_KNOWS_LESS = (
    "a device tells no CPU time and no cause of a wait: CPU time is the time in which a thread was"
    " seen running, or waiting for a CPU"
)
_SILENT = f"nothing has come for {SILENT_S:.0f} s: the process is stopped, or the line is dead"
_LINUX = "on Linux, flametap there knows more, and disturbs less: `--via 'ssh host'`"


class DeviceCapture(Kept):
    """See the module; its methods are those of ``capture.live.Capture``.

    Args:
        where: the device.
        words: the process there: its id or its name.
        rate_hz: how often all threads are looked at; 100 times a second at most.
        symbol_dirs: folders with symbol files, dSYM bundles and libraries.
        inlines: whether inlined functions become frames.
        say: called with what the user should know.

    Attributes:
        pid: of the process, there.
        program: its name.
        host: the device.
        recording: what was recorded.
        profile: its threads, modules, stacks and intervals.
        error: why it ended early; None if it did not.

    Raises:
        FlametapError: nothing can be recorded there.
    """

    def __init__(
        self,
        where: Where,
        words: str,
        *,
        rate_hz: float,
        symbol_dirs: tuple[str, ...] = (),
        inlines: bool = True,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._say = say
        self._rate_hz = min(max(rate_hz, LEAST_HZ), MOST_HZ)
        if self._rate_hz < rate_hz:
            say(f"warning: a device is looked at {MOST_HZ:.0f} times a second at most")
        self._changes = Revision(lambda: self.profile.revision, lambda: self._names.revision)
        self.profile = Profile(on_change=self._changes.notify)
        self._names = SymbolTable(self.profile.locate)
        self.error: FlametapError | None = None
        self.exit_status = None
        self._state, self._reason = "attaching", ""
        self._started_s = 0.0
        self._lost = self._n_looks = 0
        self._messages: queue.Queue[tuple[dict[str, Any], bytes, int] | None] = queue.Queue()
        self._begun, self._ended = threading.Event(), threading.Event()
        self._is_closed = False
        with quiet_stdout():
            device = open_device(where)
            self.pid, self.program = find_process(device, words, where)
            self._agent = FarAgent(device, self.pid, where, self._arrived, self._detached)
        about = self._agent.about
        self.command = str(about.get("path") or self.program)
        self.host = str(getattr(device, "name", "") or where)
        system = str(about.get("platform", ""))
        if system == "linux":
            say(f"warning: {_LINUX}")
        found = {**machine(), "host": self.host, "system": system}
        found["machine"] = str(about.get("arch", ""))
        self.recording = Recording(self.profile, self._names, self.status, self._changes, found)
        self.profile.add_process(Process(0, self.pid, self.program, self.command))
        self._batches = Batches(lambda base: image_facts(self._agent.read, base))
        self._batches.period_ns = 1000 * period_us(self._rate_hz)
        self._by_files = DeviceNames(
            *(self._names, self.profile, symbol_dirs, self._agent.names), inlines=inlines
        )
        self._pump = threading.Thread(target=self._run, name="flametap-looks", daemon=True)

    # ------------------------------------------------------------------ life

    def start(self, on_sampling: Callable[[], None] = lambda: None) -> None:
        """Begin to look. Raises FlametapError."""
        self._started_s = time.time()
        self._pump.start()
        self._agent.begin(period_us(self._rate_hz))
        if not self._begun.wait(FIRST_S) or self.error is not None:
            raise self.error or AttachFailedError(
                f"{self.host} sends nothing of process {self.pid}", "try again, or another process"
            )
        if not self._ended.is_set():
            self._state = "recording"
        on_sampling()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end; return False after a timeout."""
        return self._ended.wait(timeout_s)

    def stop(self) -> None:
        """Leave the process. Idempotent."""
        if not self._ended.is_set():
            self._finish("stopped")

    def finish_symbols(self, timeout_s: float) -> bool:
        """Wait for all names; return False after a timeout."""
        if not self._by_files.finish(timeout_s):
            return False
        self._agent.end()
        return True

    def what_is_left(self) -> str:
        """Say what ``finish_symbols`` waits for."""
        return f"naming {self._by_files.pending} addresses"

    def close(self) -> None:
        """End it, and leave the process. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        self.stop()
        self._messages.put(None)
        if self._pump.is_alive():
            self._pump.join()
        self._agent.end()
        self._by_files.close()
        if self.keeper is not None:
            self.keeper.close()

    def _finish(self, reason: str) -> None:
        self._reason, self._state = reason, "ended"
        if reason == "stopped":
            self._ask(lambda: self._agent.set_paused(paused=True))
        else:
            self._by_files.stop_asking()
        self._ended.set()
        self._begun.set()
        self._changes.step()

    # ------------------------------------------------------------------ what comes

    def _arrived(self, message: dict[str, Any], data: bytes) -> None:
        if self._messages.qsize() < MAX_WAITING or message.get("kind") != "look":
            self._messages.put((message, data, time.monotonic_ns()))
        else:
            self._lost += 1

    def _detached(self, reason: str) -> None:
        if self._ended.is_set():
            return
        if reason in (LOST, _SILENT):
            self.error = InputError(f"{reason}; what came before is kept", "record again")
        self._finish(reason)

    def _run(self) -> None:
        kept_s, heard_s = 0.0, time.monotonic()
        while True:
            try:
                entry = self._messages.get(timeout=1.0)
            except queue.Empty:
                if self._state != "recording":
                    heard_s = time.monotonic()
                elif time.monotonic() > heard_s + SILENT_S:
                    self._detached(_SILENT)
                continue
            if entry is None:
                return
            heard_s = time.monotonic()
            if self._ended.is_set():
                continue
            try:
                self._take(*entry)
            except DeviceLies as error:
                self.error = error
                self._finish(error.message)
            except Exception as error:  # whatever a device sends
                self.error = DeviceLies(f"what makes no sense ({type(error).__name__})")
                self._finish(self.error.message)
            if self.keeper is not None and time.monotonic() > kept_s + KEPT_S:
                kept_s = time.monotonic()
                self.keeper.step()

    def _take(self, message: dict[str, Any], data: bytes, arrived_ns: int) -> None:
        kind = message.get("kind")
        if kind == "modules":
            gone = message.get("gone")
            bases = [address_of(each) for each in gone] if isinstance(gone, list) else []
            self._batches.load(modules_of(message.get("found")), bases)
        elif kind == "look":
            look = look_of(data)
            batch = self._batches.batch(look, names_of(message.get("threads")), arrived_ns)
            for update in batch.modules:
                if not update.gone:
                    self._by_files.add_module(update.module)
            self.profile.apply(batch)
            self._n_looks += 1
            self._lost = max(self._lost, look.lost)
            if len(batch.intervals):
                self._begun.set()
        elif kind == "error":
            text = " ".join(str(message.get("text")).split())[:200]
            self.error = self.error or AttachFailedError(
                f"{self.host}: the agent fails: {text}", ""
            )
            self._finish(self.error.message)

    # ------------------------------------------------------------------ its state, and controls

    def status(self) -> Status:
        """Return state, counters, verdicts and symbols."""
        is_over = self._ended.is_set()
        lasted_s = max(self.profile.duration_ns / 1e9, 1e-9)
        notes = [_KNOWS_LESS]
        if self._lost:
            notes.append(f"{self._lost:,} looks were lost: the line to the device is too slow")
        status = Status(
            self.pid,
            self.command,
            self._state,
            program=self.program,
            started_s=self._started_s,
            reason=self._reason,
            engine=LOOKS,
            rate_hz=self._rate_hz,
            asked_rate_hz=self._rate_hz,
            look_rate_hz=self._rate_hz,
            effective_rate_hz=min(self._rate_hz, self._n_looks / lasted_s),
            revision=self._changes.current(),
            counters={"gap_ns": self._batches.gap_ns} if self._batches.gap_ns else {},
            symbols=self._by_files.sources(),
            symbols_pending=self._by_files.pending,
            host=self.host,
            notes=notes,
        )
        is_final = is_over and not status.symbols_pending
        return replace(with_sums(status, self.profile), is_final=is_final)

    def children(self) -> list[ChildProcess]:
        """Return nothing: a device does not tell them."""
        return []

    def interpreters(self) -> list[Any]:
        """Return nothing: interpreters are not looked at there."""
        return []

    def set_paused(self, paused: bool) -> None:
        """Look no more, or again."""
        if self._ended.is_set():
            return
        self._ask(lambda: self._agent.set_paused(paused=paused))
        self._batches.pause()
        self._state = "paused" if paused else "recording"
        self._changes.step()

    def set_sampling(self, rate_hz: float, budget_percent: float) -> None:
        """Look at another rate. Raises UsageError."""
        if self._ended.is_set():
            raise UsageError("nothing is being recorded", "the recording has ended")
        if not LEAST_HZ <= rate_hz <= MOST_HZ:
            raise UsageError(f"a device is looked at 1 to {MOST_HZ:.0f} times a second", "")
        self._ask(lambda: self._agent.set_period(period_us(rate_hz)))
        self._rate_hz = rate_hz
        self._batches.period_ns = 1000 * period_us(rate_hz)
        self._changes.step()

    def _ask(self, call: Callable[[], None]) -> None:
        if self._ended.is_set():
            return
        try:
            call()
        except Exception as error:  # the device is gone: its session says so, too
            self._say(f"{self.host} does not answer: {' '.join(str(error).split())}")
