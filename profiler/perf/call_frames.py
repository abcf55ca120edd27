"""Say how to come from a function to its caller, by the call frame information of a file.

``.eh_frame_hdr`` leads to the entry of a function in ``.eh_frame`` (FDE), this one to what it
shares with others (CIE). Only the entries of functions that were sampled are read.

Source: LSB core, ".eh_frame" and ".eh_frame_hdr"; DWARF 5, 6.4.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right
from typing import NamedTuple

from .cfa_program import Row, Shared, row_at
from .events import REGISTERS
from .reader import Reader

RSP, RIP, RBP = (REGISTERS.index(name) for name in ("$rsp", "$rip", "$rbp"))
# The numbers of DWARF: System V ABI AMD64, 3.6.2.
_NUMBERS = tuple(
    REGISTERS.index(f"${name}")
    for name in (
        *("rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp"),
        *(f"r{number}" for number in range(8, 16)),
        "rip",
    )
)
_HEADER = struct.Struct("<BBBBiI")  # version, three encodings, .eh_frame, entries
_USUAL = (1, 0x1B, 0x03, 0x3B)  # relative, 4 bytes: what every linker writes
_MAX_ENTRY_BYTES = 1 << 16


class Rules(NamedTuple):
    """How to find the caller's registers: by number, as in ``REGISTERS``.

    The canonical frame address (CFA) is ``base`` plus ``offset``; the values of the caller's
    registers are at these distances from it. Others are as they were.
    """

    base: int
    offset: int
    saved: tuple[tuple[int, int], ...]

    @property
    def is_root(self) -> bool:
        """Whether nothing has called this function."""
        return all(register != RIP for register, _ in self.saved)


class CallFrames:
    """The rules of one file. Addresses are file_addrs.

    Args:
        header: ``.eh_frame_hdr``.
        header_addr: where it is.
        frames: ``.eh_frame``.
        frames_addr: where it is.

    Raises:
        ValueError: the header is not of the usual kind.
    """

    def __init__(self, header: bytes, header_addr: int, frames: bytes, frames_addr: int) -> None:
        if len(header) < _HEADER.size or _HEADER.unpack_from(header)[:4] != _USUAL:
            raise ValueError("unusual header of the call frame information")
        count = min(_HEADER.unpack_from(header)[5], (len(header) - _HEADER.size) // 8)
        # Of each function, in order: its start and its entry, from the header's address on.
        table = array("i", header[_HEADER.size : _HEADER.size + 8 * count])
        self._starts, self._entries = table[::2], table[1::2]
        self._header_addr, self._addr = header_addr, frames_addr
        self._frames = frames
        self._shared: dict[int, Shared] = {}

    def at(self, file_addr: int) -> Rules | None:
        """Return the rules at an address; None if there are none, or none that we know."""
        place = bisect_right(self._starts, file_addr - self._header_addr) - 1
        if place < 0:
            return None
        try:
            row = self._row(self._entries[place] + self._header_addr - self._addr, file_addr)
        except (ValueError, IndexError, struct.error):  # damaged
            return None
        if row is None or not 0 <= row.base < len(_NUMBERS):
            return None
        saved = tuple(
            (_NUMBERS[register], distance)
            for register, distance in row.saved.items()
            if register < len(_NUMBERS)
        )
        return Rules(_NUMBERS[row.base], row.offset, saved)

    def _row(self, at: int, file_addr: int) -> Row | None:
        entry = self._entry(at)
        shared = self._shared_by(at + 4 - entry.unsigned(4))
        start = entry.pointer(shared.encoding, self._addr)
        size = entry.pointer(shared.encoding & 0x0F, 0)
        if not start <= file_addr < start + size:
            return None
        if shared.has_more:
            entry.skip(entry.leb())
        return row_at(shared, entry, start, file_addr)

    def _entry(self, at: int) -> Reader:
        """Return the contents of an entry, from what follows its length on."""
        if not 0 <= at <= len(self._frames) - 4:
            raise ValueError("an entry outside of the section")
        (size,) = struct.unpack_from("<I", self._frames, at)
        if not 0 < size <= _MAX_ENTRY_BYTES:
            raise ValueError("an entry of a size that none has")
        return Reader(self._frames, at + 4, at + 4 + size)

    def _shared_by(self, at: int) -> Shared:
        if at not in self._shared:
            self._shared[at] = Shared.read(self._entry(at))
        return self._shared[at]
