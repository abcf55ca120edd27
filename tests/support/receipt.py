"""The no-harm receipt: what must be the same in a target before we came and after we left.

Taken from outside, through procfs alone, so that taking it changes nothing. ``harm`` compares two
and names each difference; an empty list means unharmed. The few things that Frida is known to leave
behind (DESIGN.md §2.1) are listed here and nowhere else.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from dataclasses import dataclass, replace
from pathlib import Path

import kernel

# Libraries that Frida's agent needs and the dynamic loader keeps once it has loaded them: libm, and
# three stubs that have held nothing but symbol versions since glibc 2.34.
PINNED_LIBRARIES = ("libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1")
# glibc installs its own handlers for these two when a process starts its first thread, or cancels
# one. The first thread of a single-threaded target is Frida's.
GLIBC_SIGNALS = 1 << (32 - 1) | 1 << (33 - 1)
# Frida may leave one anonymous rwx mapping of this size per attach: what its bootstrapper ran in.
BOOTSTRAP_BYTES = 28 * 1024
# The mapping of Frida's loader. The profiler's side has the target unmap it at the end of a detach,
# and cannot when it was killed.
LOADER_BYTES = 72 * 1024
SIGNAL_FIELDS = ("SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt")


@dataclass(frozen=True)
class Mapping:
    """One line of /proc/PID/maps."""

    start: int
    end: int
    permissions: str
    offset: int
    path: str  # "" for anonymous memory

    @property
    def is_file(self) -> bool:
        """True for a mapped file and for the vDSO: what has bytes that never change."""
        return self.path.startswith("/") or self.path == "[vdso]"

    def continues_in(self, following: Mapping) -> bool:
        """True when ``following`` goes on where this one ends, in the same file with the same
        rights."""
        return (
            self.path.startswith("/")
            and (self.path, self.permissions) == (following.path, following.permissions)
            and self.end == following.start
            and self.offset + self.end - self.start == following.offset
        )


@dataclass(frozen=True)
class Receipt:
    """One look at a process."""

    threads: dict[int, str]  # tid → name
    descriptors: dict[int, str]  # fd → what it refers to
    signals: dict[int, dict[str, str]]  # tid → mask name → hexadecimal mask
    code: dict[Mapping, str]  # executable mappings of files → digest of their bytes in memory
    anonymous_code: list[int]  # sizes of executable mappings without a file
    memory_files: list[str]  # mappings of memfds and of files that are gone
    tracer: str


def maps(pid: int) -> list[Mapping]:
    """The mappings of a process. What the kernel has split in two without a difference counts as
    one."""
    result: list[Mapping] = []
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        fields = line.split(maxsplit=5)
        start, end = (int(part, 16) for part in fields[0].split("-"))
        path = fields[5] if len(fields) > 5 else ""
        mapping = Mapping(start, end, fields[1], int(fields[2], 16), path)
        if result and result[-1].continues_in(mapping):
            mapping = replace(result.pop(), end=end)
        result.append(mapping)
    return result


def _digest(pid: int, mapping: Mapping) -> str:
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        memory.seek(mapping.start)
        digest = hashlib.blake2b(digest_size=16)
        left = mapping.end - mapping.start
        while left:
            block = memory.read(min(left, 1 << 20))
            digest.update(block)
            left -= len(block)
    return digest.hexdigest()


def _digests(pid: int, mappings: list[Mapping]) -> dict[Mapping, str]:
    result = {}
    for mapping in mappings:
        # Unmapped between the two looks: it is not there.
        with contextlib.suppress(OSError):
            result[mapping] = _digest(pid, mapping)
    return result


def _descriptors(pid: int) -> dict[int, str]:
    result = {}
    for entry in os.listdir(f"/proc/{pid}/fd"):
        try:
            result[int(entry)] = os.readlink(f"/proc/{pid}/fd/{entry}")
        except FileNotFoundError:
            continue  # closed between the two calls
    return result


def _threads(pid: int) -> tuple[dict[int, str], dict[int, dict[str, str]]]:
    names, signals = {}, {}
    for tid in kernel.task_ids(pid):
        try:
            lines = kernel.status(pid, tid)
        except (FileNotFoundError, ProcessLookupError):
            continue  # ended between the two calls
        names[tid] = lines["Name"]
        signals[tid] = {field: lines[field] for field in SIGNAL_FIELDS}
    return names, signals


def take(pid: int) -> Receipt:
    """Looks at a process. It may go on running meanwhile."""
    names, signals = _threads(pid)
    mappings = maps(pid)
    executable = [mapping for mapping in mappings if "x" in mapping.permissions]
    return Receipt(
        threads=names,
        descriptors=_descriptors(pid),
        signals=signals,
        code=_digests(pid, [m for m in executable if m.is_file]),
        anonymous_code=[m.end - m.start for m in executable if not m.path],
        memory_files=sorted(
            m.path for m in mappings if m.path.startswith("/memfd:") or "frida" in m.path
        ),
        tracer=kernel.status(pid)["TracerPid"],
    )


def take_at_rest(pid: int, *, timeout_s: float = 2.0) -> Receipt:
    """``take``, when two looks in a row agree: no thread is just being started, say. The last one
    after ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    before = take(pid)
    while True:
        time.sleep(0.02)
        after = take(pid)
        if after == before or time.monotonic() > deadline:
            return after
        before = after


