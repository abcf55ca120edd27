"""The code that a recording has, whatever its file says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flametap.model import Function
from flametap.recording import kept_code
from flametap.recording.chunks import Chunk
from flametap.recording.code_source import CodeRow
from flametap.recording.kept_code import CODE, NO_TEXT, NOT_KEPT, TEXT, KeptCode
from flametap.recording.names.table import SymbolTable

WORK = Function("work", "prog", "/src/work.c")
ADDRS = np.array([0x1000], np.int64)
ROWS = [
    CodeRow(0x1000, b"\x90", "nop", "", 0, 0, "/src/work.c", 7, ""),
    CodeRow(0x1001, b"\xe8\0\0\0\0", "call", "malloc", 0, 0, "/src/work.h", 9, "taken_in"),
]


def kept(*chunks: Chunk) -> KeptCode:
    table = SymbolTable()
    table.function_id(WORK)
    return KeptCode(chunks, table.functions, [])


def text(*values: Any) -> Chunk:
    return Chunk(TEXT, {"texts": [list(values)]})


def test_lines_that_are_kept_have_their_places() -> None:
    found = kept(text("prog", "/src/work.c", "a note", 6, [[2, 2], [6, 1]], ["b", "c", "f"]))
    assert found.text(WORK, "/src/work.c") == (["", "b", "c", "", "", "f"], "a note")
    assert found.text(WORK, "/src/other.c") == (None, NO_TEXT)


def test_instructions_are_those_that_were_kept() -> None:
    facts = {"function": 0, "module": 3, "notes": ["cut"]}
    found = kept(kept_code.listing_chunk(facts, ROWS))
    assert found.listing(WORK, 3, ADDRS) == (ROWS, ["cut"])
    with pytest.raises(LookupError, match=NOT_KEPT):
        found.listing(WORK, 4, ADDRS)


@pytest.mark.parametrize(
    "values",
    [
        ("prog", "f", "", 1 << 40, [], []),
        ("prog", "f", "", -1, [], []),
        ("prog", "f", "", 3, [[0, 1]], ["a"]),
        ("prog", "f", "", 3, [[2, 5]], ["a"] * 5),
        ("prog", "f", "", 3, [[1, 2]], ["a"]),
        ("prog", "f", "", 3, [[1, 1]], [7]),
        ("prog", 1, "", 3, [], []),
        (),
    ],
)
def test_text_that_makes_no_sense_is_left_out(values: tuple[Any, ...]) -> None:
    good = text("prog", "g", "", 1, [[1, 1]], ["a"])
    found = kept(text(*values), good)
    assert "makes no sense" in found.damage
    assert found.text(WORK, "f") == (None, NO_TEXT)
    assert found.text(WORK, "g") == (["a"], "")


def test_many_files_of_many_lines_take_no_memory() -> None:
    """Each line that is not kept takes eight bytes."""
    long = ["prog", "f", "", kept_code.MAX_LINES // 2 + 1, [], []]
    assert "makes no sense" in kept(Chunk(TEXT, {"texts": [long, long]})).damage


@pytest.mark.parametrize(
    "change", [{"texts": []}, {"texts": None}, {"function": 5}, {"error": "why"}]
)
def test_instructions_that_make_no_sense_are_not_shown(change: dict[str, Any]) -> None:
    chunk = kept_code.listing_chunk({"function": 0, "module": 3, "notes": []}, ROWS)
    found = kept(Chunk(CODE, {**chunk.facts, **change}, chunk.columns))
    with pytest.raises(LookupError):
        found.listing(WORK, 3, ADDRS)


@pytest.mark.parametrize("texts", [5, None, {"a": 1}])
def test_texts_that_are_no_list_are_left_out(texts: Any) -> None:
    assert "should be a list" in kept(Chunk(TEXT, {"texts": texts})).damage


@pytest.mark.parametrize("facts", [{"texts": {}}, {"texts": 5}, {"notes": 5}])
def test_damaged_instructions_are_not_there(facts: dict[str, Any]) -> None:
    chunk = kept_code.listing_chunk({"function": 0, "module": 3}, ROWS)
    found = kept(Chunk(CODE, {**chunk.facts, **facts}, chunk.columns))
    with pytest.raises(LookupError, match="damaged"):
        found.listing(WORK, 3, ADDRS)


def test_instruction_beyond_all_addresses_is_not_there() -> None:
    chunk = kept_code.listing_chunk({"function": 0, "module": 3}, ROWS)
    columns = {**chunk.columns, "addr": np.array([1 << 63, 1], np.uint64)}
    found = kept(Chunk(CODE, chunk.facts, columns))
    with pytest.raises(LookupError, match="damaged"):
        found.listing(WORK, 3, ADDRS)
