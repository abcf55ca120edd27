"""Compare two snapshots of a process, and name the cause of each difference.

A process also changes by itself, above all a busy one: a new or missing thread, descriptor or
library proves nothing. We distinguish such changes from changes that only a profiler causes, and
from the few things that Frida's injection is known to leave behind (tested on 17.26, glibc 2.36).
This file is the only list of the latter.
"""

from __future__ import annotations

import mmap
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from ..inject.frida import fault_signals
from ..inject.frida.footprint import BOOTSTRAP_BYTES, LOADER_BYTES
from ..linux.file_rights import ProcessUser
from ..linux.maps import Mapping
from .snapshot import SIGNAL_FIELDS, Receipt, file_page

# Files that Frida's agent needs and that stay mapped: libm, stubs that have contained only symbol
# versions since glibc 2.34, and the cache that glibc maps for iconv.
PINNED = ("libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "gconv-modules.cache")
# glibc installs its own handlers for these two signals when a process starts its first thread, or
# cancels one. In a single-threaded target, Frida starts the first thread.
GLIBC_SIGNALS = 1 << (32 - 1) | 1 << (33 - 1)
# Names of Frida's threads. Newer versions do not name them: they keep the name of the main thread,
# as the loader's thread always did.
INJECTED_THREADS = ("gmain", "gdbus", "gum-js-loop", "pool-frida", "pool-spawner", "flametap")
# Signals that are blocked for a moment while a thread is started: all but SIGKILL and SIGSTOP; by
# Go with cgo, which uses glibc, all but glibc's own two; by musl all but its three. A snapshot with
# such a mask does not show the mask that the thread has otherwise.
STARTING_ALL = (1 << 64) - 1 - (1 << signal.SIGKILL - 1) - (1 << signal.SIGSTOP - 1)
MUSL_SIGNALS = sum(1 << (number - 1) for number in (32, 33, 34))
STARTING = (STARTING_ALL, STARTING_ALL & ~GLIBC_SIGNALS, STARTING_ALL & ~MUSL_SIGNALS)
# Signals that report a fault.
FAULTS = sum(1 << (number - 1) for number in fault_signals.FAULTS)
# Signals that the agent may use: agent/main.c.
OUR_SIGNALS = (signal.SIGURG, signal.SIGWINCH)


class Blame(str, Enum):
    """The cause of a difference."""

    OURS = "ours"  # only a profiler causes this
    RESIDUE = "residue"  # Frida's injection is known to leave this behind
    UNCLEAR = "unclear"  # appeared during the attach, but the target may have caused it
    TARGET = "target"  # programs do this by themselves


@dataclass(frozen=True)
class Difference:
    """One difference between two snapshots."""

    blame: Blame
    what: str
    why: str = ""  # of a residue: its cause


def differences(
    before: Receipt,
    after: Receipt,
    *,
    attached: Receipt | None = None,
    our_signal: int = 0,
    by_frida: bool = True,
) -> list[Difference]:
    """Return all differences between two snapshots of a process.

    Args:
        before: taken before the attach.
        after: taken after the detach.
        attached: taken while attached. A thread or descriptor that it lacks came later, so the
            attach did not cause it.
        our_signal: the number of the signal that the agent used; 0 if unknown.
        by_frida: whether it was the way in, which brings threads and descriptors with any name.
    """
    if not by_frida:
        attached = None
    return [
        *_threads(before, after, attached),
        *_signals(before, after, our_signal),
        *_timers(before, after, our_signal),
        *_descriptors(before, after, attached),
        *_code(before, after),
        *_files(before, after),
        *_anonymous_code(before, after),
        *_memory(before, after),
    ]


def _threads(before: Receipt, after: Receipt, attached: Receipt | None) -> Iterator[Difference]:
    for tid in sorted(after.threads.keys() - before.threads.keys()):
        name = after.threads[tid]
        blame = Blame.TARGET
        if name in INJECTED_THREADS and name not in before.threads.values():
            blame = Blame.OURS
        elif attached is not None and tid in attached.threads:
            blame = Blame.UNCLEAR
        yield Difference(blame, f"new thread {tid} ({name})")
    for tid in sorted(before.threads.keys() - after.threads.keys()):
        yield Difference(Blame.TARGET, f"thread {tid} ({before.threads[tid]}) is gone")


def _signals(before: Receipt, after: Receipt, our_signal: int) -> Iterator[Difference]:
    ours = 1 << our_signal >> 1 if our_signal else sum(1 << number - 1 for number in OUR_SIGNALS)
    found: dict[Difference, list[int]] = {}
    for tid in sorted(before.signals.keys() & after.signals.keys()):
        for name in SIGNAL_FIELDS:
            was, now = before.signals[tid][name], after.signals[tid][name]
            changed = was ^ now
            if name == "SigCgt" and changed & GLIBC_SIGNALS:
                changed &= ~GLIBC_SIGNALS
                why = "glibc's own, installed when a process starts its first thread"
                difference = Difference(Blame.RESIDUE, "handlers for signals 32 and 33", why)
                found.setdefault(difference, []).append(tid)
            if changed:
                # Frida's remote calls end in a SIGSEGV (``fault_signals``). If a handler for a
                # fault is missing, we have removed it.
                is_lost = name in ("SigCgt", "SigIgn") and was & ~now & FAULTS
                was_starting = name == "SigBlk" and was in STARTING and changed & ~ours
                is_theirs = not changed & ours or was_starting
                is_theirs = is_theirs and not is_lost
                blame = Blame.TARGET if is_theirs else Blame.OURS
                what = f"{name} was {was:016x}, is {now:016x}"
                found.setdefault(Difference(blame, what), []).append(tid)
    for difference, tids in found.items():
        if difference.blame is Blame.RESIDUE:
            yield difference
        else:
            names = ", ".join(f"{tid} ({after.threads[tid]})" for tid in tids[:4])
            yield Difference(difference.blame, f"thread {names}: {difference.what}")


def _timers(before: Receipt, after: Receipt, our_signal: int) -> Iterator[Difference]:
    """Yield the CPU timers that send our signal.

    Programs that profile themselves have CPU timers, too, but with other signals.
    """
    ours = (our_signal,) if our_signal else OUR_SIGNALS
    new = after.cpu_timers - before.cpu_timers
    for timer in sorted(new, key=lambda timer: timer.timer_id):
        if timer.signal not in ours:
            continue
        what = f"CPU timer {timer.timer_id} of ours is still there, for thread {timer.tid}"
        if after.is_filtered and not before.is_filtered:
            why = "disarmed only: a new seccomp filter might kill the target for timer_delete(2)"
            yield Difference(Blame.RESIDUE, what, why)
        else:
            yield Difference(Blame.OURS, what)


def _descriptors(before: Receipt, after: Receipt, attached: Receipt | None) -> Iterator[Difference]:
    for fd in sorted(before.descriptors.keys() | after.descriptors.keys()):
        was, now = before.descriptors.get(fd, "closed"), after.descriptors.get(fd, "closed")
        if was == now:
            continue
        blame = Blame.TARGET
        if "frida" in now or "flametap" in now:
            blame = Blame.OURS
        elif attached is not None and attached.descriptors.get(fd) == now:
            # Frida opens these kinds, but a server may accept a connection at any moment, too.
            blame = Blame.UNCLEAR if now.startswith(("socket:", "pipe:", "anon_inode:")) else blame
        yield Difference(blame, f"fd {fd} was {was}, is {now}")


def _code(before: Receipt, after: Receipt) -> Iterator[Difference]:
    user = ProcessUser(after.pid)
    for mapping, pages in after.code.items():
        name = mapping.path.rpartition("/")[2]
        copied = 0
        for runtime_addr, digest in sorted(pages.items()):
            was = before.code.get(mapping, {}).get(runtime_addr, "")
            if digest == was:
                continue
            in_file = file_page(user, mapping, runtime_addr)
            where = f"code of {name} at {runtime_addr:#x}"
            if digest == in_file:
                copied += not was
            elif was or in_file:
                yield Difference(Blame.OURS, f"{where} is not what it was")
            else:
                yield Difference(Blame.UNCLEAR, f"{where} was written to; no file to compare with")
        if copied:
            why = "written to for the attach; the bytes are the original ones again"
            what = f"{copied * mmap.PAGESIZE >> 10} KB of {name} as a private copy"
            yield Difference(Blame.RESIDUE, what, why)
    for mapping in before.code.keys() - after.code.keys():
        yield Difference(
            Blame.OURS if _is_basic(mapping) else Blame.TARGET,
            f"code of {mapping.shown_path} at {mapping.start:#x} is gone or has other rights",
        )
    for mapping in after.code.keys() - before.code.keys():
        if mapping.shown_path in before.files:
            what = f"new code: {mapping.shown_path} {mapping.permissions} at {mapping.start:#x}"
            yield Difference(Blame.OURS if _is_basic(mapping) else Blame.TARGET, what)


def _is_basic(mapping: Mapping) -> bool:
    """Return True for the C library and the dynamic loader, which no program unmaps."""
    return mapping.path.rpartition("/")[2].startswith(("libc.so", "libc-2.", "ld-linux"))


def _files(before: Receipt, after: Receipt) -> Iterator[Difference]:
    for path in sorted(after.files - before.files - set(after.memory_files)):
        if path.endswith(PINNED):
            why = "the agent needed it, and the dynamic loader keeps it loaded"
            yield Difference(Blame.RESIDUE, path.rpartition("/")[2], why)
        else:
            yield Difference(Blame.TARGET, f"newly mapped: {path}")
    for path, count in (Counter(after.memory_files) - Counter(before.memory_files)).items():
        is_ours = "frida" in path or "flametap" in path
        what = f"left mapped: {path}" + (f" ({count} times)" if count > 1 else "")
        yield Difference(Blame.OURS if is_ours else Blame.TARGET, what)


def _anonymous_code(before: Receipt, after: Receipt) -> Iterator[Difference]:
    """Yield new executable memory without a file.

    Frida may leave one anonymous rwx mapping of BOOTSTRAP_BYTES per attach, and one of
    LOADER_BYTES. The profiler makes the target unmap the latter at the end of a detach; it cannot
    if it was killed, or if the target was stopped.
    """
    gained = Counter(after.anonymous_code) - Counter(before.anonymous_code)
    for size_bytes, count in sorted(gained.items()):
        what = f"{count * size_bytes >> 10} KB of executable memory without a file"
        if size_bytes == BOOTSTRAP_BYTES:
            yield Difference(Blame.RESIDUE, what, "Frida's bootstrapper ran in it")
        elif size_bytes == LOADER_BYTES:
            why = "Frida's loader ran in it; a complete detach unmaps it"
            yield Difference(Blame.RESIDUE, what, why)
        else:
            # A program that already had generated code may generate more.
            blame = Blame.TARGET if before.anonymous_code else Blame.UNCLEAR
            yield Difference(blame, what)


def _memory(before: Receipt, after: Receipt) -> Iterator[Difference]:
    if after.tracer:
        yield Difference(Blame.OURS, f"traced by process {after.tracer}")
    gained_kib = (after.resident_bytes - before.resident_bytes) >> 10
    if gained_kib > 0:
        why = "of the attach, and growth of the program itself"
        yield Difference(Blame.RESIDUE, f"{gained_kib:,} KB more resident memory", why)
