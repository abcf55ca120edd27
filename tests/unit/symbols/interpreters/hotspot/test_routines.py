"""The list of the virtual machine's own routines."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest

from fake_memory import FakeMemory
from flametap.symbols.interpreters.hotspot.routines import (
    Routine,
    Variables,
    find_routines,
    name_at,
    use_of,
)

IMAGE = 0x7F00_0000_0000
ZEROED, TEXTS, HEAP, CODE = IMAGE + 0x8000, IMAGE + 0x1000, 0x7E00_0000_0FF0, 0x7D00_0000_0000
RETURN = CODE + 0x48
VARIABLES = Variables((IMAGE, IMAGE + 0x10000), ((ZEROED, ZEROED + 0x100),))
OLD = ((0x40, 0x80, "call_stub"), (0x80, 0x90, "forward exception"), (0x20, 0x40, "jint_fill"))


def memory_with(
    routines: Sequence[tuple[int, int, str]], *, last: int = 0, step: int = 48
) -> FakeMemory:
    """A process whose list has these; ``last`` is what its last element points to."""
    texts, elements = bytearray(b"StubRoutines\0"), b""
    for at, (start, end, name) in enumerate(routines):
        following = HEAP + step * (at + 1) if at + 1 < len(routines) else last
        place = TEXTS + len(texts)
        texts += name.encode() + b"\0"
        element = struct.pack("<5Q", following, TEXTS, place, CODE + start, end and CODE + end)
        elements += element.ljust(step, b"\xff")
    words = [0, 5, IMAGE + 0x10, 0x7E00_0000_2001, 0x7A00_0000_0000, HEAP, HEAP + 0x1000]
    variables = struct.pack(f"<{len(words)}Q", *words).ljust(0x100, b"\0")
    return FakeMemory(
        {ZEROED: variables, TEXTS: bytes(texts), HEAP - 0xFF0: bytes(0xFF0) + elements}
    )


def test_the_list_is_found_and_sorted() -> None:
    assert find_routines(memory_with(OLD), VARIABLES, RETURN) == (
        Routine(CODE + 0x20, CODE + 0x40, "jint_fill"),
        Routine(CODE + 0x40, CODE + 0x80, "call_stub"),
        Routine(CODE + 0x80, CODE + 0x90, "forward exception"),
    )


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("Stub Generator call_stub_stub", "Stub Generator jbyte_arraycopy_stub"),
        ("call_stub_stub (stub gen)", "jbyte_arraycopy_stub (stub gen)"),
    ],
)
def test_names_of_new_versions(name: str, other: str) -> None:
    memory = memory_with(((0x40, 0x80, name), (0x80, 0x90, other)))
    assert [each.name for each in find_routines(memory, VARIABLES, RETURN)] == [
        "call_stub",
        "jbyte_arraycopy",
    ]


def test_one_that_is_being_made_is_left_out() -> None:
    assert len(find_routines(memory_with((*OLD, (0x90, 0, "new"))), VARIABLES, RETURN)) == len(OLD)


@pytest.mark.parametrize(
    "memory",
    [
        memory_with(OLD[1:]),
        memory_with((*OLD, (0x7F, 0x88, "overlaps"))),
        memory_with((*OLD, (0x90, 0xA0, "wr\x01ng"))),
        memory_with(OLD, last=HEAP),
        memory_with(OLD, last=0x1234_5670),
        memory_with(((0x40, 0x80, "catch_exception"), *OLD[1:])),
        FakeMemory({}),
    ],
    ids=["no call stub", "overlap", "no text", "circle", "leads away", "other", "nothing"],
)
def test_what_does_not_fit_is_not_believed(memory: FakeMemory) -> None:
    assert find_routines(memory, VARIABLES, RETURN) == ()


def test_places() -> None:
    routines = (Routine(8, 16, "a"), Routine(16, 24, "b"), Routine(32, 40, "c"))
    found = [name_at(routines, place) for place in (7, 8, 15, 16, 23, 24, 39, 40)]
    assert found == ["", "a", "a", "b", "b", "", "c", ""]
    assert name_at((), 8) == ""


def test_uses_are_said_in_words_of_java() -> None:
    assert "System.arraycopy" in use_of("arrayof_oop_disjoint_arraycopy")
    assert use_of("libmSin") == use_of("dsin") == "a function of Math"
    assert use_of("forward exception") == ""
