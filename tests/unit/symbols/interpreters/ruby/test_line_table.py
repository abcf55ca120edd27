"""Tables of lines, as iseq.c makes them (succ_index_table_create)."""

from __future__ import annotations

import random
import struct

import pytest

from flametap.symbols.interpreters.ruby.line_table import LineTable
from flametap.wire.abi import NO_POSITION


def places(positions: list[int], size: int) -> bytes:
    """The table for entries that begin at these instructions, of so many."""
    first = min(size + 8, 54) // 9 if size < 54 else 6
    out, rank = bytearray(), 0
    for word in range(first):
        value = 0
        for i in range(9):
            rank += word * 9 + i in positions
            value |= rank << 7 * i
        out += value.to_bytes(8, "little")
    for block in range(0 if size < 54 else (size - 54 + 511) // 512):
        start = 54 + 512 * block
        bits = [[start + 64 * j + i in positions for i in range(64)] for j in range(8)]
        small, ranks = 0, 0
        for j in range(1, 8):
            small += sum(bits[j - 1])
            ranks |= small << 9 * (j - 1)
        out += struct.pack("<I4xQ", rank, ranks)
        for row in bits:
            out += sum(1 << i for i in range(64) if row[i]).to_bytes(8, "little")
        rank += sum(map(sum, bits))
    return bytes(out)


def entries(lines: list[int]) -> bytes:
    return b"".join(struct.pack("<3i", line, -1, 0) for line in lines)


@pytest.mark.parametrize("size", [5, 53, 54, 55, 566, 567, 3000])
def test_each_instruction_has_the_line_of_the_last_entry(size: int) -> None:
    chosen = random.Random(size)
    positions = [0, *sorted(chosen.sample(range(1, size), min(size - 1, 100)))]
    lines = [chosen.randrange(1, 1000) for _ in positions]
    table = LineTable(entries(lines), places(positions, size), 7)
    for at in range(size):
        index = sum(position <= at for position in positions) - 1
        assert table.line_at(at) == lines[index], at


def test_one_entry_needs_no_places() -> None:
    assert LineTable(entries([12]), b"", 7).line_at(3) == 12


def test_what_is_missing_is_no_other_line() -> None:
    table = LineTable(entries([12, 13]), b"", 7)
    assert table.line_at(3) == 7
    assert table.line_at(5000) == 7
    assert table.line_at(NO_POSITION) == 0
    assert LineTable(entries([-4, 0]), places([0, 1], 5), 7).line_at(0) == 7


def test_any_bytes_are_a_table() -> None:
    chosen = random.Random(1)
    for _ in range(500):
        table = LineTable(chosen.randbytes(chosen.randrange(80)), chosen.randbytes(200), 1)
        for position in (0, 8, 53, 54, 100, 10000, NO_POSITION - 1):
            assert 0 <= table.line_at(position) < 1 << 31
