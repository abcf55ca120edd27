"""Tell lines by the tables of an iseq: which entry is whose, and the line of each entry.

Source: iseq.c, succ_index_lookup and struct iseq_insn_info_entry, of 3.1 to 3.3. Whatever the bytes
are, nothing is raised.
"""

from __future__ import annotations

import struct

from ....wire.abi import NO_POSITION

_FIRST, _PER_WORD, _RANK_BITS = 54, 9, 7  # instructions of the first part; of one of its words
_BLOCK, _BLOCK_BYTES, _SMALL_BITS = 512, 80, 9
_ENTRY_BYTES = 12
_MAX_LINE = 1 << 31


class LineTable:
    """The lines of one iseq.

    Args:
        entries: ``insns_info.body``.
        places: ``insns_info.succ_index_table``.
        first_line: of the iseq: the line of what is not in the tables.
    """

    __slots__ = ("_entries", "_first_line", "_places")

    def __init__(self, entries: bytes, places: bytes, first_line: int) -> None:
        self._entries = entries
        self._places = places
        self._first_line = first_line

    def line_at(self, position: int) -> int:
        """Return the line of an instruction; the first one of the iseq if it is not in the tables.

        0 for one whose position is not known.
        """
        if position == NO_POSITION:
            return 0
        count = len(self._entries) // _ENTRY_BYTES
        index = 0 if count == 1 else self._index(position) - 1
        if not 0 <= index < count:
            return self._first_line
        line: int = struct.unpack_from("<i", self._entries, index * _ENTRY_BYTES)[0]
        return line if 0 < line < _MAX_LINE else self._first_line

    def _index(self, position: int) -> int:
        """Return how many entries begin at or before an instruction; 0 if that is not known."""
        if position < 0:
            return 0
        if position < _FIRST:
            word, place = divmod(position, _PER_WORD)
            return self._word(8 * word) >> _RANK_BITS * place & 0x7F
        block, place = divmod(position - _FIRST, _BLOCK)
        start = _FIRST // _PER_WORD * 8 + block * _BLOCK_BYTES
        if start + _BLOCK_BYTES > len(self._places):
            return 0
        small, bit = divmod(place, 64)
        before = self._word(start + 8) >> _SMALL_BITS * (small - 1) & 0x1FF if small else 0
        bits = self._word(start + 16 + 8 * small) & ((2 << bit) - 1)
        return (self._word(start) & 0xFFFFFFFF) + before + bits.bit_count()

    def _word(self, offset: int) -> int:
        return int.from_bytes(self._places[offset : offset + 8], "little")
