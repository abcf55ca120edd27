"""Record a live process: agent → decoder → profile → symbols.

The command line and the page control a ``Capture``, and read its ``recording``. One thread, the
pump, moves bytes from the ring into the profile 20 times a second and passes new addresses to the
symbolizer, which finds their names in the background.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO

from ..analysis.views import views_of
from ..errors import FlametapError, UsageError
from ..inject.client import InjectorClient
from ..inject.link.endings import END_REASONS
from ..inject.process import InjectorProcess
from ..linux import procfs
from ..linux.child_processes import child_processes
from ..linux.command_line import program_name
from ..model import ChildProcess, Status, Verdict
from ..recording.names.table import SymbolTable
from ..recording.profile.store import Profile
from ..recording.recording import Recording
from ..recording.revision import Revision
from ..symbols.interpreters.found import FoundInterpreter, languages_of
from ..symbols.interpreters.search import Interpreters
from ..symbols.jit.descriptors import Descriptors
from ..symbols.jit.dotnet_port import DotnetPerfMap
from .capture_options import CaptureOptions
from .end_reasons import (
    AGENT_STOP_NOTES,
    AGENT_STOP_REASONS,
    DATA_DAMAGED,
    FINAL_REASONS,
    LAST_THREAD_ENDED,
    STOPPED,
    TARGET_ENDED,
)
from .exit_status import ExitStatus, ExitWatch
from .heartbeat import Heartbeat
from .intake import LATER_S, Intake
from .interpreters import InterpreterWatch
from .keeper import KEPT_S, Keeper, RollingKeeper
from .kernel_check import Comparison
from .kernel_watch import KernelWatch
from .last_thread import only_agents_are_left
from .limits import check_sampling
from .pauses import Pauses
from .rates import Rates
from .signal_notes import signal_notes
from .symbol_servers import client_of
from .thread_names import ThreadNames
from .unattributed import unattributed_notes

if TYPE_CHECKING:
    from ..symbols.symbolizer import Symbolizer

# When a target dies, its pidfd may become readable a moment before Frida reports the reason.
LOOK_S = 0.25  # between two looks whether the target goes on
REASON_WAIT_S = 0.5


class Capture:
    """One recording of one process: ``start``, then ``wait`` or ``stop``, then ``close``.

    Args:
        pid: the process.
        options: how it is recorded.
        injector: the process that attaches to it, if it has been started.

    Attributes:
        recording: what was recorded so far.
        profile: its threads, modules, stacks and intervals.
        names: its functions.
        symbolizer: the source of the names; None before the attach.
        exit_status: of the target, if it ended while attached.
    """

    def __init__(
        self,
        pid: int,
        options: CaptureOptions | None = None,
        injector: InjectorProcess | None = None,
    ) -> None:
        self.pid = pid
        self.options = options or CaptureOptions()
        self._revision = Revision(lambda: self.profile.revision, lambda: self.names.revision)
        self.profile = Profile(self._revision.notify)
        self.names = SymbolTable(self.profile.locate, self._revision.notify)
        self.recording = Recording(self.profile, self.names, self.status, self._revision)
        self._views = views_of(self.recording)
        self.symbolizer: Symbolizer | None = None
        self.command = ""
        self.exit_status: ExitStatus | None = None
        self._session = InjectorClient(pid, self.options.inject, injector)
        self._perf_map = DotnetPerfMap(pid, self.options.enable_perf_map)
        self._target: ExitWatch | None = None
        self._heartbeat: Heartbeat | None = None
        self._interpreters: InterpreterWatch | None = None
        self._thread_names: ThreadNames | None = None
        self._kernel = KernelWatch(pid)
        self._intake = Intake(self.profile, self._look_for_interpreters)
        self._pauses = Pauses()
        self.keeper: Keeper | None = None
        self._state = "attaching"
        self._notes: list[str] = []
        self._started_s = 0.0  # time.time()
        self._ended = threading.Event()
        self._finish_lock = threading.Lock()
        self._stopping = threading.Event()
        self._pump = threading.Thread(target=self._pump_loop, daemon=True, name="flametap-pump")

    @property
    def error(self) -> FlametapError | None:
        """Why the recording ended early; None if it did not."""
        return self._intake.error

    # ------------------------------------------------------------------ life

    def keep_in(self, file: BinaryIO, path: str, *, with_sources: bool = True) -> None:
        """Keep the recording in a file while it is made. To be called before ``start``.

        Args:
            file: open for writing, empty; closed by ``close`` at the latest.
            path: its name, for messages.
            with_sources: False leaves out source texts, and the arguments of the program.
        """
        self.keeper = Keeper(file, path, self.recording, with_sources=with_sources)

    def keep_last(self, folder: str, keep_s: float, *, with_sources: bool = True) -> None:
        """Keep only the last ``keep_s`` seconds, in a folder; see ``keep_in``."""
        self.keeper = RollingKeeper(folder, keep_s, self.recording, with_sources=with_sources)

    def start(self) -> None:
        """Attach and begin to sample.

        Raises:
            FlametapError: the attach failed; the target keeps running.
        """
        self._target = ExitWatch(self.pid)
        with contextlib.suppress(*procfs.GONE):
            self.command = procfs.read_command(self.pid)
        try:
            self._perf_map.enable()
            # It is not needed before sampling has begun, and we wait till then.
            threading.Thread(target=_import_symbolizer, daemon=True).start()
            ring = self._session.attach(self.options.rate_hz)
            self._heartbeat = Heartbeat(ring)
            ring.set_budget(self.options.budget_ppm)
            self._interpreters = InterpreterWatch(
                Interpreters(self.pid, inlines=self.options.inlines),
                self._session.set_recipes,
                self._set_interpreters,
                Descriptors(self.pid).find,
            )
            self._interpreters.start()
            self._thread_names = ThreadNames(
                self.pid,
                self._interpreters.found,
                lambda: frozenset(self.profile.threads),
                self.profile.set_thread_names,
            )
            self._make_symbolizer()
            self._session.start()
            self._thread_names.start()
            self._kernel.begin()
        except BaseException:
            self._session.detach()
            self.exit_status = self._target.status()
            self.close()
            raise
        self._state = "recording"
        self._pump.start()

    def _make_symbolizer(self) -> None:
        from ..code.live_code import LiveCode
        from ..symbols.symbolizer import Symbolizer

        symbolizer = Symbolizer(
            self.names,
            self.pid,
            inlines=self.options.inlines,
            symbol_dirs=self.options.symbol_dirs,
            debuginfod=client_of(self.options.debuginfod_urls),
            names_remedies=self.options.names_remedies,
        )
        self.symbolizer = symbolizer
        self.recording.code = LiveCode(self.profile, symbolizer)
        self._set_interpreters(self.interpreters())

    def _set_interpreters(self, found: Sequence[FoundInterpreter]) -> None:
        if self.symbolizer is not None:
            self.symbolizer.set_interpreters(found)

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the target or of the connection; return False after a timeout."""
        return self._ended.wait(timeout_s)

    def stop(self) -> None:
        """Stop sampling, read the rest of the ring, and detach.

        Idempotent; may also be called after the target's end.
        """
        with self._finish_lock:
            if self._state in ("attaching", "ended"):
                return
            self._end_names()
            self._kernel.end(self.profile)
            self._perf_map.disable()
            note = self._session.stop()
            if note:
                self._notes.append(note)
            self._stopping.set()
            self._session.wake.set()
            self._pump.join()
            self._finish(STOPPED)

    def finish_symbols(self, timeout_s: float) -> bool:
        """Wait until every address has a name; return False after a timeout."""
        if self.symbolizer is None:
            return True
        if self._state == "ended":
            self.symbolizer.hurry()
        return self.symbolizer.wait_idle(timeout_s)

    def close(self) -> None:
        """Stop, and close the ring and all files."""
        self.stop()
        if self._heartbeat is not None:
            # Beat until the agent is unloaded: that may take longer than HOST_SILENCE_NS.
            self._session.detach()
            self._heartbeat.stop()
        self._end_names()
        if self._interpreters is not None:
            self._interpreters.close()
        self._session.close()
        if self.symbolizer is not None:
            self.symbolizer.close()
        self._perf_map.close()
        if self._target is not None:
            self._target.close()
        if self.keeper is not None:
            self.keeper.close()
        self._revision.step()

    def _end_names(self) -> None:
        if self._thread_names is not None:
            self._thread_names.close()

    # ------------------------------------------------------------------ its state, and controls

    def status(self) -> Status:
        """Return state, counters, verdicts and symbols. Cheap enough for several calls a second."""
        symbolizer = self.symbolizer
        # Read this first: once it is true, the revision and the names read below are the last ones.
        is_final = self._state == "ended" and (symbolizer is None or symbolizer.is_idle)
        counters, (handler_p50_ns, handler_p99_ns) = self._intake.figures()
        verdicts = self.profile.verdicts()
        verdict_cpu_ns = verdicts.native
        seen_cpu_ns = sum(verdict_cpu_ns.values()) - verdict_cpu_ns.get(Verdict.NO_STACK.name, 0)
        asked_hz = self.options.rate_hz
        rates = Rates.of(asked_hz, counters, self.profile.cpu_samples, seen_cpu_ns)
        lowered = counters.get("budget_lowered", 0)
        is_named = symbolizer is None or symbolizer.is_idle
        compared = (
            self._kernel.notes(self.profile, self.names, is_final=is_final) if is_named else []
        )
        duration_ns = self.profile.duration_ns
        if duration_ns and not self._started_s:
            self._started_s = time.time() - duration_ns / 1e9
        languages = languages_of(self.interpreters()) if self.profile.has_managed else []
        return Status(
            pid=self.pid,
            command=self.command,
            program=program_name(self.command),
            started_s=self._started_s,
            state=self._state,
            reason=self._session.end_reason,
            engine=rates.engine,
            rate_hz=rates.rate_hz,
            look_rate_hz=rates.look_rate_hz,
            effective_rate_hz=rates.effective_rate_hz,
            asked_rate_hz=asked_hz,
            budget_ppm=self.options.budget_ppm,
            duration_ns=duration_ns,
            paused_ns=self._pauses.until(self.profile.now_ns),
            revision=self._revision.current(),
            samples=self.profile.samples,
            counters=counters,
            handler_p50_ns=handler_p50_ns,
            handler_p99_ns=handler_p99_ns,
            verdict_cpu_ns=verdict_cpu_ns,
            managed_verdict_cpu_ns=verdicts.managed,
            languages=languages,
            has_gil=self.profile.has_lock,
            verdict_modules=verdicts.modules,
            symbols=symbolizer.sources() if symbolizer else [],
            symbols_pending=symbolizer.pending if symbolizer else 0,
            is_final=is_final,
            notes=[
                *self._notes,
                *(self._interpreters.notes if self._interpreters else []),
                *([symbolizer.note] if symbolizer and symbolizer.note else []),
                *rates.notes(asked_hz, self.options.budget_ppm, lowered),
                *signal_notes(counters),
                *unattributed_notes(counters, verdict_cpu_ns, duration_ns),
                *compared,
            ],
        )

    def compare(self) -> Comparison | None:
        """Return the CPU times by the kernel and by us; None if they cannot be compared."""
        return self._kernel.compare(self.profile, self.names)

    def interpreters(self) -> Sequence[FoundInterpreter]:
        """Return the interpreters of the target that are known now."""
        return [] if self._interpreters is None else self._interpreters.found()

    def children(self) -> list[ChildProcess]:
        """Return the processes that the target has started, the busiest first."""
        if self._state == "ended":
            return []
        return [ChildProcess(*each) for each in child_processes(self.pid)]

    def set_paused(self, paused: bool) -> None:
        """Stop taking samples, or resume."""
        if self._state in ("recording", "paused"):
            self._kernel.give_up()
            self._session.set_paused(paused)
            self._pauses.set(paused, self.profile.now_ns)
            self._state = "paused" if paused else "recording"

    def set_sampling(self, rate_hz: float, budget_percent: float) -> None:
        """Sample at another rate, or within another budget; 0 per cent is no limit.

        Raises:
            FlametapError: a number is out of bounds, or the recording has ended.
        """
        rate_hz, budget_ppm = check_sampling(rate_hz, budget_percent)
        ring = self._session.ring
        if self._state not in ("recording", "paused") or ring is None:
            raise UsageError("nothing is being recorded", "the recording has ended")
        ring.set_budget(budget_ppm)
        self._session.set_rate(rate_hz)
        self.options = replace(self.options, rate_hz=rate_hz, budget_ppm=budget_ppm)
        self._revision.step()

    # ------------------------------------------------------------------ the pump

    def _pump_loop(self) -> None:
        assert self._target is not None
        while True:
            is_watched = self._revision.is_awaited()
            most_s = LATER_S if self.keeper is None else KEPT_S
            due_in_s = self._intake.due_in_s(is_watched=is_watched, most_s=most_s)
            self._session.wake.wait(min(max(due_in_s, 0.0), LOOK_S))
            if self._stopping.is_set():
                return
            if self._intake.due_in_s(is_watched=is_watched, most_s=most_s) <= 0:
                self._drain()
                if self.keeper is not None:
                    self.keeper.step()
                self._views.prepare()
                self._kernel.look(self.profile)
            # The main thread of a process that is exiting, or not yet reaped, is a zombie, too.
            threads = self.profile.threads.values()
            if only_agents_are_left(self.pid, threads) and not self._target.has_exited(
                REASON_WAIT_S
            ):
                self._session.stop()
                self._session.end_reason = LAST_THREAD_ENDED
                self._finish(LAST_THREAD_ENDED)
                return
            if (
                self.error is None
                and not self._session.ended.is_set()
                and not self._agent_stop_reason()
                and not self._target.has_exited()
            ):
                continue
            if self.error is not None:
                self._session.end_reason = DATA_DAMAGED
                self._kernel.give_up()
                self._finish(DATA_DAMAGED)
                return
            if reason := self._agent_stop_reason():
                self._session.end_reason = reason
                self._notes.append(AGENT_STOP_NOTES[reason])
                self._kernel.give_up()
                self._finish(reason)
                return
            self._session.ended.wait(REASON_WAIT_S)
            if self._target.has_exited(REASON_WAIT_S):
                self._session.end_reason = TARGET_ENDED
            self._session.ended.set()
            self._finish(self._session.end_reason)
            return

    def _agent_stop_reason(self) -> str:
        """Return why the agent has stopped by itself; "" if it has not."""
        ring = self._session.ring
        if ring is None or not ring.stopped:
            return ""
        return AGENT_STOP_REASONS.get(ring.stop_reason, "")

    def _drain(self) -> None:
        assert self.symbolizer is not None
        if error := self._intake.read(self._session.ring, self.symbolizer):
            self._notes.append(error.message)

    def _look_for_interpreters(self) -> None:
        if self._interpreters is not None:
            self._interpreters.look_again()

    def _finish(self, reason: str) -> None:
        self._drain()
        self._session.detach()
        if self.symbolizer is not None:
            self.symbolizer.look_again()
        assert self._target is not None
        self.exit_status = self._target.status()
        if reason in FINAL_REASONS:
            pass
        elif self.exit_status is not None:
            # A target that dies slowly may first look like a lost connection, or an exec.
            self._session.end_reason = f"the target {self.exit_status}"
        elif self._session.end_reason == TARGET_ENDED and not self._target.has_exited():
            # Frida reports an exec as an exit, but the process still exists.
            self._session.end_reason = END_REASONS["process-replaced"]
        if not self._session.end_reason:
            self._session.end_reason = reason
        self._state = "ended"
        self._revision.step()  # wake the page: the recording has ended
        self._ended.set()


def _import_symbolizer() -> None:
    with contextlib.suppress(ImportError):  # told by who needs it
        from ..symbols import symbolizer  # noqa: F401
