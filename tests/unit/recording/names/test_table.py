"""Names of addresses: ids that stay, inline chains, stand-ins until names are known."""

from __future__ import annotations

import numpy as np
import pytest

from flametap.model import Frame, FrameKind, Function, RawFrame
from flametap.recording.names.packed_frames import PackedFrames
from flametap.recording.names.table import SymbolTable, unnamed_function

MAIN = Function("main", "prog")
INNER = Function("inner", "prog", "a.h", FrameKind.INLINED)


def locate(address_id: int) -> tuple[RawFrame, str]:
    if address_id % 2:
        return RawFrame(0, 0x7F00 + address_id), ""
    return RawFrame(3, 0x1234 + address_id), "libfoo.so"


def test_equal_functions_have_one_id() -> None:
    table = SymbolTable()
    assert table.function_id(MAIN) == 0
    assert table.function_id(INNER) == 1
    assert table.function_id(Function("main", "prog")) == 0
    assert list(table.functions) == [MAIN, INNER]


def test_frames_come_back_outermost_first() -> None:
    table = SymbolTable(locate)
    table.set(2, [Frame(MAIN, 10), Frame(INNER, 3)])
    assert table.named(2)
    assert not table.named(0)
    assert table.frames(2) == [Frame(MAIN, 10), Frame(INNER, 3)]
    pool = table.pool(3)
    first, count = pool.first[2], pool.count[2]
    assert [table.functions[i] for i in pool.functions[first : first + count]] == [MAIN, INNER]
    assert list(pool.lines[first : first + count]) == [10, 3]


def test_a_line_may_be_in_another_file_than_its_function() -> None:
    table = SymbolTable(locate)
    elsewhere, here = Frame(MAIN, 7, "body.inc"), Frame(MAIN, 8)
    assert (elsewhere.file, here.file, Frame(INNER, 3).file) == ("body.inc", "", "a.h")
    table.set(0, [elsewhere, Frame(INNER, 3)])
    table.set_lost([(0, 1, [elsewhere])])
    first, one, line = np.array([0, 1]), np.array([1, 1]), np.array([8, 7])
    packed = PackedFrames(first, one, one * 0, line, first, [MAIN], ["", "body.inc"])
    table.set_packed([1, 2], packed)
    assert table.frames(0) == [elsewhere, Frame(INNER, 3)]
    assert table.lost(0, 1) == [elsewhere]
    assert [table.frames(1), table.frames(2)] == [[here], [elsewhere]]
    assert list(table.functions) == [MAIN, INNER]
    assert list(table.line_files) == ["", "body.inc"]


def test_how_a_function_runs_is_kept_beside_the_file_of_its_line() -> None:
    table = SymbolTable(locate)
    frames = [
        Frame(MAIN, 7),
        Frame(MAIN, 7, tier="interpreted"),
        Frame(MAIN, 7, "a.inc", "baseline"),
    ]
    table.set(0, frames)
    assert table.frames(0) == frames
    assert list(table.line_tiers) == ["", "interpreted", "", "baseline"]
    assert list(table.line_files) == ["", "", "a.inc", "a.inc"]
    assert list(table.pool(1).file_numbers) == [0, 0, 2, 2]


def test_frames_between_two_addresses() -> None:
    table = SymbolTable(locate)
    tail = Frame(Function("jumps", "prog", kind=FrameKind.TAIL_CALL), 7)
    revision = table.revision
    table.set_lost([(3, 1, [tail, Frame(INNER, 3)]), (1, 3, [tail])])
    assert table.revision > revision
    assert table.lost(3, 1) == [tail, Frame(INNER, 3)]
    assert table.lost(1, 3) == [tail]
    assert table.lost(3, 3) == []
    pool = table.pool(4)
    for caller, callee, lines in ((3, 1, [7, 3]), (1, 3, [7]), (1, 1, []), (3, 9, [])):
        assert list(pool.lines[pool.lost(caller, callee)]) == lines
    assert list(SymbolTable().pool(0).functions[SymbolTable().pool(0).lost(0, 0)]) == []


def test_address_without_names_has_a_stand_in_until_it_gets_them() -> None:
    table = SymbolTable(locate)
    assert table.frames(0) == [
        Frame(Function("libfoo.so+0x1234", "libfoo.so", kind=FrameKind.UNKNOWN))
    ]
    assert table.frames(1) == [Frame(Function("[jit]", "[jit]", kind=FrameKind.UNKNOWN))]
    revision = table.revision
    table.set(0, [Frame(MAIN, 1)])
    assert table.revision > revision
    assert table.frames(0) == [Frame(MAIN, 1)]


def test_module_that_is_not_known_is_numbered() -> None:
    assert unnamed_function(RawFrame(7, 0x10), "").name == "[module 7]+0x10"


def test_address_needs_a_frame() -> None:
    with pytest.raises(ValueError, match="at least one frame"):
        SymbolTable().set(0, [])


def test_order_by_name_takes_in_later_functions() -> None:
    table = SymbolTable()
    for name in "mza":
        table.function_id(Function(name, ""))
    assert list(table.by_name()) == [2, 0, 1]
    table.function_id(Function("n", ""))
    assert list(table.by_name()) == [2, 0, 3, 1]
