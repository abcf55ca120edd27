"""The profiler's end of an attach: asks the process that attaches (``server``), and maps the ring
that the agent writes.

One ``InjectorClient`` is one attach: ``attach``, ``start``, ``stop``, ``detach``, ``close``.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import Any

from .. import errors
from ..errors import AttachFailedError, FlametapError
from ..linux import procfs
from ..wire.decoder import ProtocolError
from ..wire.ring import Ring
from .link import ring_file
from .link.endings import END_REASONS
from .process import InjectorProcess, no_process, start
from .rpc import MAX_PACKET_BYTES, decode, encode
from .ways import AUTO

# Before that, it lets go of the target. That takes milliseconds, or longer on a busy machine.
EXIT_TIMEOUT_S = 6.0
# Longer than any call takes. Then it was stopped, or a thread of the target is frozen in the middle
# of a call: it lets go when it can, without us.
ANSWER_TIMEOUT_S = 120.0
STOPPED_LOOK_S = 0.1


class InjectorClient:
    """See the module.

    Args:
        pid: the target; preflight has approved of it.
        way: one of ``ways.WAYS``.
        process: one that was started for this pid and way; by default ``attach`` starts it.
        wake: set when the attach is over, for whatever reason; by default an event of its own.

    Attributes:
        fallback_reason: why Frida is the way in though nobody asked for that; empty if it is not.
        ring: what the agent writes, from ``attach`` to ``close``.
        ended: set when the attach is over, for whatever reason.
        wake: see above; who waits for it may set it for reasons of his own.
        end_reason: which; empty if it was our own doing.
    """

    def __init__(
        self,
        pid: int,
        way: str = AUTO,
        process: InjectorProcess | None = None,
        wake: threading.Event | None = None,
    ) -> None:
        self.pid = pid
        self.fallback_reason = ""
        self._way = way
        self.ring: Ring | None = None
        self.ended = threading.Event()
        self.wake = wake or threading.Event()
        self.end_reason = ""
        self._mapping: mmap.mmap | None = None
        self._link = process.link if process else None
        self._process = process.process if process else None
        self._asked = 0
        self._answers: dict[int, dict[str, Any]] = {}
        self._ring_descriptor = -1
        self._is_lost = True  # until somebody receives
        self._is_leaving = False
        self._changed = threading.Condition()

    def attach(self, rate_hz: float) -> Ring:
        """Attach, load the agent and have it prepare everything but sampling.

        Raises:
            NoSuchProcessError, PermissionRefusedError, CannotAttachError, AttachFailedError
        """
        try:
            if self._link is None:
                started = start(self.pid, self._way)
                self._link, self._process = started.link, started.process
            self._is_lost = False
            threading.Thread(target=self._receive, daemon=True, name="flametap-injector").start()
        except RuntimeError as error:  # no thread
            assert self._link is not None
            self._link.close()
            self._link = None
            raise no_process(error) from error
        self.fallback_reason = str(self._ask("attach", rate_hz))
        try:
            self._mapping = ring_file.mapped(self._ring_descriptor)
        except OSError as error:
            raise AttachFailedError(
                f"the agent's memory cannot be mapped: {error.strerror}", "raise ulimit -v"
            ) from error
        self.ring = Ring(self._mapping)
        try:
            self.ring.check()
        except ProtocolError as error:
            raise AttachFailedError(error.message, error.hint) from error
        return self.ring

    def set_recipes(self, recipes: Sequence[Sequence[int]]) -> None:
        """Tell the agent how to read the frames of interpreters, before ``start`` or later.

        They replace those of the last call. Nothing happens when the attach is over.

        Args:
            recipes: for each interpreter the numbers of ``wire.abi.RECIPE_NAMES``.
        """
        with contextlib.suppress(FlametapError):
            self._ask("set_recipes", [[str(word) for word in recipe] for recipe in recipes])

    def start(self) -> None:
        """Begin to sample.

        Raises:
            AttachFailedError: the agent could not install its signal handler or start its thread.
        """
        self._ask("start")

    def set_paused(self, paused: bool) -> None:
        """Stop sampling for a while, or go on. Nothing happens when the attach is over."""
        with contextlib.suppress(FlametapError):
            self._ask("set_paused", paused)

    def set_rate(self, rate_hz: float) -> None:
        """Sample at another rate. Nothing happens when the attach is over."""
        with contextlib.suppress(FlametapError):
            self._ask("set_rate", rate_hz)

    def stop(self) -> str:
        """End sampling; the last batch is in the ring afterwards. Returns a note, empty if all is
        well.
        """
        self._is_leaving = True
        try:
            return str(self._ask("stop"))
        except FlametapError:
            return ""

    def detach(self) -> None:
        """Unload the agent and let the target go; returns when it has."""
        self._is_leaving = True
        with contextlib.suppress(FlametapError):
            self._ask("detach")
        self._end("")

    def close(self) -> None:
        """Detach if that has not happened, and unmap the ring."""
        self.detach()
        if self._link is not None:
            with contextlib.suppress(OSError):
                self._link.shutdown(socket.SHUT_RDWR)
            if self._is_lost:
                self._link.close()
        if self._ring_descriptor >= 0:
            os.close(self._ring_descriptor)
            self._ring_descriptor = -1
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(EXIT_TIMEOUT_S)
            self._process = None
        if self.ring is not None:
            self.ring.close()
            self.ring = None
        if self._mapping is not None:
            self._mapping.close()
            self._mapping = None

    def _ask(self, call: str, *arguments: object) -> Any:
        with self._changed:
            self._asked += 1
            number = self._asked
            request = {"id": number, "call": call, "arguments": arguments}
            if self._link is None or self._is_lost:
                raise _lost()
            try:
                self._link.send(encode(request))
            except OSError as error:
                raise _lost() from error
            end_s = time.monotonic() + ANSWER_TIMEOUT_S
            while not self._changed.wait_for(
                lambda: number in self._answers or self._is_lost,
                min(ANSWER_TIMEOUT_S, STOPPED_LOOK_S),
            ):
                if time.monotonic() < end_s:
                    self._continue_process()
                    continue
                raise AttachFailedError(
                    f"the process that attaches did not answer within {ANSWER_TIMEOUT_S:g} s",
                    "it lets go when it can: is it, or a thread of the target, stopped or frozen?",
                )
            said = self._answers.pop(number, None)
        if said is None:
            raise _lost()
        if "error" in said:
            name, message, hint = said["error"]
            raise getattr(errors, name, AttachFailedError)(message, hint)
        return said["answer"]

    def _continue_process(self) -> None:
        """Continue the process that attaches if somebody has stopped it: a thread of the target may
        wait for it.
        """
        if self._process is not None:
            with contextlib.suppress(OSError):
                if procfs.read_task_state(self._process.pid, self._process.pid) == "T":
                    self._process.send_signal(signal.SIGCONT)

    def _receive(self) -> None:
        assert self._link is not None
        with contextlib.suppress(OSError):
            while True:
                packet, descriptors, _, _ = socket.recv_fds(self._link, MAX_PACKET_BYTES, 1)
                if not packet:
                    break
                said = decode(packet)
                with self._changed:
                    for descriptor in descriptors:
                        os.set_inheritable(descriptor, False)
                        self._ring_descriptor = descriptor
                    if "id" in said:
                        self._answers[said["id"]] = said
                        self._changed.notify_all()
                if "ended" in said:
                    self._end(said["ended"])
        with self._changed:
            self._is_lost = True
            self._changed.notify_all()
        self._end(END_REASONS["connection-terminated"])
        self._link.close()

    def _end(self, reason: str) -> None:
        if not self.ended.is_set() and not self.end_reason and not self._is_leaving:
            self.end_reason = reason
        self.ended.set()
        self.wake.set()


def _lost() -> AttachFailedError:
    return AttachFailedError(
        "the process that attaches has ended", "the target continues; was it killed? try again"
    )
