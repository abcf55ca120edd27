"""Source lines of one function in a jitdump: its DEBUG_INFO record.

::

    16  code_addr u64
    24  count u64
    32  count times: addr u64, line u32, column u32, file "\\0" (or "\\xff\\0": the one before)

Source: tools/perf/Documentation/jitdump-specification.txt in the Linux sources.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from ...linux.elf_headers import HEADER

MAX_FILE_BYTES = 4096
_AT = 32
_ENTRY = "QII"
_ENTRY_BYTES = 16
_MAX_LINE = 1 << 24
_MAX_CODE_BYTES = 256 << 20
# "perf inject" makes an ELF file of each function, in which the code lies behind the header: V8
# and LLVM write the addresses of lines as they will be there.
_ELF_HEADER_BYTES = HEADER.size


class SourceLine(NamedTuple):
    """Where the code of an address comes from."""

    file: str  # "" when it cannot be read
    line: int


Lines = list[tuple[int, SourceLine]]  # by offset in the code


def parse_lines(record: bytes, order: str) -> Lines:
    """Offset in the code and source line, in ascending order; none if they make no sense.

    Args:
        record: the whole record.
        order: its byte order, as ``struct`` has it.

    Raises:
        struct.error: it is too short.
    """
    code_addr, count = struct.unpack_from(order + "QQ", record, 16)
    found = _sensible(_with_files(record, order, count), code_addr)
    if not found and 0 < count <= len(record):
        # V8 writes file names that it has given back to the allocator already, so that a zero may
        # stand in their middle. They are of one length if they are of one file.
        size = len(record) - _AT
        for stride in {(size - pad) // count for pad in range(8) if (size - pad) % count == 0}:
            found = found or _sensible(_without_files(record, order, count, stride), code_addr)
    if found and min(found)[0] >= _ELF_HEADER_BYTES:
        found = [(offset - _ELF_HEADER_BYTES, line) for offset, line in found]
    return sorted(found)


def _with_files(record: bytes, order: str, count: int) -> Lines:
    """The entries with their addresses, none if they do not fill the record."""
    found: Lines = []
    at, file = _AT, ""
    while count > len(found) and at + _ENTRY_BYTES < len(record):
        addr, line, _ = struct.unpack_from(order + _ENTRY, record, at)
        begin = at + _ENTRY_BYTES
        end = record.find(b"\0", begin)
        if end < 0:
            return []
        if record[begin:end] != b"\xff":
            file = record[begin : min(end, begin + MAX_FILE_BYTES)].decode("utf-8", "replace")
        found.append((addr, SourceLine(file, line)))
        at = end + 1
    # Padded to 8 bytes at the most.
    return found if len(found) == count and len(record) - at < 8 else []


def _without_files(record: bytes, order: str, count: int, stride: int) -> Lines:
    """The entries with their addresses, if all are of one length."""
    found: Lines = []
    for at in range(_AT, _AT + count * stride, max(stride, _ENTRY_BYTES + 1)):
        addr, line, _ = struct.unpack_from(order + _ENTRY, record, at)
        found.append((addr, SourceLine("", line)))
    return found


def _sensible(lines: Lines, code_addr: int) -> Lines:
    """The lines by offset if all of them can be, none otherwise."""
    by_offset = [(addr - code_addr, source) for addr, source in lines]
    are_sensible = all(
        0 <= offset < _MAX_CODE_BYTES and source.line < _MAX_LINE for offset, source in by_offset
    )
    return by_offset if are_sensible else []
