"""Requests to our thread in the target, through memory that both map: ``struct control``.

The target can write it at any time. An answer is a number that is checked by whoever uses it, and
the file is a sealed memfd (``ring_file``), so no access to it can fail.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import os
import struct
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...errors import AttachFailedError
from ...linux import procfs, ptrace
from ...linux.syscalls import syscall_number
from ...wire import control_abi as abi
from ...wire.abi import RECIPE_WORDS
from . import ring_file
from .injector import Entry
from .libc_block import BlockOffsets
from .target_memory import TargetMemory

# Our thread takes a millisecond to be ready; the rest is for an overloaded machine.
READY_LIMIT_S = 10.0
READY_INTERVAL_S = 0.0001
ANSWER_LIMIT_S = 10.0
BUSY_LIMIT_S = 60.0  # while our thread works, or waits for a CPU or a disk
LOOK_INTERVAL_S = 0.05
FUTEX_WAIT, FUTEX_WAKE, EVERYBODY = 0, 1, (1 << 31) - 1
# gate_code, gate_restorer and GATE_RESTORER in agent/sampling/disposition.c.
GATE_CODE = bytes.fromhex("488b05f90f00004885c07402ffe0c3")
GATE_RESTORER, GATE_RESTORER_AT = bytes.fromhex("48c7c00f0000000f05"), 64
SYS_FUTEX = syscall_number("futex")


class Prepared(NamedTuple):
    """The answer to ``prepare``; descriptors are in our thread's own table, -1 for none."""

    error: int  # errno, 0 for none
    ring_fd: int
    host_end_fd: int


