"""How to come to the caller, from the text that symbolic writes."""

from __future__ import annotations

import pytest

from flametap.perf.call_frames import RIP, CallFrames, Rules
from flametap.perf.events import REGISTERS

RSP, RBX, RBP = (REGISTERS.index(name) for name in ("$rsp", "$rbx", "$rbp"))
TEXT = b"""STACK CFI INIT 100 20 .cfa: $rsp 8 +
STACK CFI INIT 200 80 .cfa: $rsp 8 + .ra: .cfa -8 + ^
STACK CFI 201 .cfa: $rsp 16 + $rbp: .cfa -16 + ^
STACK CFI 204 .cfa: $rbp 16 +
STACK CFI 210 $rbx: .cfa -24 + ^
STACK CFI INIT 280 10 .cfa: $rsp 8 + .ra: .cfa -8 + ^
STACK CFI INIT 300 10 .cfa: $rax $rcx * .ra: .cfa -8 + ^
STACK CFI INIT 400 10 .cfa: $rsp 8 + .ra: .cfa -8 + ^ $st0: .cfa -4 + ^ $rbx: $rcx
"""


@pytest.fixture
def frames() -> CallFrames:
    return CallFrames(TEXT)


@pytest.mark.parametrize(
    ("addr", "expected"),
    [
        (0x200, Rules(RSP, 8, ((RIP, -8),))),
        (0x201, Rules(RSP, 16, ((RIP, -8), (RBP, -16)))),
        (0x203, Rules(RSP, 16, ((RIP, -8), (RBP, -16)))),
        (0x204, Rules(RBP, 16, ((RIP, -8), (RBP, -16)))),
        (0x27F, Rules(RBP, 16, ((RIP, -8), (RBP, -16), (RBX, -24)))),
        (0x280, Rules(RSP, 8, ((RIP, -8),))),
        (0x400, Rules(RSP, 8, ((RIP, -8),))),  # what is unknown of other registers is left out
    ],
)
def test_rules_are_those_of_the_place(frames: CallFrames, addr: int, expected: Rules) -> None:
    assert frames.at(addr) == expected


@pytest.mark.parametrize("addr", [0, 0xFF, 0x120, 0x290, 0x300, 0x500, 1 << 63])
def test_no_rules_where_there_are_none_or_none_that_we_know(frames: CallFrames, addr: int) -> None:
    assert frames.at(addr) is None


def test_function_without_a_caller_is_the_root(frames: CallFrames) -> None:
    root, other = frames.at(0x100), frames.at(0x200)
    assert root is not None
    assert root.is_root
    assert other is not None
    assert not other.is_root


@pytest.mark.parametrize("text", [b"", b"MODULE\n", b"STACK CFI 100 .cfa: $rsp 8 +\n", TEXT[:70]])
def test_damaged_text_has_no_rules(text: bytes) -> None:
    assert CallFrames(text).at(0x210) is None
