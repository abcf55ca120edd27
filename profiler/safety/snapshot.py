"""One look at a process: what must be the same before we came and after we left.

Taken from outside, through procfs alone, so that taking it changes nothing, not even which pages
are in memory. ``snapshot_diff`` compares two of them. proc(5),
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
from ..linux.maps import Mapping, read_maps

SIGNAL_FIELDS = ("SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt")
# Bits of a pagemap entry: in memory, in swap; of a file (a private copy is not).
PRESENT, SWAPPED, OF_FILE = 1 << 63, 1 << 62, 1 << 61


@dataclass(frozen=True)
class CpuTimer:
    """A POSIX timer on a CPU clock that sends a signal to one thread: timer_create(2)."""

    timer_id: int
    signal: int
    tid: int


@dataclass(frozen=True)
class Receipt:
    """What a process was like at one moment."""

    pid: int
    threads: dict[int, str]  # tid → name
    descriptors: dict[int, str]  # fd → what it refers to
    signals: dict[int, dict[str, int]]  # tid → mask name → mask, bit 0 is signal 1
    # Executable mappings of files → the pages of them that are no longer the file's own: their
    # runtime_addr → digest of their bytes. A page that somebody wrote to is such a page.
    code: dict[Mapping, dict[int, str]]
    anonymous_code: list[int]  # sizes of executable mappings without a file
    memory_files: list[str]  # mappings of memfds and of Frida's files
    files: frozenset[str]  # all that are mapped
    tracer: int
    cpu_timers: frozenset[CpuTimer] = frozenset()  # empty where the kernel does not tell
    is_filtered: bool = False  # a thread has a seccomp filter
    resident_bytes: int = field(compare=False, default=0)


def mappings(pid: int, proc: str = procfs.PROC) -> list[Mapping]:
    """The mappings of a process. What the kernel has split in two without a difference counts as
    one."""
    result: list[Mapping] = []
    for mapping in read_maps(f"{proc}/{pid}"):
        if result and _continues(result[-1], mapping):
            mapping = result.pop()._replace(end=mapping.end)
        result.append(mapping)
    return result


def _is_file(mapping: Mapping) -> bool:
    """True for a mapped file and for the vDSO: what has bytes that never change."""
    return mapping.path.startswith("/") or mapping.path == "[vdso]"


def _continues(mapping: Mapping, following: Mapping) -> bool:
    """True when ``following`` goes on where ``mapping`` ends, in the same file with the same
    rights."""
    return (
        mapping.path.startswith("/")
        and (mapping.shown_path, mapping.permissions)
        == (following.shown_path, following.permissions)
        and mapping.end == following.start
        and mapping.file_offset + mapping.size == following.file_offset
    )


def take(pid: int, proc: str = procfs.PROC) -> Receipt:
    """Looks at a process. It may go on running meanwhile.

    Raises:
        FileNotFoundError, ProcessLookupError: it has gone.
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


def file_page(pid: int, mapping: Mapping, runtime_addr: int, proc: str = procfs.PROC) -> str:
    """Digest of the page as the mapped file has it; empty when the file cannot be read."""
    fd = procfs.open_mapped_file(pid, mapping, proc)
    if fd is None:
        return ""
    try:
        page = os.pread(fd, mmap.PAGESIZE, mapping.file_offset + runtime_addr - mapping.start)
    except OSError:
        return ""
    finally:
        os.close(fd)
    return _digest(page.ljust(mmap.PAGESIZE, b"\0"))


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
            # Unmapped between two looks: it is not there.
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
        # Closed between the two calls.
        with contextlib.suppress(FileNotFoundError):
            result[int(entry)] = os.readlink(f"{proc}/{pid}/fd/{entry}")
    return result


def _cpu_timers(pid: int, proc: str) -> frozenset[CpuTimer]:
    """From /proc/PID/timers, which kernels without CONFIG_CHECKPOINT_RESTORE do not have."""
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
        # A clock of a process or a thread has a negative number.
        if how == "signal" and int(fields["ClockID"]) < 0:
            number = int(fields["signal"].partition("/")[0])
            found.add(CpuTimer(int(fields["ID"]), number, int(tid)))
    return frozenset(found)


def _threads(pid: int, proc: str) -> tuple[dict[int, str], dict[int, dict[str, int]], bool]:
    """Names, signal masks, and whether one has a seccomp filter."""
    names, signals, is_filtered = {}, {}, False
    for tid in procfs.list_tasks(pid, proc):
        # Ended between the two calls.
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