class Control:
    """Our thread in a process. Any thread may ask; one request at a time.

    Args:
        entry: the thread.
        memory: of the process.

    Raises:
        AttachFailedError: the thread has not got ready, or has put another file in place.
    """

    def __init__(self, entry: Entry, memory: TargetMemory) -> None:
        self._pid, self._tid = memory.pid, entry.tid
        self._task = f"/proc/{memory.pid}/task/{entry.tid}"
        self._asking = threading.Lock()
        self._gate_addr, fd = self._wait_until_ready(entry, memory)
        descriptor = ring_file.open_own(self._task, fd, abi.CONTROL_BYTES)
        try:
            self._mapping = mmap.mmap(descriptor, abi.CONTROL_BYTES)
        except OSError as error:
            raise AttachFailedError(
                f"the agent's memory cannot be mapped: {error.strerror}", "raise ulimit -v"
            ) from error
        finally:
            os.close(descriptor)
        self._words = memoryview(self._mapping)[:8].cast("I")

    def _wait_until_ready(self, entry: Entry, memory: TargetMemory) -> tuple[int, int]:
        for _ in range(round(READY_LIMIT_S / READY_INTERVAL_S)):
            found = memory.read(entry.boot_addr, abi.BOOT.size)
            if len(found) < abi.BOOT.size:
                break
            _, state, error, fd, _, _, _, _, _, gate, *_ = abi.BOOT.unpack(found)
            if state == abi.BOOT_READY:
                return gate, fd
            if state == abi.BOOT_FAILED:
                raise AttachFailedError(
                    f"the agent could not begin: {os.strerror(abs(error))}",
                    "the target continues; it needs /proc, memfd_create and memory",
                )
            if not self.is_alive():
                break
            time.sleep(READY_INTERVAL_S)
        raise AttachFailedError(
            "the agent's thread did not begin", "the target continues; is it stopped or frozen?"
        )

    def write_gate(self, memory: TargetMemory) -> None:
        """Write the code of the signal's gate (``agent/sampling/disposition.c``).

        Raises:
            OSError: it cannot be written.
        """
        memory.write(self._gate_addr, GATE_CODE)
        memory.write(self._gate_addr + GATE_RESTORER_AT, GATE_RESTORER)

    def open_file(self, fd: int) -> int:
        """Return a descriptor of ours for the ring, which our thread has as ``fd``.

        Raises:
            AttachFailedError: it is no such file.
        """
        return ring_file.open_own(self._task, fd, ring_file.FILE_BYTES)

    def is_alive(self) -> bool:
        """Tell whether our thread still exists."""
        return os.path.exists(self._task)

    def _is_busy(self) -> bool:
        """Tell whether our thread works, or waits for a CPU or a disk: it cannot answer before."""
        with contextlib.suppress(*procfs.GONE):
            return procfs.read_task_state(self._pid, self._tid) in ("R", "D")
        return False

    def prepare(self, rate_hz: int, filtered: int, clocks: int, known: BlockOffsets) -> Prepared:
        """Have everything prepared but sampling.

        Raises:
            AttachFailedError: no answer.
        """

        def fill() -> None:
            struct.pack_into("<3Q", self._mapping, abi.AT_OFFSETS, *known)

        error = self._ask(abi.PREPARE, (rate_hz, filtered, clocks), fill)
        return Prepared(-error, *abi.PREPARED.unpack_from(self._mapping, abi.AT_PREPARED))

    def start(
        self, probes: Sequence[tuple[int, int, int, int]], is_hopeless: Callable[[], bool]
    ) -> int:
        """Begin to sample; returns an errno, 0 for none.

        Args:
            probes: what ``stack_probe`` has found: ``control_abi.PROBE`` each.
            is_hopeless: asked while there is no answer; True ends the wait.

        Raises:
            AttachFailedError: no answer.
        """
        taken = probes[: abi.CONTROL_PROBES]

        def fill() -> None:
            struct.pack_into("<I", self._mapping, abi.AT_COUNT, len(taken))
            for index, probe in enumerate(taken):
                abi.PROBE.pack_into(self._mapping, abi.AT_WORDS + index * abi.PROBE.size, *probe)

        return -self._ask(abi.START, (), fill, is_hopeless)

    def connect(self, address: bytes) -> int:
        """Have our thread connect to a socket of ours; returns an errno, 0 for none.

        Args:
            address: struct sockaddr_un, unix(7).

        Raises:
            AttachFailedError: no answer.
        """

        def fill() -> None:
            self._mapping[abi.AT_WORDS : abi.AT_WORDS + len(address)] = address

        return -self._ask(abi.CONNECT, (len(address),), fill)

    def set_recipes(self, recipes: Sequence[Sequence[int]]) -> None:
        """Have frames of these interpreters read, and of no others; those that fit.

        Raises:
            AttachFailedError: no answer.
        """
        taken = recipes[: abi.CONTROL_WORDS // RECIPE_WORDS]
        words = [word for recipe in taken for word in recipe]

        def fill() -> None:
            struct.pack_into("<I", self._mapping, abi.AT_COUNT, len(taken))
            struct.pack_into(f"<{len(words)}Q", self._mapping, abi.AT_WORDS, *words)

        self._ask(abi.RECIPES, (), fill)

    def set_paused(self, paused: bool) -> None:
        """Stop sampling for a while, or go on.

        Raises:
            AttachFailedError: no answer.
        """
        self._ask(abi.PAUSE, (int(paused),))

    def set_rate(self, rate_hz: int) -> None:
        """Sample at another rate.

        Raises:
            AttachFailedError: no answer.
        """
        self._ask(abi.RATE, (rate_hz,))

    def stop(self, is_hopeless: Callable[[], bool]) -> int:
        """End sampling; returns how many threads left a signal unanswered, below 0 if none was
        sampled.

        Raises:
            AttachFailedError: no answer.
        """
        return self._ask(abi.STOP, (), None, is_hopeless)

    def leave(self, is_hopeless: Callable[[], bool], limit_s: float = ANSWER_LIMIT_S) -> bool:
        """Have our thread end; returns whether it has."""
        with self._asking:
            for _ in range(round(limit_s / READY_INTERVAL_S / 10)):
                self._request(abi.LEAVE, (), None)  # again: the target may write over one
                if not self.is_alive():
                    return True
                if is_hopeless():
                    break
                time.sleep(READY_INTERVAL_S * 10)
        return not self.is_alive()

    def close(self) -> None:
        """Unmap the memory. Idempotent."""
        with self._asking:
            self._words.release()
            self._mapping.close()

    def _ask(
        self,
        call: int,
        arguments: Sequence[int],
        fill: Callable[[], None] | None = None,
        is_hopeless: Callable[[], bool] = lambda: False,
    ) -> int:
        with self._asking:
            request = self._request(call, arguments, fill)
            waited_s = 0.0  # in looks: while the machine stood still nobody could answer
            while (answered := self._words[abi.ANSWERED]) != request:
                is_gone = not self.is_alive()
                if waited_s > ANSWER_LIMIT_S or is_gone or is_hopeless():
                    raise AttachFailedError(
                        "the agent in the target has ended"
                        if is_gone
                        else "the agent in the target does not answer",
                        "look whether it is stopped or out of memory: flametap doctor PID",
                    )
                self._futex(abi.ANSWERED, FUTEX_WAIT, answered, LOOK_INTERVAL_S)
                share = ANSWER_LIMIT_S / BUSY_LIMIT_S if self._is_busy() else 1.0
                waited_s += LOOK_INTERVAL_S * share
            result: int = struct.unpack_from("<i", self._mapping, abi.AT_RESULT)[0]
            return result

    def _request(self, call: int, arguments: Sequence[int], fill: Callable[[], None] | None) -> int:
        if fill is not None:
            fill()
        request = (self._words[abi.REQUEST] + 1) & 0xFFFFFFFF
        struct.pack_into("<I", self._mapping, abi.AT_CALL, call)
        struct.pack_into(f"<{len(arguments)}Q", self._mapping, abi.AT_ARGUMENTS, *arguments)
        self._words[abi.REQUEST] = request
        self._futex(abi.REQUEST, FUTEX_WAKE, EVERYBODY, math.inf)
        return request

    def _futex(self, index: int, operation: int, value: int, timeout_s: float) -> None:
        word = ctypes.c_uint32.from_buffer(self._mapping, 4 * index)
        pause = (ctypes.c_int64 * 2)(0, 0 if math.isinf(timeout_s) else int(timeout_s * 1e9))
        where = 0 if math.isinf(timeout_s) else ctypes.addressof(pause)
        ptrace.syscall(SYS_FUTEX, ctypes.addressof(word), operation, value, where)
        del word
