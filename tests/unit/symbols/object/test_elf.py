"""ELF parsing against readelf, and against damage."""

from __future__ import annotations

import random
import re
import struct
import tracemalloc
from pathlib import Path

import pytest

from elfheaders import with_sections
from flametap.symbols.locate.debug_links import debug_link
from flametap.symbols.object import elf
from flametap.symbols.object.elf import ElfError, ElfFile
from objects import compile_object, open_elf, run, split_debug, symbols

pytestmark = pytest.mark.needs("gcc", "readelf")

SOURCE = """
static int twice(int x) { volatile int y = x; return y * 2; }
int visible(int x) { return twice(x) + 1; }
int main(int argc, char **argv) { return visible(argc); }
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_object(tmp_path_factory.mktemp("elf"), SOURCE, "-O1", "-g", "-fno-inline")


def test_sections_and_build_id_are_those_that_readelf_prints(program: Path) -> None:
    parsed = open_elf(program)
    notes = run(["readelf", "-nW", str(program)])
    assert parsed.build_id == re.search(r"Build ID: (\w+)", notes)[1]  # type: ignore[index]
    expected = re.findall(
        r"\[ *\d+\] (\.\S+) +\S+ +(\w{16}) (\w{6}) (\w{6})", run(["readelf", "-SW", str(program)])
    )
    assert [
        (s.name, s.addr, s.offset, s.size) for s in parsed.sections if s.name.startswith(".")
    ] == [(n, int(a, 16), int(o, 16), int(s, 16)) for n, a, o, s in expected]
    assert parsed.has_symtab
    assert parsed.debug_info_bytes > 0
    assert parsed.base_addr == 0


def test_stripped_file_names_its_debug_file(tmp_path: Path) -> None:
    program = compile_object(tmp_path, SOURCE, "-g")
    build_id = open_elf(program).build_id
    split_debug(program, tmp_path / "program.debug")
    stripped, debug = open_elf(program), open_elf(tmp_path / "program.debug")
    link = debug_link(stripped)
    assert link is not None
    assert link[0] == "program.debug"
    assert not stripped.has_symtab
    assert stripped.debug_info_bytes == 0
    assert debug.has_symtab
    assert debug.debug_info_bytes > 0
    assert stripped.build_id == debug.build_id == build_id
    text = debug.section(".text")
    assert text is not None
    assert debug.data(text) == b""


def test_function_starts_come_from_the_unwind_tables(program: Path) -> None:
    fdes = open_elf(program).fde_table()
    assert fdes is not None
    for name in ("twice", "visible", "main"):
        start, size = symbols(program)[name]
        for file_addr in (start, start + 1, start + size - 1):
            assert fdes.functions_at([file_addr]) == [(start, start + size)]
    assert fdes.functions_at([0, 1 << 30]) == [None, None]


def test_code_without_unwind_information_is_one_between_two_functions(tmp_path: Path) -> None:
    """As assembler has it: its addresses would be functions of their own."""
    source = """
    int first(void) { return 1; }
    __asm__(".skip 64, 0x90; .type bare, @function\\nbare: .skip 64, 0x90");
    int main(void) { return first(); }
    """
    program = compile_object(tmp_path, source, "-O0")
    fdes = open_elf(program).fde_table()
    assert fdes is not None
    start, size = symbols(program)["first"]
    inside = [start + size + 4, start + size + 100]
    assert fdes.functions_at(inside) == [None, None]
    assert fdes.starts_at([*inside, 1]) == [start + size, start + size, 1]


@pytest.mark.needs("xz")
def test_mini_debug_info_is_unpacked(program: Path, tmp_path: Path) -> None:
    debug = tmp_path / "mini"
    run(["objcopy", "--only-keep-debug", str(program), str(debug)])
    run(["xz", "-k", str(debug)])
    output = tmp_path / "with_mini"
    add = f".gnu_debugdata={debug}.xz"
    run(["objcopy", "--strip-all", "--add-section", add, str(program), str(output)])
    assert open_elf(program).unpack_mini_debug_info() == b""
    assert open_elf(output).unpack_mini_debug_info() == debug.read_bytes()
    damaged = bytearray(output.read_bytes())
    place = damaged.index(b"\xfd7zXZ")
    damaged[place + 12 : place + 40] = bytes(28)
    with pytest.raises(ElfError):
        elf.from_bytes(bytes(damaged)).unpack_mini_debug_info()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x7fELF",
        b"#!/bin/sh\n" * 20,
        b"\x7fELF\x01\x01" + bytes(100),  # 32 bits
        b"\x7fELF\x02\x02" + bytes(100),  # big-endian
    ],
)
def test_other_files_are_refused(data: bytes) -> None:
    with pytest.raises(ElfError):
        elf.from_bytes(data)


def read_everything(data: bytes) -> None:
    """All that a symbolizer asks of a file."""
    parsed = elf.from_bytes(data)
    for section in parsed.sections:
        parsed.data(section)
    debug_link(parsed)
    parsed.unpack_mini_debug_info()
    fdes = parsed.fde_table()
    if fdes is not None:
        fdes.functions_at([0x1150])


def test_damage_ends_in_elf_error_and_nothing_else(program: Path) -> None:
    data = program.read_bytes()
    generator = random.Random(7)
    headers = struct.unpack_from("<Q", data, 40)[0]
    refused = 0
    for _ in range(400):
        damaged = bytearray(data[: generator.choice([len(data), generator.randrange(len(data))])])
        for _ in range(generator.randrange(8)):
            place = generator.choice([generator.randrange(64), headers + generator.randrange(512)])
            if place < len(damaged):
                damaged[place] = generator.randrange(256)
        try:
            read_everything(bytes(damaged))
        except ElfError:
            refused += 1
    assert refused > 100


def test_build_id_is_found_behind_other_notes() -> None:
    other = struct.pack("<III", 4, 16, 1) + b"GNU\0" + bytes(16)
    wanted = struct.pack("<III", 4, 3, 3) + b"GNU\0" + b"\xab\xcd\xef\0"
    assert elf.build_id_in_notes(other + wanted) == "abcdef"
    assert elf.build_id_in_notes(other) == ""
    assert elf.build_id_in_notes(wanted[:13]) == ""


def test_sparse_file_of_any_size_is_refused_at_once() -> None:
    """Headers that promise gigabytes of zeros, which a sparse file would give."""
    contents = bytearray(with_sections({".symtab": b"x"}))
    headers = int.from_bytes(contents[40:48], "little")
    struct.pack_into("<Q", contents, headers + 2 * 64 + 32, 1 << 40)  # of .shstrtab
    asked = []

    def read(offset: int, size: int) -> bytes:
        asked.append(size)
        return bytes(contents[offset : offset + size])

    with pytest.raises(ElfError, match="too large"):
        ElfFile(read, 1 << 50)
    assert max(asked) < 1 << 20


def test_names_of_sections_take_no_more_than_they_need() -> None:
    """Each of 2 000 names that ends with the file would be 1 MB long."""
    names, count = b"n" * (1 << 20), 2000
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack("<HHIQQQ", 1, 62, 1, 0, 0, 64 + len(names))
    header += struct.pack("<IHHHHHH", 0, 64, 56, 0, 64, count, count - 1)
    section = struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, 64, len(names), 0, 0, 1, 0)
    tracemalloc.start()
    try:
        parsed = elf.from_bytes(header + names + section * count)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
    assert len(parsed.sections) == count
