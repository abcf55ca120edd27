"""Debug information in several files: what dwz made common, and what -gsplit-dwarf keeps apart."""

from __future__ import annotations

import os
import random
import shutil
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from flametap.symbols import symcache
from flametap.symbols.debuginfo import open_symcache
from flametap.symbols.dwarf import constants as dw
from flametap.symbols.dwarf.attributes import DwarfError
from flametap.symbols.dwarf.functions import Names
from flametap.symbols.dwarf.merge import Merged, is_scattered, merge, missing_parts
from flametap.symbols.dwarf.sections import load
from flametap.symbols.dwarf.split import SplitPlaces, is_skeleton
from flametap.symbols.dwarf.units import DwarfFile
from flametap.symbols.elf import from_bytes
from flametap.symbols.job import Built, DebugJob
from flametap.symbols.layers import Layers, pack, unpack
from flametap.symbols.lines import Chain, LinesError, SourceFrame
from flametap.symbols.objectfile import ObjectError
from flametap.symbols.resolver import ModuleResolver
from line_oracle import compare
from objects import module_of, open_elf, run, symbols

pytestmark = pytest.mark.needs("gcc", "readelf")

HEADER = """
#include <stdlib.h>
struct shape { int kind; double size; struct shape *next; };
struct list { struct shape *first; int count; const char *name; };
static inline __attribute__((always_inline)) double square(double x) { return x * x; }
static inline __attribute__((always_inline)) double area(struct shape *s) {
    if (s->kind == 1)
        return square(s->size);
    return 3 * square(s->size) + rand();
}
static inline __attribute__((always_inline)) double total(struct list *l) {
    double sum = 0;
    for (struct shape *s = l->first; s; s = s->next)
        sum += area(s);
    return sum;
}
"""
ONE = """
#include "shapes.h"
__attribute__((noinline)) double of_one(struct list *l) { return total(l) + l->count; }
__attribute__((noinline)) int twice(int n) { return 2 * n; }
int main(int argc, char **argv) {
    struct shape s = {argc, 2.0, 0};
    struct list l = {&s, twice(argc), argv[0]};
    return of_one(&l) > 9;
}
"""
TWO = """
#include "shapes.h"
__attribute__((noinline)) double of_two(struct list *l) { return 2 * total(l) - l->count; }
int main(int argc, char **argv) {
    struct shape s = {argc, 3.0, 0};
    struct list l = {&s, 1, argv[0]};
    return of_two(&l) > 9;
}
"""


def built(
    folder: Path,
    name: str,
    source: str,
    *flags: str,
    compiler: str = "gcc",
    more: tuple[str, ...] = (),
) -> Path:
    """A program built in ``folder``, with its object file left beside it."""
    (folder / "shapes.h").write_text(HEADER)
    (folder / f"{name}.c").write_text(source)
    command = [compiler, "-O2", "-g", *flags]
    here = f"-ffile-prefix-map={folder}={folder}"  # no more than what makes runs alike
    run([*command, here, "-c", str(folder / f"{name}.c"), "-o", str(folder / f"{name}.o")])
    linked = [str(folder / f"{name}.o"), *more, "-o", str(folder / name), "-Wl,--build-id=sha1"]
    run([*command, *linked])
    return folder / name


def inside(program: Path, names: Iterable[str] = ("main", "of_one")) -> list[int]:
    """All addresses of some functions."""
    found = symbols(program)
    return [
        address
        for name in names
        for address in range(found[name][0], found[name][0] + found[name][1])
    ]


def chains(program: Path, addresses: list[int], **job: object) -> tuple[list[Chain], str]:
    """What the worker would make of a file, looked up; and its note."""
    result = build(program, **job)
    lines = open_symcache(result.payload, open_elf(program).base_addr)
    return list(lines.lookup_many(addresses)), result.note


def build(program: Path, **job: object) -> Built:
    where = {"folders": (str(program.parent),), "names": (program.name,)}
    base_addr = open_elf(program).base_addr
    return symcache.build_symcache(DebugJob(str(program), base_addr, **{**where, **job}))  # type: ignore[arg-type]


