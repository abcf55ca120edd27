"""Code that is registered for debuggers: lists that grow and tear, object files, times."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from fake_memory import FakeMemory
from flametap.linux.process_memory import ProcessGoneError, ProcessMemory
from flametap.symbols.jit import object_lists, registered
from flametap.symbols.jit.code_ranges import ANY_TIME_NS, NOT_FOUND
from flametap.symbols.jit.growing_file import Growth
from flametap.symbols.jit.object_lists import functions_of
from flametap.symbols.jit.registered import RegisteredCode
from flametap.symbols.object.elf import ElfError
from objects import run

LIST, ENTRIES, OBJECTS, CODE = 0x1000, 0x2000, 0x100000, 0x7F0000000000
SOURCE = """
int first(int x) { return x * 3; }
int second(int x) { return x * 5 + 1; }
int counter;
"""
START_NS = 1_000


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An object file of two functions, as the compiler has written it."""
    folder = tmp_path_factory.mktemp("object")
    (folder / "code.c").write_text(SOURCE)
    run(["gcc", "-O1", "-c", str(folder / "code.c"), "-o", str(folder / "code.o")])
    return folder / "code.o"


def loaded(path: Path, code_addr: int) -> bytes:
    """The object with the address at which its code is loaded in the section's header."""
    data = bytearray(path.read_bytes())
    with path.open("rb") as file:
        elf = ELFFile(file)
        index = elf.get_section_index(".text")
        at = elf["e_shoff"] + index * elf["e_shentsize"]
    struct.pack_into("<Q", data, at + 16, code_addr)
    return bytes(data)


class Process:
    """A process with one list, and a clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pieces: dict[int, bytes] = {}
        self.places: list[int] = []
        self.now_ns = START_NS
        self.code = RegisteredCode(1)
        monkeypatch.setattr(self.code, "_open", self._open)
        monkeypatch.setattr(self.code, "_now_ns", lambda: self.now_ns)
        monkeypatch.setattr(self.code._descriptors, "look", lambda memory: None)
        monkeypatch.setattr(registered, "COST_FACTOR", 0)
        self.code._descriptors.places = [LIST]

    def _open(self) -> bool:
        self.code._memory = FakeMemory(self.pieces)
        return True

    def register(self, *objects: bytes) -> None:
        """Make the list hold these, the first at its head; the rest of the memory is as it was."""
        places = [ENTRIES + 32 * i for i in range(len(objects))]
        entries = b""
        for i, data in enumerate(objects):
            at = OBJECTS + 0x10000 * (len(objects) - i)
            self.pieces[at] = data
            following = places[i + 1] if i + 1 < len(objects) else 0
            entries += struct.pack("<QQQQ", following, 0, at, len(data))
        self.pieces[ENTRIES] = entries
        self.pieces[LIST] = struct.pack("<IIQQ", 1, 1, len(objects), places[0] if places else 0)
        self._open()

    def look(self, now_ns: int = START_NS) -> Growth:
        """Look, and read all that is new."""
        self.now_ns = now_ns
        growth = self.code.look()
        while growth is Growth.MORE and self.code.read_more():
            pass
        return growth

    def name(self, address: int, seen_ns: int = ANY_TIME_NS) -> str:
        """What the code at an address is called."""
        found = self.code.find(np.array([address], np.uint64), np.array([seen_ns], np.int64))
        key = int(found.key[0])
        return "" if key == NOT_FOUND else self.code.name(key, int(found.start[0]))


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Process:
    return Process(monkeypatch)


def test_functions_are_those_of_the_object(built: Path) -> None:
    """pyelftools reads the same; variables are left out."""
    with built.open("rb") as file:
        symbols = ELFFile(file).get_section_by_name(".symtab")
        assert isinstance(symbols, SymbolTableSection)
        expected = {
            (CODE + each["st_value"], CODE + each["st_value"] + each["st_size"], each.name)
            for each in symbols.iter_symbols()
            if each["st_info"]["type"] == "STT_FUNC"
        }
    assert {name for _, _, name in expected} == {"first", "second"}
    found = functions_of(loaded(built, CODE))
    names = found.names(1 << 20)
    assert names is not None
    assert set(zip(found.starts.tolist(), found.ends.tolist(), names, strict=True)) == expected


def test_damaged_objects_raise_nothing_else(built: Path) -> None:
    data, chance = loaded(built, CODE), random.Random(1)
    for _ in range(3_000):
        bad = bytearray(data[: chance.randrange(1, len(data) + 1)])
        for _ in range(chance.randrange(1, 6)):
            bad[chance.randrange(len(bad))] = chance.choice((0, 1, 127, 128, 255))
        try:
            functions_of(bytes(bad))
        except ElfError:
            continue


def test_what_is_registered_later_is_found_later(process: Process, built: Path) -> None:
    old, new = loaded(built, CODE), loaded(built, CODE + 0x1000)
    process.register(old)
    assert process.look() is Growth.MORE
    assert process.look() is Growth.NONE
    assert (process.name(CODE), process.name(CODE + 0x1000)) == ("first", "")
    process.register(new, old)
    assert process.look() is Growth.MORE
    assert (process.name(CODE), process.name(CODE + 0x1000)) == ("first", "first")


def test_an_address_that_was_seen_before_does_not_get_the_name(
    process: Process, built: Path
) -> None:
    process.register()
    process.look(10_000)
    process.look(20_000)
    process.register(loaded(built, CODE))
    process.look(30_000)
    assert process.name(CODE, seen_ns=19_999) == ""
    assert process.name(CODE, seen_ns=20_000) == "first"


def test_torn_list_is_read_again(process: Process, built: Path) -> None:
    process.register(loaded(built, CODE))
    whole = process.pieces[ENTRIES]
    process.pieces[ENTRIES] = whole[:8]
    process._open()
    assert process.look() is Growth.NONE
    process.pieces[ENTRIES] = whole
    process._open()
    assert process.look() is Growth.MORE
    assert process.name(CODE) == "first"


def test_list_in_a_circle_ends(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_lists, "MAX_ENTRIES", 100)
    process.pieces[LIST] = struct.pack("<IIQQ", 1, 1, 0, ENTRIES)
    process.pieces[ENTRIES] = struct.pack("<QQQQ", ENTRIES, 0, OBJECTS, 100)
    process.pieces[OBJECTS] = bytes(100)
    process.look()
    assert len(process.code) == 0
    assert list(process.code.notes()) == [
        "1 objects that are registered for debuggers are no ELF files"
    ]


def test_object_that_is_cut_is_damaged(process: Process) -> None:
    process.pieces[LIST] = struct.pack("<IIQQ", 1, 1, 0, ENTRIES)
    process.pieces[ENTRIES] = struct.pack("<QQQQ", 0, 0, OBJECTS, 100)
    process.pieces[OBJECTS] = b"\x7fELF" + bytes(96)
    process.look()
    assert list(process.code.notes()) == ["1 objects that are registered for debuggers are damaged"]


def test_too_much_is_not_read(
    process: Process, built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = loaded(built, CODE)
    monkeypatch.setattr(registered, "MAX_ALL_BYTES", 5_000)  # each counts for 4 KiB
    process.register(loaded(built, CODE + 0x1000), data)
    process.look()
    assert (process.name(CODE), process.name(CODE + 0x1000)) == ("first", "")
    assert "not read further" in "; ".join(process.code.notes())


def test_names_that_overlap_take_no_more_memory_than_others(
    process: Process, built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each symbol of a hostile object may have one long text for a name."""
    monkeypatch.setattr(registered, "MAX_NAME_BYTES", 100)
    process.register(loaded(built, CODE))
    process.look()
    assert process.name(CODE) == ""
    assert "too many" in "; ".join(process.code.notes())


