"""Read the source lines of one function from a jitdump's DEBUG_INFO record.

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
# "perf inject" makes an ELF file of each function, with the code after the header. V8 and LLVM
# write the addresses of lines as they are in that file.
_ELF_HEADER_BYTES = HEADER.size


class SourceLine(NamedTuple):
    """The source file and line of an address."""

    file: str  # "" if it cannot be read
    line: int


Lines = list[tuple[int, SourceLine]]  # by offset in the code


def parse_lines(record: bytes, order: str) -> Lines:
    """Return offsets in the code with their source lines, ascending; none if they are invalid.

    Args:
        record: the whole record.
        order: its byte order, as in ``struct``.

    Raises:
        struct.error: it is too short.
    """
    code_addr, count = struct.unpack_from(order + "QQ", record, 16)
    found = _sensible(_with_files(record, order, count), code_addr)
    if not found and 0 < count <= len(record):
        # V8 writes file names that it has already freed, so they may have a zero byte in the
        # middle. Entries of one file all have the same length.
        size = len(record) - _AT
        for stride in {(size - pad) // count for pad in range(8) if (size - pad) % count == 0}:
            found = found or _sensible(_without_files(record, order, count, stride), code_addr)
    if found and min(found)[0] >= _ELF_HEADER_BYTES:
        found = [(offset - _ELF_HEADER_BYTES, line) for offset, line in found]
    return sorted(found)


def _with_files(record: bytes, order: str, count: int) -> Lines:
    """Return the entries with their addresses; none if they do not fill the record."""
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
    # The record may be padded to a multiple of 8 bytes.
    return found if len(found) == count and len(record) - at < 8 else []


def _without_files(record: bytes, order: str, count: int, stride: int) -> Lines:
    """Return the entries with their addresses, if all have the same length."""
    found: Lines = []
    for at in range(_AT, _AT + count * stride, max(stride, _ENTRY_BYTES + 1)):
        addr, line, _ = struct.unpack_from(order + _ENTRY, record, at)
        found.append((addr, SourceLine("", line)))
    return found


def _sensible(lines: Lines, code_addr: int) -> Lines:
    """Return the lines by offset if all of them are possible, none otherwise."""
    by_offset = [(addr - code_addr, source) for addr, source in lines]
    are_sensible = all(
        0 <= offset < _MAX_CODE_BYTES and source.line < _MAX_LINE for offset, source in by_offset
    )
    return by_offset if are_sensible else []