def outer_names(program: Path, result: Built, addresses: list[int]) -> set[str]:
    """The functions that were not inlined, as the resolver names them."""
    resolver = ModuleResolver(module_of(program), open_elf(program), None)
    resolver.lines = open_symcache(result.payload, open_elf(program).base_addr)
    return {resolver.resolve(address)[0].function.name for address in addresses}


@pytest.fixture(scope="module", params=["--multifile", "--dwarf-5"])
def dwz_pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path, Path]:
    """A program as it was built, the same after dwz, and the file that dwz made common."""
    folder = tmp_path_factory.mktemp("dwz")
    one, two = built(folder, "one", ONE), built(folder, "two", TWO)
    whole = folder / "whole"
    shutil.copy(one, whole)
    common = folder / "common.debug"
    version = ["--dwarf-5"] if request.param == "--dwarf-5" else []
    run(["dwz", *version, "-m", str(common), "-M", "common.debug", str(one), str(two)])
    assert common.exists()
    return whole, one, common


@pytest.mark.needs("dwz")
def test_dwz_gives_what_there_was_before(dwz_pair: tuple[Path, Path, Path]) -> None:
    whole, one, common = dwz_pair
    addresses = inside(whole)
    expected, _ = chains(whole, addresses)
    assert max(map(len, expected)) == 4  # square in area in total in of_one
    found, note = chains(one, addresses, alt=str(common))
    assert found == expected
    assert note == ""
    assert is_scattered(open_elf(one))
    assert not is_scattered(open_elf(whole))


@pytest.mark.needs("dwz")
def test_without_the_common_file_lines_remain(dwz_pair: tuple[Path, Path, Path]) -> None:
    whole, one, _ = dwz_pair
    addresses = inside(whole)
    expected, _ = chains(whole, addresses)
    found, note = chains(one, addresses)
    assert "common.debug" in note
    assert [[(f.file, f.line) for f in chain] for chain in found] == [
        [(f.file, f.line) for f in chain] for chain in expected
    ]
    assert {f.symbol for chain in found for f in chain[1:]} >= {"[inlined]"}
    assert missing_parts(open_elf(one), None, SplitPlaces()) == note
    # The symbol table still has the names of what was not inlined.
    assert outer_names(one, build(one), addresses) == {"main", "of_one"}


SPLIT = {
    "gcc4": ("gcc", "-gdwarf-4"),
    "gcc5": ("gcc", "-gdwarf-5"),
    "clang4": ("clang", "-gdwarf-4"),
    "clang5": ("clang", "-gdwarf-5"),
}


@pytest.fixture(scope="module", params=SPLIT)
def split_program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler, version = SPLIT[request.param]
    folder = tmp_path_factory.mktemp(f"split-{request.param}-")
    return built(folder, "one", ONE, version, "-gsplit-dwarf", compiler=compiler)


@pytest.mark.needs("clang", "llvm-symbolizer")
def test_split_units_agree_with_llvm_symbolizer(split_program: Path) -> None:
    result = compare(split_program, 500)
    assert result.share == 1.0, result.examples
    assert result.note == ""
    places = SplitPlaces(folders=(str(split_program.parent),))
    assert missing_parts(open_elf(split_program), None, places) == ""
    found, _ = chains(split_program, inside(split_program))
    assert max(map(len, found)) >= 3


@pytest.mark.needs("clang", "llvm-dwp")
def test_split_units_are_found_wherever_they_may_be(split_program: Path, tmp_path: Path) -> None:
    addresses = inside(split_program)
    expected, _ = chains(split_program, addresses)
    dwo = split_program.with_suffix(".dwo")
    kept = tmp_path / "kept.dwo"
    sources = {dwo.name: kept}
    if "gcc5" not in str(split_program):  # on which llvm-dwp 14 never ends
        sources["one.dwp"] = tmp_path / "package"
        run(["llvm-dwp", "-e", str(split_program), "-o", str(sources["one.dwp"])])
    shutil.move(dwo, kept)
    try:
        for name, source in sources.items():
            folder = tmp_path / f"in-{name}"
            folder.mkdir()
            shutil.copy(source, folder / name)
            found, note = chains(split_program, addresses, folders=(str(folder),))
            assert found == expected
            assert note == ""
        # In the root of a target, where the compiler put it.
        root = tmp_path / "root"
        (root / dwo.parent.relative_to("/")).mkdir(parents=True)
        shutil.copy(kept, root / dwo.relative_to("/"))
        found, note = chains(split_program, addresses, roots=(str(root), ""))
        assert (found, note) == (expected, "")
    finally:
        shutil.move(kept, dwo)


