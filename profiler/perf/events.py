"""Receive the kernel's samples: of all processes, or of one and of all that it starts from then on.

There is one event a CPU, and a ring of memory of each that the kernel writes into: what processes
map, start and run, and at each ``period_ns`` of CPU time the registers of the thread and the top of
its stack. Of all processes, the time of the CPU counts, so that those which live for less than a
period have their share. Of one, the kernel counts a thread's time from zero on each CPU: what ends
within one period is not seen. Starting a process costs more there, too.

Times are CLOCK_MONOTONIC, nanoseconds. perf_event_open(2); tools/perf/design.txt.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import struct
import time
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from ..linux.raw_syscall import raw_syscall

# Of each sample: root may lock enough memory for frames with large buffers. Multiples of 8.
STACK_BYTES, USERS_STACK_BYTES = 32_768, 8192
MOST_EARLY = 1000
_PAGE = mmap.PAGESIZE
MOST_RINGS_BYTES = 1 << 26  # all of them together
_MOST_RING_PAGES, _LEAST_RING_PAGES = 8192, 16  # powers of two

# struct perf_event_attr, up to its version 5; 112 bytes.
_ATTRIBUTES = struct.Struct("=IIQQQQQIIQQQQIiQIHH")
_TYPE_SOFTWARE, _CPU_CLOCK, _TASK_CLOCK = 1, 0, 1
_IP, _TID, _TIME, _REGS_USER, _STACK_USER = 1, 2, 4, 1 << 12, 1 << 13
_INHERIT, _EXCLUDE_KERNEL, _EXCLUDE_HV, _EXCLUDE_IDLE = 1 << 1, 1 << 5, 1 << 6, 1 << 7
_MMAP, _COMM, _TASK, _WATERMARK = 1 << 8, 1 << 9, 1 << 13, 1 << 14
_SAMPLE_ID_ALL, _MMAP2, _COMM_EXEC, _USE_CLOCKID = 1 << 18, 1 << 23, 1 << 24, 1 << 25
_WANTED = _EXCLUDE_HV | _MMAP | _COMM | _TASK | _WATERMARK
_WANTED |= _SAMPLE_ID_ALL | _MMAP2 | _COMM_EXEC | _USE_CLOCKID
_ALL_PROCESSES = -1
_CLOCK_MONOTONIC = 1
_CLOSE_ON_EXEC, _NO_GROUP = 8, -1
# enum perf_event_x86_regs: ax bx cx dx si di bp sp ip, and r8 to r15.
REGISTERS = (
    *("$rax", "$rbx", "$rcx", "$rdx", "$rsi", "$rdi", "$rbp", "$rsp", "$rip"),
    *(f"$r{number}" for number in range(8, 16)),
)
_REGISTER_MASK = 0x1FF | 0xFF << 16

_HEADER = struct.Struct("=IHH")  # type, misc, size
_TYPE_LOST, _TYPE_COMM, _TYPE_FORK, _TYPE_SAMPLE, _TYPE_MMAP2 = 2, 3, 7, 9, 10
_MISC_CPU_MODE, _MISC_KERNEL, _MISC_EXEC = 7, 1, 1 << 13
_SAMPLE = struct.Struct("=QIIQQ")  # ip, pid, tid, time, abi of the registers
_REGISTER_VALUES = struct.Struct(f"={len(REGISTERS)}Q")
_ABI_NONE, _ABI_64 = 0, 2
_TASK_RECORD = struct.Struct("=IIIIQ")  # pid, parent, tid, its parent, time
_MAP_RECORD = struct.Struct("=IIQQQIIQQII")
_IDENTITY = struct.Struct("=II")
_SAMPLE_ID = struct.Struct("=IIQ")  # at the end of all but samples: pid, tid, time
_HEAD, _TAIL = 1024, 1032  # in the first page: struct perf_event_mmap_page
_WORD = struct.Struct("=Q")


class Sample(NamedTuple):
    """A thread on a CPU. ``registers`` are those of the program, in the order of ``REGISTERS``."""

    time_ns: int
    pid: int
    tid: int
    in_kernel: bool
    registers: tuple[int, ...]  # empty where there are none, and for a program of 32 bits
    stack: bytes | memoryview  # from the stack pointer on
    has_memory: bool = True  # not a thread whose process has given its memory back, as it ends


class Mapped(NamedTuple):
    """Code of a file that a process has mapped."""

    time_ns: int
    pid: int
    start: int  # runtime_addr
    end: int
    file_offset: int
    inode: int
    path: str


class Forked(NamedTuple):
    """A process has started another one."""

    time_ns: int
    pid: int
    parent: int


class Replaced(NamedTuple):
    """A process runs another program from now on, of this name: 15 characters at most."""

    time_ns: int
    pid: int
    name: str


Record = Sample | Mapped | Forked | Replaced


class PerfEvents:
    """See the module.

    Args:
        pid: the process; None for all. It has one thread, and has started nothing yet.
        period_ns: the CPU time between two samples.

    Attributes:
        sees_kernel: whether there are samples of the time in the kernel.
        lost: how many records found no room.

    Raises:
        OSError: it is not allowed here.
    """

    def __init__(self, pid: int | None, period_ns: int) -> None:
        self.sees_kernel = True
        self.lost = 0
        self._rings: list[_Ring] = []
        self._early: list[Record] = []  # read, and newer than what others may still write
        cpus = os.sysconf("SC_NPROCESSORS_CONF")
        pages = _power_of_two(MOST_RINGS_BYTES // _PAGE // cpus)
        events: list[int] = []
        try:
            for cpu in range(cpus):
                try:
                    events.append(self._open(pid, cpu, period_ns))
                except OSError as error:
                    if error.errno != errno.ENODEV:  # a CPU that is switched off
                        raise
            self._rings = _rings(events, pages)
        except BaseException:
            for event in events:
                os.close(event)
            raise

    def _open(self, pid: int | None, cpu: int, period_ns: int) -> int:
        if self.sees_kernel:
            with contextlib.suppress(PermissionError):
                return _open(pid, cpu, period_ns, _WANTED)
            self.sees_kernel = False
        return _open(pid, cpu, period_ns, _WANTED | _EXCLUDE_KERNEL)

    def read(self) -> list[Record]:
        """Return what has come since the last call, in order of time.

        What one CPU writes while another's is read comes with the next call.
        """
        until_ns = time.monotonic_ns()
        found, self._early = self._early, []
        for ring in self._rings:
            for kind, misc, body in _records(ring.read()):
                if kind == _TYPE_LOST:
                    self.lost += _WORD.unpack_from(body, 8)[0]
                elif record := _parse(kind, misc, body):
                    found.append(record)
        found.sort(key=lambda record: record.time_ns)
        known = bisect_right(found, until_ns, key=lambda record: record.time_ns)
        if len(found) - known > MOST_EARLY:  # our clock is another one: a time namespace
            known = len(found)
        self._early = found[known:]
        return found[:known]

    def close(self) -> None:
        """Let the kernel sample no more."""
        for ring in self._rings:
            ring.close()


def _power_of_two(pages: int) -> int:
    pages = min(max(pages, _LEAST_RING_PAGES), _MOST_RING_PAGES)
    return 1 << pages.bit_length() - 1


def _open(pid: int | None, cpu: int, period_ns: int, flags: int) -> int:
    stack_bytes = USERS_STACK_BYTES if os.geteuid() else STACK_BYTES
    clock, flags = (
        (_CPU_CLOCK, flags | _EXCLUDE_IDLE) if pid is None else (_TASK_CLOCK, flags | _INHERIT)
    )
    attributes = _ATTRIBUTES.pack(
        *(_TYPE_SOFTWARE, _ATTRIBUTES.size, clock, period_ns),
        *(_IP | _TID | _TIME | _REGS_USER | _STACK_USER, 0, flags),
        *(_LEAST_RING_PAGES * _PAGE // 2, 0, 0, 0, 0),
        *(_REGISTER_MASK, stack_bytes, _CLOCK_MONOTONIC, 0, 0, 0, 0),
    )
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    whose = _ALL_PROCESSES if pid is None else pid
    return raw_syscall(
        *("perf_event_open", buffer, whose, cpu, _NO_GROUP, ctypes.c_ulong(_CLOSE_ON_EXEC))
    )


def _rings(events: list[int], pages: int) -> list[_Ring]:
    """Return the rings of all events, as large as is allowed. Raises OSError if none are."""
    while pages >= _LEAST_RING_PAGES:
        mapped: list[mmap.mmap] = []
        try:
            mapped += [mmap.mmap(event, (1 + pages) * _PAGE) for event in events]
            return [_Ring(*each) for each in zip(events, mapped, strict=True)]
        except OSError:  # a user may lock so much memory, of all of them together
            pages //= 2
    raise OSError("the memory that may be locked is used up")


class _Ring:
    """The memory of one event. It closes both."""

    def __init__(self, event: int, memory: mmap.mmap) -> None:
        self._event, self._memory = event, memory
        self._size = len(memory) - _PAGE

    def read(self) -> bytes:
        """Return the bytes that are new, and make room."""
        memory, size = self._memory, self._size
        (head,), (tail,) = _WORD.unpack_from(memory, _HEAD), _WORD.unpack_from(memory, _TAIL)
        first, length = tail % size, head - tail
        data = memory[_PAGE + first : _PAGE + min(first + length, size)]
        data += memory[_PAGE : _PAGE + length - len(data)]
        _WORD.pack_into(memory, _TAIL, head)
        return data

    def close(self) -> None:
        self._memory.close()
        os.close(self._event)


def _records(data: bytes) -> Iterator[tuple[int, int, memoryview]]:
    """Yield type, flags and contents of each record."""
    view, at = memoryview(data), 0
    while at + _HEADER.size <= len(data):
        kind, misc, size = _HEADER.unpack_from(data, at)
        if size < _HEADER.size:
            return
        yield kind, misc, view[at + _HEADER.size : at + size]
        at += size


def _parse(kind: int, misc: int, body: memoryview) -> Record | None:
    if kind == _TYPE_SAMPLE:
        _, pid, tid, time_ns, abi = _SAMPLE.unpack_from(body)
        in_kernel = misc & _MISC_CPU_MODE == _MISC_KERNEL
        if abi != _ABI_64:
            return Sample(time_ns, pid, tid, in_kernel, (), b"", has_memory=abi != _ABI_NONE)
        registers = _REGISTER_VALUES.unpack_from(body, _SAMPLE.size)
        at = _SAMPLE.size + _REGISTER_VALUES.size + _WORD.size
        (asked,) = _WORD.unpack_from(body, at - _WORD.size)
        (taken,) = _WORD.unpack_from(body, at + asked) if asked else (0,)
        return Sample(time_ns, pid, tid, in_kernel, registers, body[at : at + min(asked, taken)])
    if kind == _TYPE_MMAP2:
        pid, _, start, size, offset, _, _, inode, *_ = _MAP_RECORD.unpack_from(body)
        path = bytes(body[_MAP_RECORD.size : -_SAMPLE_ID.size]).rstrip(b"\0")
        time_ns = _SAMPLE_ID.unpack_from(body, len(body) - _SAMPLE_ID.size)[2]
        return Mapped(time_ns, pid, start, start + size, offset, inode, os.fsdecode(path))
    if kind == _TYPE_FORK:
        pid, parent, _, _, time_ns = _TASK_RECORD.unpack_from(body)
        return Forked(time_ns, pid, parent) if pid != parent else None  # else a thread
    if kind == _TYPE_COMM and misc & _MISC_EXEC:
        pid, _ = _IDENTITY.unpack_from(body)
        name = os.fsdecode(bytes(body[_IDENTITY.size : -_SAMPLE_ID.size]).rstrip(b"\0"))
        return Replaced(_SAMPLE_ID.unpack_from(body, len(body) - _SAMPLE_ID.size)[2], pid, name)
    return None
