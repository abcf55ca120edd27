"""Find executable bytes of a process that belong to nothing: the stub's place.

Behind the end of the vDSO's image its last page holds zeros, some 1.5 to 3.5 KB, and every 64-bit
process has that page. Where it has none, or a kernel with a larger image, the end of the last page
of another file's code serves, if the linker has filled it with zeros. A write through
/proc/PID/mem gives the process a copy of that page of its own; the mapping stays as it is.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence

from flametap.agent import machine_code

from ...errors import CannotAttachError
from ...linux.elf_headers import (
    PF_X,
    PT_LOAD,
    ElfHeaderError,
    parse_header,
    read_program_headers,
)
from ...linux.maps import Mapping, read_maps
from ...linux.tasks import cpu_ns, read_call, tasks
from ..link.target_memory import TargetMemory
from .stub import Stub

OWN_NAME = "flametap"  # of our thread
ALIGNMENT = 16
LOOKS = 30
LOOK_INTERVAL_S = 0.005
# Within the stub a thread makes three system calls: some microseconds.
LEFT_CPU_NS = 300_000
# So many zeros must come before the place, too: data may end with some.
MARGIN_BYTES = 64
HEAD_BYTES = 4096  # of an image: its header and those of its segments


class NoPlaceError(CannotAttachError):
    """The direct way does not lead into this process: there is no place for the stub."""


class InUseError(CannotAttachError):
    """The thread of another host is there, which ends soon if that host has."""


def find(memory: TargetMemory, stub: bytes, nap_offset: int) -> int:
    """Return where the stub can be written, runtime_addr.

    Args:
        memory: of the process.
        stub: its bytes; the first ``nap_offset`` of them are the same in every entry.
        nap_offset: see ``stub.Stub``.

    Raises:
        NoPlaceError: there is no such place.
        InUseError: our thread of another host is there.
    """
    was_read: list[bool] = []
    mappings = list(read_maps(f"/proc/{memory.pid}"))
    for mapping in _candidates(mappings):
        at = (mapping.end - len(stub)) & -ALIGNMENT
        found = memory.read(at - MARGIN_BYTES, mapping.end - at + MARGIN_BYTES)
        was_read.append(bool(found))
        if len(found) < len(stub) + MARGIN_BYTES:
            continue
        if _end_of_code(memory, mapping, mappings) > at:
            continue
        if not any(found):
            return at
        # What a host has left that was killed. Our thread ends 3 s later.
        is_stub = found[MARGIN_BYTES : MARGIN_BYTES + nap_offset] == stub[:nap_offset]
        if is_stub and not any(found[:MARGIN_BYTES]):
            if not is_in_use(memory.pid, range(at, at + len(stub))):
                return at
            raise InUseError(
                f"process {memory.pid} still holds the agent of another flametap",
                "wait some seconds: it ends by itself when its host has",
            )
    if was_read and not any(was_read):
        raise CannotAttachError(
            f"process {memory.pid} has just become another program, or is ending", "try again"
        )
    raise NoPlaceError(
        f"process {memory.pid} has no {len(stub)} unused bytes of executable memory",
        "try --inject frida",
    )


def check(pid: int) -> None:
    """Look whether there is a place; nothing is written.

    Raises:
        CannotAttachError: there is none.
    """
    stub = Stub.of(machine_code.read())
    with contextlib.closing(TargetMemory(pid)) as memory:
        find(memory, stub.code, stub.nap_offset)


def is_in_use(pid: int, place: range, looks: int = LOOKS) -> bool:
    """Tell whether a thread of ours is in a process, or one of its own in a place.

    Where a running thread is cannot be seen; it has left once it has used some CPU time. Ours has
    its name from the first moment at which it runs.

    Args:
        pid: the process.
        place: the runtime addresses.
        looks: so many at most, each after ``LOOK_INTERVAL_S``.
    """
    left: set[int] = set()
    # A thread that is in the stub may make ours meanwhile: that one is there at the second look.
    for _ in range(2):
        waiting = {tid: cpu_ns(pid, tid) for tid in tasks(pid) - left}
        for _ in range(looks):
            for tid, before_ns in list(waiting.items()):
                if _is_ours(pid, tid):
                    return True
                if has_left(pid, tid, place, before_ns):
                    del waiting[tid]
                    left.add(tid)
            if not waiting:
                break
            time.sleep(LOOK_INTERVAL_S)
        else:
            return True
    return False


def has_left(pid: int, tid: int, place: range, before_ns: int) -> bool:
    """Tell whether a thread is not in a place any more, as far as can be seen.

    Args:
        pid: its process.
        tid: the thread.
        place: the runtime addresses.
        before_ns: the CPU time that it had used at most when it was there.
    """
    try:
        call = read_call(pid, tid)
    except OSError:  # it has ended
        return True
    if call is not None:
        return call.pc not in place
    return cpu_ns(pid, tid) - before_ns >= LEFT_CPU_NS


def _is_ours(pid: int, tid: int) -> bool:
    try:
        with open(f"/proc/{pid}/task/{tid}/comm") as file:
            return file.read().strip() == OWN_NAME
    except OSError:  # it has ended
        return False


def _candidates(mappings: Sequence[Mapping]) -> Iterator[Mapping]:
    """Yield the vDSO, then the code of files, the last mapping of each first."""
    found = [each for each in mappings if each.permissions in ("r-xp", "--xp") and each.path]
    yield from (each for each in found if each.path == "[vdso]")
    yield from (each for each in reversed(found) if each.path.startswith("/"))


def _end_of_code(memory: TargetMemory, mapping: Mapping, mappings: Sequence[Mapping]) -> int:
    """Return where the image in a mapping ends, runtime_addr; the end of the mapping if unknown."""
    # The file's first mapping, which begins with its headers.
    base = min(each.start for each in mappings if each.path == mapping.path)
    head = memory.read(base, HEAD_BYTES)
    try:
        header = parse_header(head)
        segments = read_program_headers(header, lambda offset, size: head[offset : offset + size])
    except ElfHeaderError:
        return mapping.end
    loaded = [each for each in segments if each.kind == PT_LOAD]
    if not loaded:
        return mapping.end
    bias = base - min(each.vaddr for each in loaded) // 4096 * 4096
    ends = [
        bias + each.vaddr + each.memory_size
        for each in loaded
        if each.flags & PF_X and mapping.start <= bias + each.vaddr < mapping.end
    ]
    if mapping.path == "[vdso]":  # the kernel maps the whole file, with its table of sections
        sections = header.section_headers
        ends.append(base + sections.offset + sections.entries * sections.entry_bytes)
    return max(ends, default=mapping.end)
