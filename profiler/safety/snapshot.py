"""Take a snapshot of the state of a process that a recording must not change.

A snapshot is read through procfs only. It changes nothing in the process, not even which of its
pages are resident. ``snapshot_diff`` compares two snapshots. proc(5),
Documentation/admin-guide/mm/pagemap.rst.
"""

from __future__ import annotations

import array
import contextlib
import hashlib
import mmap
import os
from dataclasses import dataclass, field

from ..linux import procfs
from ..linux.file_rights import ProcessUser
from ..linux.maps import Mapping, read_maps
from ..linux.open_beneath import open_mapped_file
from ..linux.vdso import VDSO, own_vdso

SIGNAL_FIELDS = ("SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt")
# Bits of a pagemap entry: in memory; in swap; a page of a file (not a private copy of it).
PRESENT, SWAPPED, OF_FILE = 1 << 63, 1 << 62, 1 << 61


@dataclass(frozen=True)
class CpuTimer:
    """A POSIX timer on a CPU clock that sends a signal to one thread: timer_create(2)."""

    timer_id: int
    signal: int
    tid: int


@dataclass(frozen=True)
class Receipt:
    """The state of a process at one moment."""

    pid: int
    threads: dict[int, str]  # tid → name
    descriptors: dict[int, str]  # fd → target of the link in /proc/PID/fd
    signals: dict[int, dict[str, int]]  # tid → mask name → mask, bit 0 is signal 1
    # Executable mapping of a file → its private pages: runtime_addr → digest of the bytes. A page
    # is private once it has been written to.
    code: dict[Mapping, dict[int, str]]
    anonymous_code: list[int]  # sizes of executable mappings without a file
    memory_files: list[str]  # mappings of memfds and of Frida's files
    files: frozenset[str]  # all mapped files
    tracer: int
    cpu_timers: frozenset[CpuTimer] = frozenset()  # empty if the kernel does not list them
    is_filtered: bool = False  # a thread has a seccomp filter
    resident_bytes: int = field(compare=False, default=0)


def mappings(pid: int, proc: str = procfs.PROC) -> list[Mapping]:
    """Return the mappings of a process, with equal adjacent mappings of one file joined."""
    result: list[Mapping] = []
    for mapping in read_maps(f"{proc}/{pid}"):
        if result and _continues(result[-1], mapping):
            mapping = result.pop()._replace(end=mapping.end)
        result.append(mapping)
    return result


def _is_file(mapping: Mapping) -> bool:
    """Return True for a mapped file and for the vDSO: their bytes never change."""
    return mapping.path.startswith("/") or mapping.path == VDSO


def _continues(mapping: Mapping, following: Mapping) -> bool:
    """Return True if ``following`` continues ``mapping``: same file, same permissions, no gap."""
    return (
        mapping.path.startswith("/")
        and (mapping.shown_path, mapping.permissions)
        == (following.shown_path, following.permissions)
        and mapping.end == following.start
        and mapping.file_offset + mapping.size == following.file_offset
    )


def take(pid: int, proc: str = procfs.PROC) -> Receipt:
    """Take a snapshot of a process. The process may run meanwhile.

    Raises:
        FileNotFoundError, ProcessLookupError: the process has ended.
        PermissionError: we may not trace it.
    """
    names, signals, is_filtered = _threads(pid, proc)
    found = mappings(pid, proc)
    executable = [mapping for mapping in found if "x" in mapping.permissions]
    status = _status(f"{proc}/{pid}/status")
    return Receipt(
        pid=pid,
        threads=names,
        descriptors=_descriptors(pid, proc),
        signals=signals,
        code=_written_pages(pid, [m for m in executable if _is_file(m)], proc),
        anonymous_code=sorted(m.end - m.start for m in executable if not m.path),
        memory_files=sorted(
            m.shown_path for m in found if m.path.startswith("/memfd:") or "frida" in m.path
        ),
        files=frozenset(m.shown_path for m in found if m.path.startswith("/")),
        tracer=int(status["TracerPid"]),
        cpu_timers=_cpu_timers(pid, proc),
        is_filtered=is_filtered,
        resident_bytes=int(status.get("VmRSS", "0 kB").split()[0]) << 10,
    )