def harm(
    before: Receipt,
    after: Receipt,
    *,
    attaches: int = 1,
    was_killed: bool = False,
    has_jit: bool = False,
    own_threads: str = "",
) -> list[str]:
    """Names each difference that should not be there.

    Args:
        attaches: how often the target was attached to: each may leave one bootstrap mapping.
        was_killed: the profiler was killed: the loader's mapping may be left, too.
        has_jit: the target makes code itself: its anonymous code is not compared.
        own_threads: pattern for names of threads that the target starts and ends as it likes
            (jemalloc's, the JVM's collectors).
    """
    return [
        *_thread_harm(before, after, own_threads),
        *_descriptor_harm(before, after),
        *_code_harm(before, after),
        *([] if has_jit else _anonymous_code_harm(before, after, attaches, was_killed)),
        *(f"left mapped: {path}" for path in after.memory_files if path not in before.memory_files),
        *([] if after.tracer == "0" else [f"traced by {after.tracer}"]),
    ]


def _thread_harm(before: Receipt, after: Receipt, own_threads: str) -> list[str]:
    def is_own(name: str) -> bool:
        return bool(own_threads) and re.fullmatch(own_threads, name) is not None

    found = []
    for tid in after.threads.keys() - before.threads.keys():
        if not is_own(after.threads[tid]):
            found.append(f"new thread {tid} ({after.threads[tid]})")
    for tid in before.threads.keys() - after.threads.keys():
        if not is_own(before.threads[tid]):
            found.append(f"thread {tid} ({before.threads[tid]}) is gone")
    for tid in before.threads.keys() & after.threads.keys():
        for field in SIGNAL_FIELDS:
            was, now = before.signals[tid][field], after.signals[tid][field]
            changed = int(was, 16) ^ int(now, 16)
            if changed & ~(GLIBC_SIGNALS if field == "SigCgt" else 0):
                found.append(f"thread {tid} ({after.threads[tid]}): {field} was {was}, is {now}")
    return found


def _descriptor_harm(before: Receipt, after: Receipt) -> list[str]:
    found = []
    for fd in sorted(before.descriptors.keys() | after.descriptors.keys()):
        was, now = before.descriptors.get(fd, "closed"), after.descriptors.get(fd, "closed")
        if was != now:
            found.append(f"fd {fd} was {was}, is {now}")
    return found


def _code_harm(before: Receipt, after: Receipt) -> list[str]:
    found = []
    for mapping, digest in before.code.items():
        if mapping not in after.code:
            found.append(
                f"code of {mapping.path} at {mapping.start:#x} is gone or has other rights"
            )
        elif after.code[mapping] != digest:
            found.append(f"code of {mapping.path} at {mapping.start:#x} was changed")
    for mapping in after.code.keys() - before.code.keys():
        if not mapping.path.endswith(PINNED_LIBRARIES):
            found.append(f"new code: {mapping.path} {mapping.permissions} at {mapping.start:#x}")
    return found


def _anonymous_code_harm(
    before: Receipt, after: Receipt, attaches: int, was_killed: bool
) -> list[str]:
    gained = sum(after.anonymous_code) - sum(before.anonymous_code)
    if gained > attaches * BOOTSTRAP_BYTES + was_killed * LOADER_BYTES:
        return [f"{gained} bytes of anonymous code left behind by {attaches} attaches"]
    return []


def harm_after_settling(
    pid: int,
    before: Receipt,
    *,
    timeout_s: float = 4.0,
    attaches: int = 1,
    was_killed: bool = False,
    has_jit: bool = False,
    own_threads: str = "",
) -> list[str]:
    """``harm``, after the asynchronous part of the unload: what is still wrong when ``timeout_s``
    is over."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = harm(
            before,
            take(pid),
            attaches=attaches,
            was_killed=was_killed,
            has_jit=has_jit,
            own_threads=own_threads,
        )
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.05)
