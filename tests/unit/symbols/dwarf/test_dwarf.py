"""Debug information in several files: what dwz made common, and what -gsplit-dwarf keeps apart."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import scattered
from flametap.symbols.debuginfo.reader import open_symcache
from flametap.symbols.dwarf.merge import is_scattered, missing_parts
from flametap.symbols.dwarf.sections import load
from flametap.symbols.dwarf.split import SplitPlaces, is_skeleton
from line_oracle import compare
from objects import open_elf, run, symbols
from scattered import ONE, SPLIT, build, built, chains, inside, outer_names

pytestmark = pytest.mark.needs("gcc", "readelf")


@pytest.fixture(scope="module", params=["--multifile", "--dwarf-5"])
def dwz_pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path, Path]:
    flags = [] if request.param == "--multifile" else [request.param]
    return scattered.dwz_pair(tmp_path_factory.mktemp("dwz"), *flags)


@pytest.fixture(scope="module", params=SPLIT)
def split_pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp(f"split-{request.param}-")
    return scattered.split_program(folder, request.param)


@pytest.fixture
def split_program(split_pair: tuple[Path, Path]) -> Path:
    return split_pair[0]


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


@pytest.mark.needs("clang", "llvm-symbolizer")
def test_split_units_agree_with_llvm_symbolizer(split_pair: tuple[Path, Path]) -> None:
    split_program, whole = split_pair
    # LLVM 14 misreads the ranges of GCC's second split unit: it is given the program that has all
    # inside.
    result = compare(split_program, 500, truth=whole)
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
    for number in range(10, 14):
        unit = tmp_path / f"unit{number}.c"
        unit.write_text(text.replace("%d", str(number)))
        more.append(str(unit.with_suffix(".o")))
        run(["clang", *flags, "-c", str(unit), "-o", more[-1]])
    program = built(tmp_path, "one", ONE, *flags, compiler="clang", more=tuple(more))
    starts = {name: start for name, (start, _) in symbols(program).items() if "of_1" in name}
    assert len(starts) == 4
    for packed in (False, True):
        if packed:
            run(["llvm-dwp", "-e", str(program), "-o", f"{program}.dwp"])
        addresses = [start + 1 for start in starts.values()]
        addresses += [address + 8 for address in addresses]
        found, note = chains(program, addresses)
        assert note == ""
        inlined = [chain for chain in found if len(chain) == 2]
        assert len(inlined) >= 4
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
    unit = [u for u in load(open_elf(program)).units if is_skeleton(u)][-1]
    assert unit.dwo_id is not None
    return unit.dwo_id.to_bytes(8, "little")


def with_another_id(data: bytearray, dwo_id: bytes) -> bytes:
    assert dwo_id in data
    return bytes(data).replace(dwo_id, bytes(8))