def file_page(user: ProcessUser, mapping: Mapping, runtime_addr: int) -> str:
    """Return the digest of the page in the mapped file; "" if the file cannot be read.

    ``mapping`` may be several, joined: the link to its file is that of the one with the page. The
    vDSO is the same in all processes, ours too.
    """
    if mapping.path == VDSO:
        start = runtime_addr - mapping.start
        return _digest(own_vdso()[start : start + mmap.PAGESIZE])
    file_offset = mapping.file_offset + runtime_addr - mapping.start
    fd = open_mapped_file(user, _part_of(user, mapping, runtime_addr))
    if fd is None:
        return ""
    try:
        page = os.pread(fd, mmap.PAGESIZE, file_offset)
    except OSError:
        return ""
    finally:
        os.close(fd)
    return _digest(page.ljust(mmap.PAGESIZE, b"\0"))


def _part_of(user: ProcessUser, mapping: Mapping, runtime_addr: int) -> Mapping:
    """Return the one of joined mappings that holds an address."""
    with contextlib.suppress(OSError):  # the process has ended
        for part in read_maps(user.folder):
            is_here = part.start <= runtime_addr < part.end
            if is_here and (part.device, part.inode) == (mapping.device, mapping.inode):
                return part
    return mapping


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _written_pages(pid: int, code: list[Mapping], proc: str) -> dict[Mapping, dict[int, str]]:
    result: dict[Mapping, dict[int, str]] = {}
    with (
        open(f"{proc}/{pid}/pagemap", "rb", buffering=0) as pagemap,
        open(f"{proc}/{pid}/mem", "rb", buffering=0) as memory,
    ):
        for mapping in code:
            pages = {}
            entries = array.array("Q")
            # Leave out a mapping that has been unmapped since /proc/PID/maps was read.
            with contextlib.suppress(OSError):
                size_bytes = (mapping.end - mapping.start) // mmap.PAGESIZE * entries.itemsize
                raw = os.pread(
                    pagemap.fileno(), size_bytes, mapping.start // mmap.PAGESIZE * entries.itemsize
                )
                entries.frombytes(raw[: len(raw) // entries.itemsize * entries.itemsize])
                for index, entry in enumerate(entries):
                    if entry & (PRESENT | SWAPPED) and not entry & OF_FILE:
                        start = mapping.start + index * mmap.PAGESIZE
                        pages[start] = _digest(os.pread(memory.fileno(), mmap.PAGESIZE, start))
                result[mapping] = pages
    return result


def _descriptors(pid: int, proc: str) -> dict[int, str]:
    result = {}
    for entry in os.listdir(f"{proc}/{pid}/fd"):
        # Leave out a descriptor that was closed between the two calls.
        with contextlib.suppress(FileNotFoundError):
            result[int(entry)] = os.readlink(f"{proc}/{pid}/fd/{entry}")
    return result


def _cpu_timers(pid: int, proc: str) -> frozenset[CpuTimer]:
    """Read the CPU timers from /proc/PID/timers.

    Return an empty set on kernels without that file (no CONFIG_CHECKPOINT_RESTORE).
    """
    try:
        with open(f"{proc}/{pid}/timers", encoding="ascii") as file:
            text = file.read()
    except FileNotFoundError:
        return frozenset()
    found, fields = set(), dict[str, str]()
    for line in text.splitlines():
        name, _, value = line.partition(":")
        fields[name] = value.strip()
        if name != "ClockID":  # the last line of each timer
            continue
        how, _, tid = fields["notify"].partition("/tid.")  # else "/pid."
        # The CPU clock of a process or a thread has a negative clock id.
        if how == "signal" and int(fields["ClockID"]) < 0:
            number = int(fields["signal"].partition("/")[0])
            found.add(CpuTimer(int(fields["ID"]), number, int(tid)))
    return frozenset(found)


def _threads(pid: int, proc: str) -> tuple[dict[int, str], dict[int, dict[str, int]], bool]:
    """Return the threads' names, their signal masks, and whether one has a seccomp filter."""
    names, signals, is_filtered = {}, {}, False
    for tid in procfs.list_tasks(pid, proc):
        # Leave out a thread that has ended between the two calls.
        with contextlib.suppress(*procfs.GONE):
            lines = _status(f"{proc}/{pid}/task/{tid}/status")
            names[tid] = lines["Name"]
            signals[tid] = {name: int(lines[name], 16) for name in SIGNAL_FIELDS}
            is_filtered |= lines.get("Seccomp") == str(procfs.SECCOMP_FILTER)
    return names, signals, is_filtered


def _status(path: str) -> dict[str, str]:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        pairs = (line.partition(":")[::2] for line in file)
        return {key: value.strip() for key, value in pairs}
