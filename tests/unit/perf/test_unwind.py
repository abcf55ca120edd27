"""Stacks are walked by rules, and end with a reason where these do."""

from __future__ import annotations

import struct

import pytest

from flametap.model import Verdict
from flametap.perf.call_frames import RBP, RIP, RSP, Rules
from flametap.perf.events import REGISTERS, Mapped, Sample
from flametap.perf.files import Code, CodeFile
from flametap.perf.spaces import Region, Spaces
from flametap.perf.unwind import MAX_FRAMES, walk
from flametap.recording.kernel_samples import Place

RBX = REGISTERS.index("$rbx")
TOP = 0x7000_0000
# The program has a function a page: main, called by nobody; work, which saves rbx; leaf.
MAIN, WORK, LEAF, ELSEWHERE = 0x1000, 0x2000, 0x3000, 0x9000
ELSEWHERE_IN_FILE = 0x4000
RULES = {
    MAIN: Rules(RSP, 8, ()),
    WORK: Rules(RSP, 24, ((RIP, -8), (RBX, -16))),
    LEAF: Rules(RSP, 8, ((RIP, -8),)),
}


class FakeFile(CodeFile):
    def __init__(self) -> None:
        super().__init__("/bin/prog", 1)

    def code(self, file_offset: int) -> Code:
        return Place("/bin/prog", "", file_offset), RULES.get(file_offset & ~0xFFF)


REGION = Region(0x1000, 0x5000, 0x1000, FakeFile())


def at(addr: int) -> Region | None:
    return REGION if REGION.start <= addr < REGION.end else None


def sample(rip: int, *words: int) -> Sample:
    registers = [0] * len(REGISTERS)
    registers[RSP], registers[RIP] = TOP, rip
    return Sample(0, 10, 10, False, tuple(registers), struct.pack(f"={len(words)}Q", *words))


def addrs(found: Sample) -> tuple[list[int], Verdict]:
    stack = walk(found, at)
    return [each.file_addr for each in stack.places], stack.verdict


def test_callers_are_found_up_to_the_root() -> None:
    found = sample(LEAF + 4, WORK + 9, 0, 77, MAIN + 5)
    assert addrs(found) == ([LEAF + 4, WORK + 8, MAIN + 4], Verdict.COMPLETE)


def test_call_at_the_end_of_a_function_is_in_it() -> None:
    assert addrs(sample(LEAF, MAIN + 0x1000)) == ([LEAF, MAIN + 0xFFF], Verdict.COMPLETE)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (sample(LEAF, ELSEWHERE), Verdict.NO_UNWIND_INFO),
        (sample(LEAF, 0x5000 + 1), Verdict.NO_UNWIND_INFO),
        (sample(LEAF), Verdict.BAD_MEMORY),  # nothing was copied
        (sample(WORK, 1, 2), Verdict.BAD_MEMORY),
        (sample(LEAF, 0), Verdict.COMPLETE),
        (sample(ELSEWHERE), Verdict.NO_UNWIND_INFO),
    ],
)
def test_it_ends_with_a_reason(found: Sample, verdict: Verdict) -> None:
    assert addrs(found)[1] is verdict


def test_function_that_is_about_to_return_has_taken_its_registers_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its rules still name the registers. Only the return address is left of its frame."""
    monkeypatch.setitem(RULES, 0x4000, Rules(RSP, 8, ((RIP, -8), (RBX, -16))))
    assert addrs(sample(0x4800, WORK + 9, 0, 77, MAIN + 5))[1] is Verdict.COMPLETE


def test_it_does_not_go_on_for_ever() -> None:
    places, verdict = addrs(sample(LEAF, *[LEAF + 1] * 1000))
    assert len(places) == MAX_FRAMES
    assert verdict is Verdict.TRUNCATED_DEPTH


def test_children_have_what_their_parent_has_mapped_until_they_run_another_program() -> None:
    spaces = Spaces()
    code = Mapped(1, 10, 0x1000, 0x3000, 0, 5, "/bin/a")
    spaces.add(code)
    spaces.fork(11, 10)
    over = Mapped(2, 11, 0x2000, 0x4000, 0, 6, "/lib/b")
    spaces.add(over)  # in place of the first one
    found = [spaces.at(pid, 0x2800) for pid in (10, 11)]
    assert [each and each.file_offset for each in found] == [0, 0]
    assert found[0] is not found[1]
    assert spaces.at(11, 0x1800) is None
    spaces.replace(10)
    assert spaces.at(10, 0x1800) is None
    assert spaces.at(99, 0x1800) is None


def without_rules(rbp: int, *words: int) -> Sample:
    """A thread in code of which nothing is known but where it is."""
    found = sample(ELSEWHERE_IN_FILE + 4, *words)
    registers = list(found.registers)
    registers[RBP] = rbp
    return found._replace(registers=tuple(registers))


@pytest.mark.parametrize(
    ("found", "addresses", "verdict"),
    [
        # By the frame pointer, then by rules; or up to a frame pointer of zero, as in Go.
        (without_rules(TOP + 8, 1, 0, MAIN + 5), [MAIN + 4], Verdict.GUESSED),
        (
            without_rules(TOP + 8, 1, 0, ELSEWHERE_IN_FILE + 9),
            [ELSEWHERE_IN_FILE + 8],
            Verdict.GUESSED,
        ),
        (without_rules(TOP + 800, 1, 0, MAIN + 5), [], Verdict.NO_UNWIND_INFO),
        (without_rules(TOP - 8, 1, 0, MAIN + 5), [], Verdict.NO_UNWIND_INFO),
        (without_rules(TOP + 8, 1, 0, ELSEWHERE), [], Verdict.NO_UNWIND_INFO),
        (without_rules(0, 1, 0, MAIN + 5), [], Verdict.NO_UNWIND_INFO),
    ],
)
def test_code_without_rules_is_left_by_the_frame_pointer(
    found: Sample, addresses: list[int], verdict: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(RULES, 0x4000, raising=False)
    assert addrs(found) == ([ELSEWHERE_IN_FILE + 4, *addresses], verdict)
