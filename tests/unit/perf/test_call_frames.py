"""How to come to the caller, by the tables of files; pyelftools reads the same."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from typing import Any, BinaryIO

import pytest
from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile

from flametap.linux.maps import read_maps
from flametap.perf.call_frames import _NUMBERS, RBP, RIP, RSP, CallFrames, Rules
from flametap.symbols.object.elf import ElfFile

FUNCTIONS = 400


def sections(data: bytes) -> tuple[bytes, int, bytes, int]:
    elf = ElfFile(lambda at, size: data[at : at + size], len(data))
    header, frames = elf.section(".eh_frame_hdr"), elf.section(".eh_frame")
    assert header is not None
    assert frames is not None
    return elf.data(header), header.addr, elf.data(frames), frames.addr


def loaded(name: str) -> str:
    return next(each.path for each in read_maps("/proc/self") if name in each.path)


def rows(file: BinaryIO) -> Iterator[tuple[int, Any]]:
    """Addresses, and what pyelftools says of them."""
    entries = [
        each for each in ELFFile(file).get_dwarf_info().EH_CFI_entries() if isinstance(each, FDE)
    ]
    for entry in random.Random(1).sample(entries, min(FUNCTIONS, len(entries))):
        end = entry["initial_location"] + entry["address_range"]
        try:
            table = entry.get_decoded().table
        except ValueError:  # it does not know all of libc's instructions
            continue
        # The last one at an address counts; one behind the end is of no use.
        yield from {row["pc"]: row for row in table if row["pc"] < end}.items()


@pytest.mark.parametrize("path", [loaded("/libc."), loaded("/ld-linux")])
def test_rules_are_those_of_another_reader(path: str) -> None:
    with open(path, "rb") as file:
        frames = CallFrames(*sections(file.read()))
        n_compared = 0
        for addr, row in rows(file):
            rules = frames.at(addr)
            if row["cfa"].expr is not None:
                continue
            assert rules is not None, hex(addr)
            saved = {
                _NUMBERS[register]: rule.arg
                for register, rule in row.items()
                if isinstance(register, int) and rule.type == "OFFSET"
            }
            found = rules.base, rules.offset, dict(rules.saved)
            assert found == (_NUMBERS[row["cfa"].reg], row["cfa"].offset, saved), hex(addr)
            n_compared += 1
    assert n_compared > FUNCTIONS


START, SIZE = 0x2000, 0x40
PLT = b"\x0f\x0b\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22"


def frames_with(instructions: bytes, *, shared: bytes = b"\x0c\x07\x08\x90\x01") -> CallFrames:
    """One function, at START: .eh_frame at 0x1000, its header at 0x800."""
    cie = struct.pack("<IB3sBbBBB", 0, 1, b"zR\0", 1, 0x78, 16, 1, 0x1B) + shared
    cie += bytes(-len(cie) % 4)
    data = struct.pack("<I", len(cie)) + cie
    at = len(data)
    pc_begin = START - (0x1000 + at + 8)
    fde = struct.pack("<IiI", at + 4, pc_begin, SIZE) + b"\0" + instructions
    fde += bytes(-len(fde) % 4)
    data += struct.pack("<I", len(fde)) + fde + bytes(4)
    header = struct.pack("<BBBBiIii", 1, 0x1B, 3, 0x3B, 0, 1, START - 0x800, 0x1000 + at - 0x800)
    return CallFrames(header, 0x800, data, 0x1000)


PUSHED = b"\x41\x0e\x10\x86\x02\x43\x0d\x06\x0a\x50\xc6\x0c\x07\x08\x41\x0b"


@pytest.mark.parametrize(
    ("addr", "expected"),
    [
        (START - 1, None),
        (START, Rules(RSP, 8, ((RIP, -8),))),
        (START + 1, Rules(RSP, 16, ((RIP, -8), (RBP, -16)))),
        (START + 4, Rules(RBP, 16, ((RIP, -8), (RBP, -16)))),
        (START + 0x14, Rules(RSP, 8, ((RIP, -8),))),  # it has taken rbp back, and returns
        (START + 0x15, Rules(RBP, 16, ((RIP, -8), (RBP, -16)))),
        (START + SIZE, None),
    ],
)
def test_rules_are_those_of_the_place(addr: int, expected: Rules | None) -> None:
    assert frames_with(PUSHED).at(addr) == expected


def test_procedure_linkage_table_is_known() -> None:
    frames = frames_with(PLT)
    assert frames.at(START + 0x1A) == Rules(RSP, 8, ((RIP, -8),))
    assert frames.at(START + 0x1B) == Rules(RSP, 16, ((RIP, -8),))


@pytest.mark.parametrize(
    "instructions", [b"\x0f\x02\x77\x08", b"\x3f", b"\x0f\x7f", b"\x0c\x41\x08"]
)
def test_what_is_not_known_has_no_rules(instructions: bytes) -> None:
    assert frames_with(instructions).at(START + 4) is None


def test_function_without_a_caller_is_the_root() -> None:
    rules = frames_with(b"\x07\x10").at(START)
    assert rules is not None
    assert rules.is_root


def test_damage_is_no_error() -> None:
    with open(loaded("/libc."), "rb") as file:
        header, header_addr, frames, addr = sections(file.read())
    chance = random.Random(2)
    for _ in range(300):
        damaged = bytearray(frames[:20_000])
        for _ in range(chance.randrange(1, 400)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        found = CallFrames(header, header_addr, bytes(damaged), addr)
        for start in found._starts[::50]:
            found.at(header_addr + start + 3)


def test_unusual_header_is_refused() -> None:
    for header in (b"", b"\1\xff\xff\xff" + bytes(8), bytes(12)):
        with pytest.raises(ValueError, match="unusual"):
            CallFrames(header, 0, b"", 0)