@pytest.mark.needs("clang", "llvm-dwp")
def test_units_of_equal_shape_keep_their_own_names(tmp_path: Path) -> None:
    text = """
    #include <stdlib.h>
    static inline __attribute__((always_inline)) int in_%d(int n) { return n * rand(); }
    int of_%d(int n) { return in_%d(n) + n; }
    """
    flags = ("-O2", "-g", "-gdwarf-5", "-gsplit-dwarf")
    more = []
    for number in range(10, 18):
        unit = tmp_path / f"unit{number}.c"
        unit.write_text(text.replace("%d", str(number)))
        more.append(str(unit.with_suffix(".o")))
        run(["clang", *flags, "-c", str(unit), "-o", more[-1]])
    program = built(tmp_path, "one", ONE, *flags, compiler="clang", more=tuple(more))
    starts = {name: start for name, (start, _) in symbols(program).items() if "of_1" in name}
    assert len(starts) == 8
    for packed in (False, True):
        if packed:
            run(["llvm-dwp", "-e", str(program), "-o", f"{program}.dwp"])
        addresses = [start + 1 for start in starts.values()]
        addresses += [address + 8 for address in addresses]
        found, note = chains(program, addresses)
        assert note == ""
        inlined = [chain for chain in found if len(chain) == 2]
        assert len(inlined) >= 8
        for chain in inlined:
            assert chain[1].symbol == chain[0].symbol.replace("of_", "in_")


@pytest.mark.needs("clang")
@pytest.mark.parametrize("what", ["missing", "of another build", "damaged", "FIFO"])
def test_without_the_split_unit_lines_remain(
    split_program: Path, what: str, tmp_path: Path
) -> None:
    addresses = inside(split_program)
    dwo = split_program.with_suffix(".dwo")
    kept = tmp_path / "kept.dwo"
    shutil.move(dwo, kept)
    try:
        data = bytearray(kept.read_bytes())
        if what == "FIFO":
            os.mkfifo(dwo)
        elif what == "damaged":
            dwo.write_bytes(data[: len(data) // 3])
        elif what != "missing":
            dwo.write_bytes(with_another_id(data, dwo_id_of(split_program)))
        result = build(split_program)
        places = SplitPlaces(folders=(str(split_program.parent),))
        assert missing_parts(open_elf(split_program), None, places) == result.note
    finally:
        dwo.unlink(missing_ok=True)
        shutil.move(kept, dwo)
    wrong = what in ("damaged", "of another build")
    assert ("of another build or damaged" if wrong else "not found") in result.note
    assert "one.dwo" in result.note
    found = open_symcache(result.payload, 0).lookup_many(addresses)
    assert all(chain and chain[0].file for chain in found)
    assert outer_names(split_program, result, addresses) == {"main", "of_one"}


def dwo_id_of(program: Path) -> bytes:
    (unit,) = [u for u in load(open_elf(program)).units if is_skeleton(u)]
    assert unit.dwo_id is not None
    return unit.dwo_id.to_bytes(8, "little")


def with_another_id(data: bytearray, dwo_id: bytes) -> bytes:
    assert dwo_id in data
    return bytes(data).replace(dwo_id, bytes(8))


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
    except (DwarfError, ObjectError, TimeoutError):
        return False
    assert isinstance(merged, Merged)
    assert from_bytes(merged.elf).debug_info_bytes >= 0
    return True


def test_too_slow_is_an_error_of_ours(tmp_path: Path) -> None:
    program = built(tmp_path, "one", ONE)
    with pytest.raises(TimeoutError, match="too long"):
        merge(open_elf(program), deadline_s=-1)


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
    first, second = load(open_elf(program)).units[-2:]
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
    assert second.end > first.end


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
