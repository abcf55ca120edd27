"""Record live processes: agents → decoders → one profile → symbols.

The command line and the page control a ``Capture``, and read its ``recording``. One thread, the
pump, moves bytes from the rings into the profile 20 times a second and passes new addresses to the
symbolizers, which find their names in the background.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from ..analysis.views import views_of
from ..errors import FlametapError, UsageError
from ..inject.client import InjectorClient
from ..inject.nursery import Nursery
from ..inject.process import InjectorProcess
from ..linux import procfs
from ..linux.child_processes import child_processes
from ..linux.command_line import program_name
from ..model import ChildProcess, Status, Verdict
from ..recording.counters import summed
from ..recording.names.table import SymbolTable
from ..recording.numbers import Numbers
from ..recording.profile.store import Profile
from ..recording.recording import Recording
from ..recording.revision import Revision
from ..symbols.interpreters.found import FoundInterpreter, languages_of
from .attached import Attached
from .capture_options import CaptureOptions
from .exit_status import ExitStatus
from .group import Group
from .intake import LATER_S
from .keeper import KEPT_S, Kept
from .kernel_check import Comparison
from .limits import check_sampling
from .pauses import Pauses
from .rates import Rates
from .shared import Shared
from .signal_notes import signal_notes
from .unattributed import unattributed_notes

LOOK_S = 0.25  # between two looks whether the targets go on …
DOUBT_LOOK_S = 0.02  # … and while one seems to have ended
GATHER_S = 0.04  # processes whose readings are so close are read together


class Capture(Kept):
    """One recording: ``start``, then ``wait`` or ``stop``, then ``close``.

    Args:
        pid: the process that it begins with.
        options: how it is recorded.
        injector: the process that attaches to it, if it has been started.
        nursery: starts those that attach to others.

    Attributes:
        recording: what was recorded so far.
        profile: its threads, modules, stacks and intervals.
        names: its functions.
        symbolizers: the sources of the names; there are none before the attach.
    """

    def __init__(
        self,
        pid: int,
        options: CaptureOptions | None = None,
        injector: InjectorProcess | None = None,
        nursery: Nursery | None = None,
    ) -> None:
        self.pid = pid
        self.options = options or CaptureOptions()
        self._revision = Revision(lambda: self.profile.revision, lambda: self.names.revision)
        self.profile = Profile(self._revision.notify)
        self.names = SymbolTable(self.profile.locate, self._revision.notify)
        self.recording = Recording(self.profile, self.names, self.status, self._revision)
        self._views = views_of(self.recording)
        self._wake = threading.Event()
        shared = Shared(self.profile, self.names, Numbers(), self._wake)
        self.symbolizers = shared.symbolizers
        self._group = Group(pid, shared, self.options, injector, nursery)
        self._pauses = Pauses()
        self._state = "attaching"
        self._started_s = 0.0  # time.time()
        self._ended = threading.Event()
        self._finish_lock = threading.Lock()
        self._stopping = threading.Event()
        self._pump = threading.Thread(target=self._pump_loop, daemon=True, name="flametap-pump")

    @property
    def error(self) -> FlametapError | None:
        """Why the recording of a process ended early; None if none did."""
        errors = (each.intake.error for each in self._group.all)
        return next((each for each in errors if each is not None), None)

    @property
    def command(self) -> str:
        """The command line of the process; of the program that it runs now."""
        return self._group.main.command

    @property
    def program(self) -> str:
        """The name of the program of the process; "" if it has gone."""
        with contextlib.suppress(*procfs.GONE):
            return program_name(procfs.read_command(self.pid))
        return ""

    @property
    def exit_status(self) -> ExitStatus | None:
        """How the process ended, if it did while attached."""
        return self._group.main.exit_status

    @property
    def session(self) -> InjectorClient:
        """Our end of the attach to the process."""
        return self._group.main.session

    # ------------------------------------------------------------------ life

    def start(self, on_sampling: Callable[[], None] = lambda: None) -> None:
        """Attach and begin to sample.

        Args:
            on_sampling: see ``Attached.start``.

        Raises:
            FlametapError: the attach failed; the target keeps running.
        """
        # Imported before the attach: a program that we have started waits from then on.
        from ..code.live_code import LiveCode

        try:
            self._group.start(on_sampling)
        except BaseException:
            self.close()
            raise
        self.recording.code = LiveCode(self.profile, self.symbolizers)
        self._state = "recording"
        self._pump.start()

    def follow(
        self, others: Sequence[int] = (), *, children: bool = True, ends_with_first: bool = False
    ) -> None:
        """Record more processes; see ``Group.follow``."""
        self._group.follow(others, children=children, ends_with_first=ends_with_first)

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the target or of the connection; return False after a timeout."""
        return self._ended.wait(timeout_s)

    def stop(self) -> None:
        """Stop sampling, read the rest of the rings, and detach.

        Idempotent; may also be called after the target's end.
        """
        with self._finish_lock:
            if self._state in ("attaching", "ended"):
                return
            self._group.expect_nobody()
            alive = self._group.alive
            self._group.stop(alive)
            self._stopping.set()
            self._wake.set()
            self._pump.join()
            self._group.finish(alive)
            self._finish()

    def finish_symbols(self, timeout_s: float) -> bool:
        """Wait until every address has a name; return False after a timeout."""
        if self._state == "ended":
            self.symbolizers.hurry()
        return self.symbolizers.wait_idle(timeout_s)

    def what_is_left(self) -> str:
        """Say what ``finish_symbols`` waits for."""
        pending = self.symbolizers.pending
        left = f"{pending:,} addresses" if pending else "call graphs and notes"
        return f"naming functions, {left} left"

    def close(self) -> None:
        """Stop, and close the rings and all files."""
        self.stop()
        self._group.close()
        self.symbolizers.close()
        if self.keeper is not None:
            self.keeper.close()
        self._revision.step()

    # ------------------------------------------------------------------ its state, and controls

    def status(self) -> Status:
        """Return state, counters, verdicts and symbols. Cheap enough for several calls a second."""
        # Read this first: once it is true, the revision and the names read below are the last ones.
        is_final = self._state == "ended" and self.symbolizers.is_idle
        attached, main = list(self._group.all), self._group.main
        counters, (handler_p50_ns, handler_p99_ns) = self._figures(attached)
        verdicts = self.profile.verdicts()
        verdict_cpu_ns = verdicts.native
        seen_cpu_ns = sum(verdict_cpu_ns.values()) - verdict_cpu_ns.get(Verdict.NO_STACK.name, 0)
        asked_hz = self.options.rate_hz
        unsampled = self._group.unsampled  # the kernel's samples are no work of the agents
        fill = self._group.fill
        n_samples = self.profile.cpu_samples - unsampled.n_samples - fill.n_samples
        sampled_ns = seen_cpu_ns - unsampled.sampled_ns - fill.sampled_ns
        rates = Rates.of(asked_hz, counters, n_samples, sampled_ns)
        lowered = counters.get("budget_lowered", 0)
        compared: list[str] = []
        if self.symbolizers.is_idle:
            for each in attached:
                compared += each.kernel.notes(self.profile, self.names, is_final=is_final)
        duration_ns = self.profile.duration_ns
        if duration_ns and not self._started_s:
            self._started_s = time.time() - duration_ns / 1e9
        languages = languages_of(self.interpreters()) if self.profile.has_managed else []
        note = self.symbolizers.note
        return Status(
            pid=self.pid,
            command=main.command,
            program=program_name(main.command),
            started_s=self._started_s,
            state=self._state,
            reason=main.reason if self._state == "ended" else "",
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
            symbols=self.symbolizers.sources(),
            symbols_pending=self.symbolizers.pending,
            is_final=is_final,
            processes=len({each.pid for each in attached}),
            notes=[
                *dict.fromkeys(note for each in attached for note in each.own_notes()),
                *self._group.notes(),
                *([note] if note else []),
                *rates.notes(asked_hz, self.options.budget_ppm, lowered),
                *signal_notes(counters),
                *unattributed_notes(counters, verdict_cpu_ns, duration_ns),
                *dict.fromkeys(compared),
            ],
        )

    def _figures(self, attached: Sequence[Attached]) -> tuple[dict[str, int], tuple[int, int]]:
        """Return the counters of all agents, and the median and 99 % of their handlers' time."""
        figures = [each.intake.figures() for each in attached]
        counters = summed([counters for counters, _ in figures])
        if counters:
            counters |= self.profile.losses() | self._group.unsampled.counters()
        p50_ns, p99_ns = (max(each) for each in zip(*(ns for _, ns in figures), strict=True))
        return counters, (p50_ns, p99_ns)

    def compare(self) -> Comparison | None:
        """Return the CPU times by the kernel and by us; None if they cannot be compared."""
        return self._group.main.kernel.compare(self.profile, self.names)

    def interpreters(self) -> Sequence[FoundInterpreter]:
        """Return the interpreters of the targets that are known now."""
        return [found for each in self._group.all for found in each.interpreters()]

    def children(self) -> list[ChildProcess]:
        """Return the processes that the target has started, the busiest first."""
        if self._state == "ended":
            return []
        return [ChildProcess(*each) for each in child_processes(self.pid)]

    def set_paused(self, paused: bool) -> None:
        """Stop taking samples, or resume."""
        if self._state in ("recording", "paused"):
            self._group.set_paused(paused)
            self._pauses.set(paused, self.profile.now_ns)
            self._state = "paused" if paused else "recording"

    def set_sampling(self, rate_hz: float, budget_percent: float) -> None:
        """Sample at another rate, or within another budget; 0 per cent is no limit.

        Raises:
            FlametapError: a number is out of bounds, or the recording has ended.
        """
        rate_hz, budget_ppm = check_sampling(rate_hz, budget_percent)
        if self._state not in ("recording", "paused"):
            raise UsageError("nothing is being recorded", "the recording has ended")
        self.options = replace(self.options, rate_hz=rate_hz, budget_ppm=budget_ppm)
        self._group.options = self.options
        for each in self._group.alive:
            each.set_sampling(rate_hz, budget_ppm)
        self._revision.step()

    # ------------------------------------------------------------------ the pump

    def _pump_loop(self) -> None:
        alive = self._group.alive
        while alive or self._group.expects_more:
            look_s = DOUBT_LOOK_S if any(each.is_doubted for each in alive) else LOOK_S
            pause_s = min(map(self._due_in_s, alive), default=LOOK_S)
            self._wake.wait(min(max(pause_s, 0.0), look_s))
            if self._stopping.is_set():
                return
            self._wake.clear()
            due = self._due(alive)
            for each in due:
                each.drain()
            self._group.account()
            if due:
                if self.keeper is not None:
                    self.keeper.step()
                self._views.prepare()
                for each in due:
                    each.kernel.look(self.profile)
            for each in alive:
                reason = each.look()
                if reason:
                    others_go_on = len(alive) > 1 or self._group.expects_more
                    self._group.end(each, reason, others_go_on=others_go_on)
            alive = self._group.alive
            if self._group.is_done:
                self._group.stop(alive)
                break
        self._group.finish(alive)
        self._finish()

    def _due(self, alive: Sequence[Attached]) -> list[Attached]:
        """Return those that are to be read now: with the first one all that soon would be."""
        due_in_s = [self._due_in_s(each) for each in alive]
        if min(due_in_s, default=1.0) > 0:
            return []
        return [each for each, wait_s in zip(alive, due_in_s, strict=True) if wait_s <= GATHER_S]

    def _due_in_s(self, attached: Attached) -> float:
        most_s = LATER_S if self.keeper is None else KEPT_S
        return attached.intake.due_in_s(
            is_watched=self._revision.is_awaited(),
            most_s=most_s,
            n_processes=self._group.n_alive,
        )

    def _finish(self) -> None:
        self._state = "ended"
        self._revision.step()  # wake the page: the recording has ended
        self._ended.set()
