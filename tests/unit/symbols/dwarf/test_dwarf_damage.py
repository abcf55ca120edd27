"""Debug information that is damaged, hostile, too much, or silent about a function."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

import scattered
from flametap.recording.names.inline_chains import (
    Chain,
    Chains,
    LinesError,
    SourceFrame,
    pack_chains,
)
from flametap.symbols.debuginfo import symcache
from flametap.symbols.debuginfo.job import DebugJob
from flametap.symbols.debuginfo.reader import open_symcache
from flametap.symbols.debuginfo.stacked_symcache import Layers, pack, unpack
from flametap.symbols.dwarf import constants as dw
from flametap.symbols.dwarf.attributes import DwarfError, parse_abbreviations, skip_entry
from flametap.symbols.dwarf.functions import Names
from flametap.symbols.dwarf.merge import Merged, merge
from flametap.symbols.dwarf.sections import load
from flametap.symbols.dwarf.split import SplitPlaces
from flametap.symbols.dwarf.units import DwarfFile
from flametap.symbols.object.elf import from_bytes
from flametap.symbols.object.object_file import ObjectError
from objects import open_elf, symbols
from scattered import ONE, build, built, chains, inside, outer_names

pytestmark = pytest.mark.needs("gcc", "readelf")


@pytest.fixture(scope="module", params=["--multifile", "--dwarf-5"])
def dwz_pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path, Path]:
    flags = [] if request.param == "--multifile" else [request.param]
    return scattered.dwz_pair(tmp_path_factory.mktemp("dwz"), *flags)


@pytest.fixture(scope="module", params=["gcc4", "clang5"])
def split_pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp(f"split-{request.param}-")
    return scattered.split_program(folder, request.param)


@pytest.fixture
def split_program(split_pair: tuple[Path, Path]) -> Path:
    return split_pair[0]


def test_a_name_that_refers_to_itself_ends() -> None:
    # Two entries, subprograms without children, each the abstract origin of the other.
    abbrev = bytes((1, dw.TAG_SUBPROGRAM, 0, dw.AT_ABSTRACT_ORIGIN, 0x13, 0, 0, 0))
    entries = bytes((1, 16, 0, 0, 0)) + bytes((1, 11, 0, 0, 0))
    header = struct.pack("<IHIB", 7 + len(entries), 4, 0, 8)
    file = DwarfFile(info=header + entries, abbrev=abbrev)
    (unit,) = file.units
    _, values, _ = unit.entry(11)
    assert unit.reference(values[dw.AT_ABSTRACT_ORIGIN]) == (file, 16)
    assert Names().of(unit, values) == b""


def test_text_without_an_end_is_an_error_of_ours() -> None:
    abbrev = bytes((1, dw.TAG_SUBPROGRAM, 0, dw.AT_NAME, dw.FORM_STRING, 0, 0, 0))
    kinds, _ = parse_abbreviations(abbrev, 0, 4, 4)
    assert skip_entry(b"ab\0", 0, kinds[1].steps, 4, 4) == 3
    with pytest.raises(DwarfError):
        skip_entry(b"abc", 0, kinds[1].steps, 4, 4)


def test_tables_that_overlap_are_not_parsed_for_ever() -> None:
    # A thousand units, each with a table that begins a bit further on and goes on to the end.
    kinds = b"".join(bytes((code, dw.TAG_COMPILE_UNIT, 0, 0, 0)) for code in range(1, 127))
    unit = struct.pack("<IHIBB", 8, 4, 0, 8, 1)
    units = b"".join(
        unit[:6] + struct.pack("<I", 5 * (number % 100)) + unit[10:] for number in range(1000)
    )
    file = DwarfFile(info=units, abbrev=kinds + b"\0")
    with pytest.raises(DwarfError, match="overlap"):
        sum(len(unit.abbreviations) for unit in file.units)


@pytest.mark.needs("dwz")
def test_damaged_dwz_files_end_in_an_error_of_ours_or_in_fewer_names(
    dwz_pair: tuple[Path, Path, Path],
) -> None:
    _, one, common = dwz_pair
    chance = random.Random(4)
    usable = 0
    for _ in range(60):
        main, alt = damaged(one.read_bytes(), chance), damaged(common.read_bytes(), chance)
        usable += outcome(lambda main=main, alt=alt: merge(from_bytes(main), from_bytes(alt)))
    assert usable > 20  # most damage is small


@pytest.mark.needs("clang")
def test_damaged_split_units_end_in_an_error_of_ours_or_in_fewer_names(
    split_program: Path, tmp_path: Path
) -> None:
    chance = random.Random(4)
    dwo = split_program.with_suffix(".dwo").read_bytes()
    # The place where it was built has the sound one: found by its bare name, beside the program.
    built_in = str(split_program.parent).encode()
    program = split_program.read_bytes().replace(built_in, built_in[::-1])
    places = SplitPlaces(folders=(str(tmp_path),), names=("one",))
    usable = 0
    for _ in range(40):
        (tmp_path / "one.dwo").write_bytes(damaged(dwo, chance))
        main = damaged(program, chance)
        usable += outcome(lambda main=main: merge(from_bytes(main), None, places))
    assert usable > 15


def damaged(data: bytes, chance: random.Random) -> bytes:
    """A few bytes of the debug sections changed, or the end cut off."""
    if chance.random() < 0.1:
        return data[: chance.randrange(len(data))]
    elf = from_bytes(data)
    sections = [s for s in elf.sections if s.name.startswith(".debug") and s.size]
    changed = bytearray(data)
    for _ in range(chance.randrange(4)):
        section = chance.choice(sections)
        changed[section.offset + chance.randrange(section.size)] = chance.randrange(256)
    return bytes(changed)


def outcome(make: object) -> bool:
    """Whether something came out; anything but an error of ours is raised."""
    try:
        merged = make()  # type: ignore[operator]
    except (DwarfError, ObjectError):
        return False
    assert isinstance(merged, Merged)
    assert from_bytes(merged.elf).debug_info_bytes >= 0
    return True


def test_what_takes_too_long_keeps_its_lines(tmp_path: Path) -> None:
    program = built(tmp_path, "one", ONE)
    addresses = inside(program)
    late = merge(open_elf(program), deadline_s=-1)
    assert "too much" in late.note
    (tmp_path / "merged").write_bytes(late.elf)
    found, _ = chains(tmp_path / "merged", addresses)
    assert all(len(chain) == 1 and chain[0].file for chain in found)


@pytest.mark.parametrize("how", ["zlib", "zlib-gnu", "none"])
def test_any_file_can_be_read_this_way(how: str, tmp_path: Path) -> None:
    """What is written for scattered files says the same of a file that is whole."""
    program = built(tmp_path, "one", ONE, f"-gz={how}")
    addresses = inside(program)
    expected, _ = chains(program, addresses)
    (tmp_path / "merged").write_bytes(merge(open_elf(program)).elf)
    found, _ = chains(tmp_path / "merged", addresses)
    assert found == expected


def test_one_damaged_entry_costs_what_follows_it_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "second.c").write_text("int second(int n) { return n * 3; }")
    program = built(tmp_path, "one", ONE, more=(str(tmp_path / "second.c"),))
    second, first = load(open_elf(program)).units[-2:]
    info = open_elf(program).section(".debug_info")
    assert info is not None
    data = bytearray(program.read_bytes())
    _, _, after = first.entry(first.first)
    data[info.offset + after] = 0x7F  # no kind of entry
    program.write_bytes(data)
    with pytest.raises(LinesError):
        symcache.build(str(program), 0)
    (found,), note = chains(program, [symbols(program)["second"][0]])
    assert [(frame.symbol, frame.line) for frame in found] == [("second", 1)]
    assert "damaged" in note
    assert second.end == first.offset


FOLDED = """
#include <stdlib.h>
int first(int n) { int s = 0; for (int i = 0; i < n; i++) s += rand() % (i + 1); return s; }
int second(int n) { int s = 0; for (int i = 0; i < n; i++) s += rand() % (i + 1); return s; }
int (*volatile choice[])(int) = {first, second};
int main(int argc, char **argv) { return choice[argc % 2](argc); }
"""


def test_a_folded_function_without_entry_has_its_line(tmp_path: Path) -> None:
    program = built(tmp_path, "one", FOLDED)
    found = symbols(program)
    entries = {name: start for name, (start, _) in found.items() if name in ("first", "second")}
    alone = symcache.build(str(program), 0).lookup_many(list(entries.values()))
    assert () in alone  # GCC left one of them without an entry
    lines = open_symcache(build(program).payload, 0).lookup_many(list(entries.values()))
    assert [chain[-1].line for chain in lines] == [3, 4]
    assert outer_names(program, build(program), list(entries.values())) == {"first", "second"}


class Known:
    """A source of lines that knows some addresses."""

    def __init__(self, **names: int) -> None:
        self._chains = {at: (SourceFrame(name, "/a.c", at),) for name, at in names.items()}

    def chains(self, file_addrs: Sequence[int]) -> Chains:
        return pack_chains(self.lookup_many(file_addrs))

    def lookup_many(self, file_addrs: Sequence[int]) -> list[Chain]:
        return [self._chains.get(address, ()) for address in file_addrs]


def test_layers_answer_in_order() -> None:
    layers = Layers([Known(one=1, two=2), Known(other_two=2, three=3)])
    chains = layers.lookup_many([3, 2, 9, 1])
    assert [[f.symbol for f in chain] for chain in chains] == [["three"], ["two"], [], ["one"]]


def test_damaged_layers_are_an_error_of_ours(tmp_path: Path) -> None:
    parts = [build(built(tmp_path, "one", ONE)).payload] * 2
    assert unpack(pack(parts)) == parts
    assert unpack(parts[0]) == []
    for payload in (pack(parts)[:-1], pack(parts)[:15], pack([b"SYMC", parts[0]])):
        with pytest.raises(LinesError):
            open_symcache(payload, 0)


def test_what_is_no_object_file_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    with pytest.raises(LinesError):
        symcache.build_symcache(DebugJob(str(tmp_path / "text"), 0))
