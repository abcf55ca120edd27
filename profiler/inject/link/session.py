"""One attach to one process, from its begin to its end, by whatever way our thread comes in."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections.abc import Sequence

from ...errors import AttachFailedError, FlametapError
from ...linux import seccomp_filters
from ...linux.execs import Program
from . import file_lender, host_socket, libc_block, perf_clock, stack_probe
from .control import Control
from .endings import END_REASONS, could_not_prepare, has_ended
from .grants import Grants
from .injector import Entry, Injector
from .standstill import Standstill

CPU_TIMERS, LENT_CLOCKS = 1, 2  # enum clocks in agent.h
WATCH_INTERVAL_MS = 100
# An exec ends our thread before the process shows the new program.
REASON_LIMIT_S = 1.0
REASON_INTERVAL_S = 0.01


class Session:
    """See the module.

    Args:
        pid: the process; preflight has approved of it.
        injector: the way in.

    Attributes:
        ended: set when the attach is over, for whatever reason.
        end_reason: which; empty if it was our own doing.
    """

    def __init__(self, pid: int, injector: Injector) -> None:
        self.pid = pid
        self.ended = threading.Event()
        self.end_reason = ""
        self._injector = injector
        self._program = Program(pid)
        self._grants = Grants(injector.stopper, injector.ask_alternate, self.is_replaced)
        self._control: Control | None = None
        self._entry: Entry | None = None
        self._ring_descriptor = -1
        self._is_stopped = False
        self._is_leaving = False

    def attach(self, rate_hz: float) -> int:
        """Enter the process, and have everything prepared but sampling.

        Returns:
            a descriptor of the ring that the agent writes, open until ``close``.

        Raises:
            NoSuchProcessError, PermissionRefusedError, CannotAttachError, AttachFailedError
        """
        try:
            return self._attach(rate_hz)
        except BaseException:
            self.detach()
            raise

    def _attach(self, rate_hz: float) -> int:
        clocks = 0
        if seccomp_filters.allow_timers(self.pid):
            clocks = CPU_TIMERS | (LENT_CLOCKS if perf_clock.is_permitted() else 0)
        filtered = seccomp_filters.whose(self.pid)
        if filtered != seccomp_filters.NOBODYS:
            clocks &= CPU_TIMERS
        entry = self._entry = self._injector.enter(filtered)
        memory = self._injector.memory
        assert memory is not None
        control = self._control = Control(entry, memory)
        control.write_gate(memory)
        known = libc_block.find(memory, entry.tid, entry.thread_pointer)
        prepared = control.prepare(max(1, round(rate_hz)), filtered, clocks, known)
        if prepared.error:
            raise could_not_prepare(prepared.error, self.pid)
        self._ring_descriptor = control.open_file(prepared.ring_fd)
        if prepared.host_end_fd >= 0:
            link = host_socket.take(entry.tid, prepared.host_end_fd)
            link = link or host_socket.accept(self.pid, control)
            if link is not None:
                file_lender.start(self.pid, link, self._grants)
        threading.Thread(target=self._watch, daemon=True, name="flametap-watch").start()
        return self._ring_descriptor

    def is_replaced(self) -> bool:
        """Tell whether the process has ended or become another program since the begin."""
        return self._program.is_replaced()

    def give_up(self) -> None:
        """End an attach that is under way; afterwards nothing happens."""
        self._injector.give_up()

    def start(self) -> None:
        """Begin to sample.

        Raises:
            AttachFailedError: the agent could not install its signal handler, or does not answer.
        """
        if self._control is None:
            raise AttachFailedError("the attach is over")
        probes = [
            (each.tid, sp, each.alternate_start, each.alternate_bytes)
            for each in stack_probe.find(self._injector.stopper, self._injector.ask_alternate)
            for sp in each.sps
        ]
        error = self._control.start(probes, Standstill(self.pid).lasts)
        if error:
            raise AttachFailedError(f"the agent could not start: {os.strerror(abs(error))}")

    def set_recipes(self, recipes: Sequence[Sequence[str]]) -> None:
        """Tell the agent how to read the frames of interpreters, in place of those before.

        Nothing happens after the end.

        Args:
            recipes: for each, the numbers of ``wire.abi.RECIPE_NAMES`` in decimal.
        """
        numbers = [[int(word) for word in recipe] for recipe in recipes]
        if self._control is not None and not self.ended.is_set():
            with contextlib.suppress(AttachFailedError):
                self._control.set_recipes(numbers)

    def set_paused(self, paused: bool) -> None:
        """Stop sampling for a while, or go on. Nothing happens after the end."""
        if self._control is not None and not self.ended.is_set():
            with contextlib.suppress(AttachFailedError):
                self._control.set_paused(paused)

    def set_rate(self, rate_hz: float) -> None:
        """Sample at another rate. Nothing happens after the end."""
        if self._control is not None and not self.ended.is_set():
            with contextlib.suppress(AttachFailedError):
                self._control.set_rate(max(1, round(rate_hz)))

    def stop(self) -> str:
        """End sampling; the last batch is in the ring afterwards. Returns a note, empty if all is
        well.
        """
        if self._control is None or self._is_stopped or self.ended.is_set():
            return ""
        self._is_leaving = self._is_stopped = True
        try:
            unanswered = self._control.stop(Standstill(self.pid).lasts)
        except AttachFailedError:
            if has_ended(self.pid) or self.is_replaced():
                return ""
            what = "the target did not answer when sampling was stopped"
            return f"{what}; what is in it ends by itself when it continues"
        if unanswered > 0:
            return f"{unanswered} threads never took their last signal; it will be ignored"
        return ""

    def detach(self) -> None:
        """Have our thread end and give everything back; returns when it has."""
        self._is_leaving = True
        self.stop()  # if nobody has: a thread that is held answers no signal
        self._grants.end()
        self._injector.ask_no_more()
        if self._control is not None and not self.is_replaced():
            self._control.leave(Standstill(self.pid).lasts)
        with contextlib.suppress(FlametapError):
            self._injector.leave()
        if self._control is not None:
            self._control.close()
            self._control = None
        self._injector.close()
        self.ended.set()

    def close(self) -> None:
        """Detach if that has not happened, and close the ring's descriptor."""
        self.detach()
        if self._ring_descriptor >= 0:
            os.close(self._ring_descriptor)
            self._ring_descriptor = -1

    def _watch(self) -> None:
        """Notice the end of the process, of its program, or of our thread in it."""
        control = self._control
        with contextlib.suppress(OSError):
            pidfd = os.pidfd_open(self.pid)
            try:
                poll = select.poll()
                poll.register(pidfd, select.POLLIN)
                while not self.ended.is_set() and not poll.poll(WATCH_INTERVAL_MS):
                    if control is None or not control.is_alive():
                        break
            finally:
                os.close(pidfd)
        if not self.ended.is_set() and not self._is_leaving:
            self.end_reason = self._reason()
            self.ended.set()

    def _reason(self) -> str:
        for _ in range(round(REASON_LIMIT_S / REASON_INTERVAL_S)):
            if has_ended(self.pid):
                return END_REASONS["process-terminated"]
            # One that is exiting has no program any more, a moment before it counts as ended.
            if self.is_replaced() and self._program.is_there():
                return END_REASONS["process-replaced"]
            time.sleep(REASON_INTERVAL_S)
        return END_REASONS["connection-terminated"]
