"""Stop one thread of the target and send it to the stub: ``host_divert`` (``agent/host/divert.c``).

The file of machine code is mapped into our process, executable and read-only, and the function is
called there: Python would hold the thread stopped five times as long.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from collections.abc import Callable
from enum import IntEnum
from functools import lru_cache

from flametap.agent import machine_code

from ...errors import CannotAttachError
from ...linux import scheduling
from ...linux.brief_stop import TracingThread
from ...linux.eintr_restart import ENDED_BY_STOPS
from .stub import Stub

# How long a thread may take to stop. One that waits for a CPU may take longer: another is tried.
STOP_LIMIT_S = 0.02
LONG_STOP_LIMIT_S = 5.0
MAP_FAILED = (1 << 64) - 1

_mmap = ctypes.CDLL(None, use_errno=True).mmap
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = (
    *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int),
    *(ctypes.c_int, ctypes.c_int, ctypes.c_long),
)


class Result(IntEnum):
    """``enum divert_result``"""

    DONE = 0
    GONE = 1
    NOT_NOW = 2
    LATE = 3
    NO_WRITE = 4
    NEVER = 5


class _Divert(ctypes.Structure):  # struct divert
    _fields_ = (
        ("tid", ctypes.c_int32),
        ("memory_fd", ctypes.c_int32),
        ("stub_addr", ctypes.c_uint64),
        ("stub", ctypes.c_void_p),
        ("stub_bytes", ctypes.c_uint64),
        ("state_offset", ctypes.c_uint64),
        ("eintr_calls", ctypes.c_void_p),
        ("eintr_call_count", ctypes.c_uint64),
        ("wait_ns", ctypes.c_uint64),
        ("error", ctypes.c_int32),
        ("left_ms", ctypes.c_int32),
        ("stopped_ns", ctypes.c_uint64),
        ("thread_pointer", ctypes.c_uint64),
    )


class Diverter:
    """Diverts threads of one process to one stub.

    Args:
        memory_fd: ``/proc/PID/mem`` of the process, open for writing.
        stub: what to write.
        stub_addr: where, runtime_addr.

    Attributes:
        answer_offset: see ``Stub``.
        stopped_s: how long the last thread was stopped.
        tid: the last thread.
        thread_pointer: that of the last thread that was diverted, runtime_addr.
    """

    def __init__(self, memory_fd: int, stub: Stub, stub_addr: int) -> None:
        self._stub = ctypes.create_string_buffer(stub.code, len(stub.code))
        self.answer_offset = stub.answer_offset
        self._state_offset = stub.state_offset
        calls = (ctypes.c_uint32 * len(ENDED_BY_STOPS))(*ENDED_BY_STOPS)
        self._calls = calls  # referenced: the structure holds its address
        self._divert = _Divert(
            memory_fd=memory_fd,
            stub_addr=stub_addr,
            stub=ctypes.addressof(self._stub),
            stub_bytes=len(stub.code),
            state_offset=stub.state_offset,
            eintr_calls=ctypes.addressof(calls),
            eintr_call_count=len(calls),
        )
        self._function = _function()
        self._tracing = TracingThread()
        self.tid = 0
        self.stopped_s = 0.0
        self.thread_pointer = 0

    @property
    def mask(self) -> int:
        """The signals that the last thread that was diverted blocks, one bit each."""
        (mask,) = struct.unpack_from("<Q", self._stub, self._state_offset)
        return int(mask)

    def set_answer(self, addr: int) -> None:
        """Have later threads write their alternate stacks to a runtime_addr, and do no more."""
        struct.pack_into("<Q", self._stub, self.answer_offset, addr)

    def divert(self, tid: int, left_ms: int = -1, *, must_stop: bool = False) -> Result:
        """Try one thread. Only after ``DONE`` has anything of its process changed but zeros that
        nobody uses.

        Args:
            tid: the thread.
            left_ms: what its wait lasts when it begins again, if that is one in milliseconds; -1
                for as long as it was to last.
            must_stop: wait for it longer: it is in a wait that would end with EINTR otherwise.
        """
        self.tid = self._divert.tid = tid
        self._divert.left_ms = left_ms
        limit_s = LONG_STOP_LIMIT_S if must_stop else STOP_LIMIT_S
        self._divert.wait_ns = int(limit_s * 1e9)
        results: list[int] = []

        def call() -> bool:
            with scheduling.at_once():
                results.append(self._function(ctypes.addressof(self._divert)))
            return results[-1] != Result.LATE

        self._tracing.run(call)
        self.stopped_s = self._divert.stopped_ns / 1e9
        self.thread_pointer = self._divert.thread_pointer
        return Result(results[0]) if results else Result.NOT_NOW

    def end(self) -> None:
        """Trace no more."""
        self._tracing.end()


@lru_cache(maxsize=1)
def _function() -> Callable[[int], int]:
    """Map ``host_divert``.

    Raises:
        CannotAttachError: the kernel does not let us run code from the file.
    """
    made = machine_code.read()
    descriptor = os.open(machine_code.PLACE, os.O_RDONLY | os.O_CLOEXEC)
    try:
        start = _mmap(
            None,
            *(len(made.code), mmap.PROT_READ | mmap.PROT_EXEC, mmap.MAP_PRIVATE),
            *(descriptor, made.file_offset),
        )
    finally:
        os.close(descriptor)
    if start in (None, MAP_FAILED):
        raise CannotAttachError(
            f"{machine_code.PLACE} cannot be run: {os.strerror(ctypes.get_errno())}",
            "is it on a file system that is mounted noexec? install flametap elsewhere",
        )
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
    return kind(start + made.symbols["host_divert"])
