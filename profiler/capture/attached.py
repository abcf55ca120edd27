"""One process that is recorded: attach to it, read what its agent sends, detach from it.

Several of them write into one recording, each under its number. One thread, the pump of a
``Capture``, reads them all.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from ..inject.client import InjectorClient
from ..inject.link.endings import END_REASONS
from ..inject.process import InjectorProcess
from ..linux import procfs
from ..linux.command_line import program_name
from ..model import Process, Thread
from ..recording.numbers import ProcessNumbers
from ..symbols.interpreters.found import FoundInterpreter
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
    TARGET_ENDED,
)
from .exit_status import ExitStatus, ExitWatch
from .heartbeat import Heartbeat
from .intake import Intake
from .interpreters import InterpreterWatch
from .kernel_watch import KernelWatch
from .last_thread import only_agents_are_left
from .shared import Shared
from .symbol_servers import client_of
from .thread_names import ThreadNames

if TYPE_CHECKING:
    from ..symbols.symbolizer import Symbolizer

REPLACED = END_REASONS["process-replaced"]
# Processes whose CPU times are compared with the kernel's: each look reads all threads.
MOST_COMPARED = 8
LOOK_S = 0.2  # between two looks whether threads of the program are left
# When a target dies, its pidfd may become readable a moment before we are told the reason.
REASON_WAIT_S = 0.5


class Attached:
    """See the module.

    Args:
        pid: the process.
        number: its ``Process.number``.
        shared: what it writes into.
        options: how it is recorded.
        injector: the process that attaches to it, if it has been started.
        parent: ``Process.parent``.

    Attributes:
        pid: see above.
        number: see above.
        own_pid: its pid in its own namespace, as its agent tells it.
        command: its command line.
        symbolizer: the source of its names; None before the attach.
        exit_status: if it ended while attached.
        reason: why its recording ended; "" while it goes on.
        notes: what the user should know about it.
    """

    def __init__(
        self,
        pid: int,
        number: int,
        shared: Shared,
        options: CaptureOptions,
        injector: InjectorProcess | None = None,
        parent: int = -1,
    ) -> None:
        self.pid, self.number, self.parent = pid, number, parent
        self.own_pid = pid
        self.command = ""
        self.symbolizer: Symbolizer | None = None
        self.exit_status: ExitStatus | None = None
        self.reason = ""
        self.notes: list[str] = []
        self._shared, self._options = shared, options
        self._session = InjectorClient(pid, options.inject, injector, shared.wake)
        self._perf_map = DotnetPerfMap(pid, options.enable_perf_map)
        self._target: ExitWatch | None = None
        self._heartbeat: Heartbeat | None = None
        self._interpreters: InterpreterWatch | None = None
        self._thread_names: ThreadNames | None = None
        self._kernel = KernelWatch(pid, number)
        numbers = ProcessNumbers(shared.numbers, number)
        self.intake = Intake(
            *(shared.profile, numbers, number, self._look_for_interpreters),
            shared.fill,
        )
        self._first_seen_ns = 0
        self._closing = threading.Lock()
        self._is_closed = False
        self._next_look_s = 0.0
        self._doubted_s = 0.0  # since when it seems to have ended

    @property
    def session(self) -> InjectorClient:
        """Our end of the attach."""
        return self._session

    @property
    def kernel(self) -> KernelWatch:
        """Compares our CPU times with the kernel's."""
        return self._kernel

    @property
    def is_alive(self) -> bool:
        """Return whether it is being recorded."""
        return not self.reason

    # ------------------------------------------------------------------ its begin and its end

    def start(self, on_sampling: Callable[[], None] = lambda: None) -> None:
        """Attach and begin to sample.

        Args:
            on_sampling: called at once when that has begun: a program that waits for us goes on.

        Raises:
            FlametapError: the attach failed; the target keeps running, and all is closed.
        """
        self._target = ExitWatch(self.pid)
        with contextlib.suppress(*procfs.GONE):
            self.command = procfs.read_command(self.pid)
        try:
            self._perf_map.enable()
            # It is not needed before sampling has begun, and we wait till then.
            threading.Thread(target=_import_symbolizer, daemon=True).start()
            ring = self._session.attach(self._options.rate_hz)
            self._heartbeat = Heartbeat(ring)
            ring.set_budget(self._options.budget_ppm)
            self._interpreters = InterpreterWatch(
                Interpreters(self.pid, inlines=self._options.inlines),
                self._session.set_recipes,
                self._set_interpreters,
                Descriptors(self.pid).find,
            )
            self._interpreters.start()
            profile, number = self._shared.profile, self.number
            self._thread_names = ThreadNames(
                self.pid,
                self._interpreters.found,
                lambda: frozenset(self.threads()),
                lambda names, defaults: profile.set_thread_names(names, defaults, number),
            )
            self._make_symbolizer()
            self._first_seen_ns = time.monotonic_ns()
            with contextlib.suppress(*procfs.GONE, PermissionError):
                self.own_pid = procfs.read_status(self.pid).own_pid
            self._session.start()
            on_sampling()
            profile.add_process(self.process())
            self._thread_names.start()
            if self.number < MOST_COMPARED:
                self._kernel.begin()
        except BaseException:
            self._session.detach()
            self.exit_status = self._target.status()
            self.reason = "never attached"
            self.close()
            raise

    def process(self, ended_ns: int = 0) -> Process:
        """Return what the recording says of it.

        Args:
            ended_ns: when its recording has ended; 0 if that goes on.
        """
        return Process(
            self.number,
            self.pid,
            program_name(self.command),
            self.command,
            self.parent,
            first_seen_ns=self._first_seen_ns,
            ended_ns=ended_ns,
            reason=self.reason,
        )

    def threads(self) -> dict[int, Thread]:
        """Return its threads, by ``thread_id``."""
        return {each.thread_id: each for each in self._own_threads()}

    def cpu_before_ns(self) -> tuple[int, int] | None:
        """Return the CPU time that it had used before it was sampled: its first thread, and all.

        None while its first thread is not known.
        """
        before_ns = self.intake.cpu_before_ns
        of_first = [
            before_ns.get(each.thread_id, 0)
            for each in self._own_threads()
            if each.tid == self.own_pid
        ]
        return (of_first[0], sum(before_ns.values())) if of_first else None

    def _own_threads(self) -> Iterator[Thread]:
        for each in self._shared.profile.plain_threads.values():
            if each.process == self.number:
                yield each

    def stop(self) -> None:
        """Stop sampling; the last of what was sampled can be read then."""
        self._end_names()
        self._kernel.end(self._shared.profile)
        self._perf_map.disable()
        note = self._session.stop()
        if note:
            self.notes.append(note)

    def close(self) -> None:
        """Close the ring and all files. Idempotent; any thread may call."""
        with self._closing:
            if not self._is_closed:
                self._is_closed = True
                self._close()

    def _close(self) -> None:
        if self._heartbeat is not None:
            # Beat until the agent is unloaded: that may take longer than HOST_SILENCE_NS.
            self._session.detach()
            self._heartbeat.stop()
        self._end_names()
        if self._interpreters is not None:
            self._interpreters.close()
        self._session.close()
        self._perf_map.close()
        if self._target is not None:
            self._target.close()

    def finish(self, reason: str, *, others_go_on: bool = False) -> None:
        """Read the rest, detach, and find out how it ended.

        Args:
            reason: why its recording ends, as far as that is known.
            others_go_on: its threads end now, where those of others do not.
        """
        self.drain()
        self._session.detach()
        if self.symbolizer is not None:
            self.symbolizer.look_again()
        assert self._target is not None
        self.exit_status = self._target.status()
        if reason in FINAL_REASONS:
            pass
        elif self.exit_status is not None:
            # A target that dies slowly may first look like a lost connection, or an exec.
            reason = f"the target {self.exit_status}"
        elif self._session.end_reason == TARGET_ENDED and not self._target.has_exited():
            # Frida reports an exec as an exit, but the process still exists.
            reason = REPLACED
        else:
            reason = self._session.end_reason or reason
        self.reason = reason
        profile, process = self._shared.profile, self.process(max(1, self.intake.now_ns))
        if others_go_on:
            profile.end_process(process)
        else:
            profile.add_process(process)

    # ------------------------------------------------------------------ while it is recorded

    def drain(self) -> None:
        """Read what the agent has sent."""
        assert self.symbolizer is not None
        if error := self.intake.read(self._session.ring, self.symbolizer):
            self.notes.append(error.message)

    def look(self) -> str:
        """Return why its recording has to end; "" while it goes on, or while that is not clear."""
        assert self._target is not None
        if self.intake.error is not None:
            self._kernel.give_up()
            return DATA_DAMAGED
        if reason := self._agent_stop_reason():
            self.notes.append(AGENT_STOP_NOTES[reason])
            self._kernel.give_up()
            return reason
        has_exited = self._target.has_exited()
        if not has_exited and self._is_left_to_agents():
            # The main thread of a process that is exiting, or not yet reaped, is a zombie, too.
            if not self._is_sure():
                return ""
            self._session.stop()
            return LAST_THREAD_ENDED
        if not (has_exited or self._session.ended.is_set()):
            self._doubted_s = 0.0
            return ""
        if self._session.end_reason == REPLACED and not has_exited:
            return REPLACED
        if not (has_exited and self._session.ended.is_set()) and not self._is_sure():
            return ""
        return TARGET_ENDED if has_exited else self._session.end_reason or TARGET_ENDED

    def _is_left_to_agents(self) -> bool:
        now_s = time.monotonic()
        if now_s < self._next_look_s and not self._doubted_s:
            return False
        self._next_look_s = now_s + LOOK_S
        return only_agents_are_left(self.pid, self._own_threads())

    @property
    def is_doubted(self) -> bool:
        """Return whether it seems to have ended: look again soon."""
        return bool(self._doubted_s)

    def _is_sure(self) -> bool:
        now_s = time.monotonic()
        self._doubted_s = self._doubted_s or now_s
        return now_s - self._doubted_s >= REASON_WAIT_S

    def interpreters(self) -> Sequence[FoundInterpreter]:
        """Return the interpreters that are known now."""
        return [] if self._interpreters is None else self._interpreters.found()

    def own_notes(self) -> list[str]:
        """Return what the user should know, one line each."""
        return [*self.notes, *(self._interpreters.notes if self._interpreters else [])]

    def set_paused(self, paused: bool) -> None:
        """Stop taking samples, or resume."""
        self._kernel.give_up()
        self._session.set_paused(paused)

    def set_sampling(self, rate_hz: float, budget_ppm: int) -> None:
        """Sample at another rate, or within another budget."""
        if self._session.ring is not None:
            self._session.ring.set_budget(budget_ppm)
            self._session.set_rate(rate_hz)

    def _agent_stop_reason(self) -> str:
        """Return why the agent has stopped by itself; "" if it has not."""
        ring = self._session.ring
        if ring is None or not ring.stopped:
            return ""
        return AGENT_STOP_REASONS.get(ring.stop_reason, "")

    def _make_symbolizer(self) -> None:
        from ..symbols.module_names import ModuleNames
        from ..symbols.symbolizer import Symbolizer

        options, shared = self._options, self._shared
        with shared.lock:
            if shared.modules is None:
                shared.modules = ModuleNames(
                    shared.names,
                    self.pid,
                    inlines=options.inlines,
                    symbol_dirs=options.symbol_dirs,
                    debuginfod=client_of(options.debuginfod_urls),
                    names_remedies=options.names_remedies,
                )
            self.symbolizer = Symbolizer(
                shared.names, self.pid, inlines=options.inlines, modules=shared.modules
            )
            shared.symbolizers.add(self.symbolizer)
        self._set_interpreters(self.interpreters())

    def _set_interpreters(self, found: Sequence[FoundInterpreter]) -> None:
        if self.symbolizer is not None:
            self.symbolizer.set_interpreters(found)

    def _look_for_interpreters(self) -> None:
        if self._interpreters is not None:
            self._interpreters.look_again()

    def _end_names(self) -> None:
        if self._thread_names is not None:
            self._thread_names.close()


def _import_symbolizer() -> None:
    with contextlib.suppress(ImportError):  # told by who needs it
        from ..symbols import symbolizer  # noqa: F401