def test_what_is_gone_has_no_name_any_more(process: Process, built: Path) -> None:
    """But what was seen before it had gone."""
    process.register(loaded(built, CODE))
    process.look(10_000)
    process.register()
    process.look(20_000)
    assert process.name(CODE, seen_ns=9_999) == "first"
    assert process.name(CODE, seen_ns=10_000) == ""


def test_another_object_at_the_same_place_is_noticed(process: Process, built: Path) -> None:
    """An allocator gives the same places again: for list, entry and object."""
    data = loaded(built, CODE)
    process.register(data)
    process.look(10_000)
    process.register(data.replace(b"first\0", b"other\0"))
    process.look(20_000)
    assert process.name(CODE, seen_ns=9_999) == "first"
    assert process.name(CODE) == "other"


def test_library_that_was_unloaded_leaves_no_names(process: Process, built: Path) -> None:
    process.register(loaded(built, CODE))
    process.look(10_000)
    del process.pieces[LIST]
    process._open()
    process.look(20_000)
    assert process.name(CODE) == ""


def test_process_that_has_ended_keeps_its_names(
    process: Process, built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: FakeMemory, runtime_addr: int, size: int) -> bytes:
        raise ProcessGoneError("the process has gone")

    process.register(loaded(built, CODE))
    process.look(10_000)
    monkeypatch.setattr(FakeMemory, "read_some", refuse)
    assert process.look(20_000) is Growth.NONE
    assert process.name(CODE) == "first"


def test_object_that_cannot_be_read_uses_nothing_up(
    process: Process, built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registered, "MAX_ALL_BYTES", 10_000)
    data = loaded(built, CODE)
    process.register(data)
    del process.pieces[OBJECTS + 0x10000]
    process._open()
    for i in range(20):
        process.look(10_000 * (i + 1))
    process.pieces[OBJECTS + 0x10000] = data
    process._open()
    process.look(1_000_000)
    assert process.name(CODE) == "first"


def test_memory_that_cannot_be_opened_has_no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: ProcessMemory, folder: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(ProcessMemory, "__init__", refuse)
    code = RegisteredCode(1)
    assert code.look() is Growth.NONE
    assert len(code) == 0
    code.close()
