"""Line tables as HotSpot compresses them."""

from __future__ import annotations

import pytest

from flametap.symbols.interpreters.hotspot.line_table import JavaLines


def number(value: int, base: int) -> bytes:
    """An unsigned number as UNSIGNED5 has it."""
    found = bytearray()
    while value >= 192 - base and len(found) < 4:
        value -= 192 - base
        found.append(192 + (value & 63))
        value >>= 6
    found.append(value + base)
    return bytes(found)


def signed(value: int, base: int) -> bytes:
    return number(value << 1 ^ value >> 63, base)


@pytest.mark.parametrize("base", [0, 1])
def test_steps_of_both_kinds(base: int) -> None:
    raw = b"\xff" + signed(0, base) + signed(120, base)  # 0: 120
    raw += bytes([3 << 3 | 2])  # 3: 122
    raw += b"\xff" + signed(40, base) + signed(-22, base)  # 43: 100
    raw += b"\xff" + signed(700, base) + signed(5000, base)  # 743: 5100
    lines = JavaLines(raw, base)
    expected = {0: 120, 2: 120, 3: 122, 42: 122, 43: 100, 742: 100, 743: 5100, 65000: 5100}
    assert {index: lines.line_at(index) for index in expected} == expected


def test_before_the_first_and_without_any() -> None:
    assert JavaLines(b"", 1).line_at(5) == 0
    late = JavaLines(b"\xff" + signed(4, 1) + signed(7, 1), 1)
    assert (late.line_at(3), late.line_at(4)) == (0, 7)


def test_of_two_lines_of_one_bytecode_the_first_counts() -> None:
    raw = b"\xff" + signed(0, 1) + signed(9, 1) + bytes([0 << 3 | 1])
    assert JavaLines(raw, 1).line_at(0) == 9


@pytest.mark.parametrize("raw", [b"\xff", b"\xff\xff\xff", b"\xff" * 40, bytes(range(1, 256))])
def test_damaged_tables_give_lines_or_none(raw: bytes) -> None:
    lines = JavaLines(raw, 1)
    assert all(0 <= lines.line_at(index) <= 0xFFFF for index in range(0, 70000, 97))
