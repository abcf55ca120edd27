"""Find executable bytes of a process that belong to nothing: the stub's place.

Behind the end of the vDSO's image its last page holds zeros, some 1.5 to 3.5 KB, and every 64-bit
process has that page. Where it has none, or a kernel with a larger image, the end of the last page
of another file's code serves, if the linker has filled it with zeros. A write through
/proc/PID/mem gives the process a copy of that page of its own; the mapping stays as it is.
"""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Iterator

from flametap.agent import machine_code

from ...errors import CannotAttachError
from ...linux.maps import Mapping, read_maps
from ...linux.tasks import read_call, tasks
from ..link.target_memory import TargetMemory
from .stub import Stub

OWN_NAME = "flametap"  # of our thread
ALIGNMENT = 16
LOOKS = 30
LOOK_INTERVAL_S = 0.005
# So many zeros must come before the place, too: data may end with some.
MARGIN_BYTES = 64
_ELF_MAGIC = b"\x7fELF"
# Elf64_Ehdr: e_phoff; e_phentsize, e_phnum. Elf64_Shdr follow at e_shoff in the vDSO's image.
_TABLES = struct.Struct("<QQIHHHHHH")  # at 32: phoff, shoff, flags, ehsize, phentsize, phnum, …
_TABLES_AT = 32
_PHEAD = struct.Struct("<IIQQQQQQ")  # type, flags, offset, vaddr, paddr, filesz, memsz, align
_PT_LOAD, _EXECUTABLE = 1, 1


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
    for mapping in _candidates(memory.pid):
        at = (mapping.start + mapping.size - len(stub)) & -ALIGNMENT
        found = memory.read(at - MARGIN_BYTES, mapping.start + mapping.size - at + MARGIN_BYTES)
        was_read.append(bool(found))
        if len(found) < len(stub) + MARGIN_BYTES or _end_of_code(memory, mapping) > at:
            continue
        if not any(found):
            return at
        # What a host has left that was killed. Our thread ends 3 s later.
        is_stub = found[MARGIN_BYTES : MARGIN_BYTES + nap_offset] == stub[:nap_offset]
        if is_stub and not any(found[:MARGIN_BYTES]):
            if not is_in_use(memory.pid, at, at + len(stub)):
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


def is_in_use(pid: int, start: int, end: int) -> bool:
    """Tell whether a thread of ours is in a process, or one of its own between two addresses.

    It cannot be seen where a running thread is. One of ours that waits for its agent sleeps
    nearly all the time, so it is seen in one of several looks.
    """
    for _ in range(LOOKS):
        if _is_seen(pid, start, end):
            return True
        time.sleep(LOOK_INTERVAL_S)
    return False


def _is_seen(pid: int, start: int, end: int) -> bool:
    for tid in tasks(pid):
        try:
            with open(f"/proc/{pid}/task/{tid}/comm") as file:
                if file.read().strip() == OWN_NAME:
                    return True
            call = read_call(pid, tid)
        except OSError:
            continue
        if call is not None and start <= call.pc < end:
            return True
    return False


def _candidates(pid: int) -> Iterator[Mapping]:
    """Yield the vDSO, then the code of files, the last mapping of each first."""
    found = [
        each
        for each in read_maps(f"/proc/{pid}")
        if each.permissions in ("r-xp", "--xp") and each.path
    ]
    yield from (each for each in found if each.path == "[vdso]")
    yield from (each for each in reversed(found) if each.path.startswith("/"))


def _end_of_code(memory: TargetMemory, mapping: Mapping) -> int:
    """Return where the image in a mapping ends, runtime_addr; the end of the mapping if unknown."""
    end = mapping.start + mapping.size
    base = mapping.start if mapping.path == "[vdso]" else _base(memory.pid, mapping)
    head = memory.read(base, 4096)
    if len(head) < _TABLES_AT + _TABLES.size or not head.startswith(_ELF_MAGIC):
        return end
    headers_at, sections_at, _, _, entry_bytes, count, section_bytes, sections, _ = (
        _TABLES.unpack_from(head, _TABLES_AT)
    )
    if entry_bytes != _PHEAD.size or headers_at + count * entry_bytes > len(head):
        return end
    loaded = [_PHEAD.unpack_from(head, headers_at + index * entry_bytes) for index in range(count)]
    loaded = [each for each in loaded if each[0] == _PT_LOAD]
    if not loaded:
        return end
    bias = base - min(each[3] for each in loaded) // 4096 * 4096
    ends = [
        bias + vaddr + memory_bytes
        for _, flags, _, vaddr, _, _, memory_bytes, _ in loaded
        if flags & _EXECUTABLE and mapping.start <= bias + vaddr < end
    ]
    if mapping.path == "[vdso]":  # the kernel maps the whole file, with its table of sections
        ends.append(base + sections_at + sections * section_bytes)
    return max(ends, default=end)


def _base(pid: int, mapping: Mapping) -> int:
    """Return where the file's first mapping is, runtime_addr."""
    return min(
        (each.start for each in read_maps(f"/proc/{pid}") if each.path == mapping.path),
        default=mapping.start,
    )
