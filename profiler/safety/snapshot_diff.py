"""What differs between two receipts of a process, and who has to answer for it.

A process changes by itself, above all a busy one: that a thread, a descriptor or a library came or
went between two looks proves nothing. What only a profiler leaves behind is told apart from that,
and from the few things that Frida's injection is known to leave (tried on 17.26, glibc 2.36); those
stand here and nowhere else.
"""

from __future__ import annotations

import mmap
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from ..inject import fault_signals
from ..inject.frida_footprint import BOOTSTRAP_BYTES, LOADER_BYTES
from ..linux.maps import Mapping
from .snapshot import SIGNAL_FIELDS, Receipt, file_page

# Libraries that Frida's agent needs and the dynamic loader keeps once it has loaded them: libm,
# stubs that have held nothing but symbol versions since glibc 2.34, and what its use of iconv maps.
PINNED = ("libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "gconv-modules.cache")
# glibc installs its own handlers for these two when a process starts its first thread, or cancels
# one. The first thread of a single-threaded target is Frida's.
GLIBC_SIGNALS = 1 << (32 - 1) | 1 << (33 - 1)
# Frida may leave an anonymous rwx mapping of BOOTSTRAP_BYTES per attach, and one of LOADER_BYTES,
# which the profiler's side has the target unmap at the end of a detach, and cannot when it was
# killed or the target stood still.
# What Frida calls its threads. Newer ones leave them the name of the main thread, as the loader's
# always had.
INJECTED_THREADS = ("gmain", "gdbus", "gum-js-loop", "pool-frida", "pool-spawner", "flametap")
# What glibc and Go block for a moment while they start a thread: all but SIGKILL and SIGSTOP, with
# the two of glibc's own. A look that met that tells nothing of the time before.
STARTING = (1 << 64) - 1 - (1 << signal.SIGKILL - 1) - (1 << signal.SIGSTOP - 1)
# Signals that report a fault.
FAULTS = sum(1 << (number - 1) for number in fault_signals.FAULTS)
# Signals that the agent may use: agent/main.c.
OUR_SIGNALS = (signal.SIGURG, signal.SIGWINCH)


class Blame(str, Enum):
    """Who has to answer for a difference."""

    OURS = "ours"  # nobody but a profiler leaves this
    RESIDUE = "residue"  # what the injection is known to leave
    UNCLEAR = "unclear"  # came with the attach and may be the target's own
    TARGET = "target"  # what programs do by themselves


@dataclass(frozen=True)
class Difference:
    """One thing that is not as it was."""

    blame: Blame
    what: str
    why: str = ""  # for a residue: where it comes from


def differences(
    before: Receipt,
    after: Receipt,
    *,
    attached: Receipt | None = None,
    our_signal: int = 0,
) -> list[Difference]:
    """Everything that is not as it was.

    Args:
        before: from before the attach.
        after: from after the detach.
        attached: from while we were there: what came later than that is not from the attach.
        our_signal: the one the agent used; 0 when not known.
    """
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
                why = "glibc's own, set up with the first thread that is started in a process"
                difference = Difference(Blame.RESIDUE, "handlers for signals 32 and 33", why)
                found.setdefault(difference, []).append(tid)
            if changed:
                # Frida's calls end in a SIGSEGV: ``fault_signals``. A handler that goes is our
                # doing.
                is_lost = name in ("SigCgt", "SigIgn") and was & ~now & FAULTS
                is_theirs = not changed & ours or (name == "SigBlk" and was == STARTING)
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
    """Timers on CPU clocks: programs that profile themselves have some, with other signals."""
    ours = (our_signal,) if our_signal else OUR_SIGNALS
    new = after.cpu_timers - before.cpu_timers
    for timer in sorted(new, key=lambda timer: timer.timer_id):
        if timer.signal not in ours:
            continue
        what = f"CPU timer {timer.timer_id} of ours is still there, for thread {timer.tid}"
        if after.is_filtered and not before.is_filtered:
            why = "a seccomp filter came, which might kill for the call that deletes it; it is off"
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
            # Of the kinds that Frida opens; a server takes connections at any moment.
            blame = Blame.UNCLEAR if now.startswith(("socket:", "pipe:", "anon_inode:")) else blame
        yield Difference(blame, f"fd {fd} was {was}, is {now}")


def _code(before: Receipt, after: Receipt) -> Iterator[Difference]:
    for mapping, pages in after.code.items():
        name = mapping.path.rpartition("/")[2]
        copied = 0
        for runtime_addr, digest in sorted(pages.items()):
            was = before.code.get(mapping, {}).get(runtime_addr, "")
            if digest == was:
                continue
            in_file = file_page(after.pid, mapping, runtime_addr)
            where = f"code of {name} at {runtime_addr:#x}"
            if digest == in_file:
                copied += not was
            elif was or in_file:
                yield Difference(Blame.OURS, f"{where} is not what it was")
            else:
                yield Difference(Blame.UNCLEAR, f"{where} was written to; no file to compare with")
        if copied:
            why = "where Frida hooks the dynamic loader; the bytes are the file's again"
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
    """No program unmaps its C library or dynamic loader."""
    return mapping.path.rpartition("/")[2].startswith(("libc.so", "libc-2.", "ld-linux"))


def _files(before: Receipt, after: Receipt) -> Iterator[Difference]:
    for path in sorted(after.files - before.files - set(after.memory_files)):
        if path.endswith(PINNED):
            why = "the agent needed it, and what the dynamic loader has loaded it keeps"
            yield Difference(Blame.RESIDUE, path.rpartition("/")[2], why)
        else:
            yield Difference(Blame.TARGET, f"newly mapped: {path}")
    for path, count in (Counter(after.memory_files) - Counter(before.memory_files)).items():
        is_ours = "frida" in path or "flametap" in path
        what = f"left mapped: {path}" + (f" ({count} times)" if count > 1 else "")
        yield Difference(Blame.OURS if is_ours else Blame.TARGET, what)


def _anonymous_code(before: Receipt, after: Receipt) -> Iterator[Difference]:
    gained = Counter(after.anonymous_code) - Counter(before.anonymous_code)
    for size_bytes, count in sorted(gained.items()):
        what = f"{count * size_bytes >> 10} KB of executable memory without a file"
        if size_bytes == BOOTSTRAP_BYTES:
            yield Difference(Blame.RESIDUE, what, "Frida's bootstrapper ran in it")
        elif size_bytes == LOADER_BYTES:
            why = "Frida's loader ran in it; it is unmapped when a detach comes to its end"
            yield Difference(Blame.RESIDUE, what, why)
        else:
            # A program that makes code itself goes on doing so.
            blame = Blame.TARGET if before.anonymous_code else Blame.UNCLEAR
            yield Difference(blame, what)


def _memory(before: Receipt, after: Receipt) -> Iterator[Difference]:
    if after.tracer:
        yield Difference(Blame.OURS, f"traced by process {after.tracer}")
    gained_kib = (after.resident_bytes - before.resident_bytes) >> 10
    if gained_kib > 0:
        why = "malloc arenas and stacks of threads that have ended; what it used itself is in it"
        yield Difference(Blame.RESIDUE, f"{gained_kib:,} KB more resident memory", why)
