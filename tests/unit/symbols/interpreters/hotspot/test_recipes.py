"""Recipes from the tables of real builds, and tables from memory."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from fake_memory import FakeMemory
from flametap.linux.process_memory import MemoryReadError
from flametap.symbols.interpreters.hotspot.recipes import Location, NotReadyError, make_recipe
from flametap.symbols.interpreters.hotspot.tables import VmTables, read_tables
from flametap.symbols.interpreters.recipe import Recipe
from flametap.symbols.locate.loaded_symbols import LoadedElf, LoadedSymbol
from flametap.wire.abi import ABSENT, HOTSPOT_RECIPE_NAMES, RECIPE_WORDS

DATA = Path(__file__).parents[4] / "data" / "hotspot"
VERSIONS = (11, 17, 21, 25)
VARIABLES = 0x10000  # where the static variables of the tables are, 8 bytes each
ARRAY, HEAPS, QUEUE, BUFFER, RETURN = 0x20000, 0x21000, 0x22000, 0x7F0000100000, 0x7F0000200010


def data_of(version: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DATA / f"{version}.json").read_text("utf-8"))
    return found


def location(version: int, *, without: str = "", heaps: int = 3) -> tuple[FakeMemory, Location]:
    """A HotSpot that has the tables of a real one; ``without`` is a name that it lacks."""
    data = data_of(version)
    offsets = {name: at for name, at in data["offsets"].items() if name != without}
    statics = {name: VARIABLES + 8 * i for i, name in enumerate(data["statics"])}
    values = {
        "AbstractInterpreter._code": QUEUE,
        "CodeCache._heaps": ARRAY if heaps else 0,
        "StubRoutines._call_stub_return_address": RETURN,
    }
    variables = b"".join(struct.pack("<Q", values.get(name, 0)) for name in statics)
    array = bytearray(64)
    length = offsets.get("GrowableArrayBase._len", offsets.get("GenericGrowableArray._len", 0))
    struct.pack_into("<I", array, length, heaps)
    struct.pack_into("<Q", array, offsets["GrowableArray<int>._data"], HEAPS)
    queue = bytearray(64)
    struct.pack_into("<Q", queue, offsets.get("StubQueue._stub_buffer", 8), BUFFER)
    addresses = b"".join(struct.pack("<Q", 0x30000 + 0x1000 * i) for i in range(heaps))
    pieces = {VARIABLES: variables, ARRAY: bytes(array), QUEUE: bytes(queue), HEAPS: addresses}
    tables = VmTables(offsets, statics, {}, data["sizes"], data["constants"])
    place = Location(f"OpenJDK {version}.0.1", version, (0x1000, 0x9000), tables)
    return FakeMemory(pieces), place


@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_has_a_recipe(version: int) -> None:
    made = make_recipe(*location(version), 1)
    assert isinstance(made, Recipe)
    assert (made["interpreter"], made["call_stub_return"]) == (BUFFER, RETURN)
    assert (made["heap"], made["heap_1"], made["heap_2"]) == (0x30000, 0x31000, 0x32000)
    assert "heap_3" not in made
    assert made["number_base"] == (version >= 20)
    words = made.words()
    assert len(words) == RECIPE_WORDS
    assert words[HOTSPOT_RECIPE_NAMES.index("heap_3")] == ABSENT


def test_numbers_that_differ_by_version() -> None:
    old, new = (make_recipe(*location(version), 1) for version in (17, 25))
    assert isinstance(old, Recipe)
    assert isinstance(new, Recipe)
    assert "blob_code" in old
    assert "blob_code_offset" not in old
    assert "blob_code_offset" in new
    assert "blob_code" not in new
    assert "places_base" not in old
    assert new["places_base"] == data_of(25)["offsets"]["nmethod._immutable_data"]
    assert new["methods_base"] == data_of(25)["offsets"]["CodeBlob._mutable_data"]
    assert (old["block_bytes"], new["block_bytes"]) == (16, 8)


def test_a_machine_that_is_starting_is_asked_again() -> None:
    with pytest.raises(NotReadyError):
        make_recipe(*location(17, heaps=0), 1)


def test_an_old_one_is_refused() -> None:
    memory, place = location(11)
    made = make_recipe(memory, place._replace(version="OpenJDK 8", major=8), 1)
    assert made == "OpenJDK 8: too old: its methods are shown as [jit] and the machine's own"


@pytest.mark.parametrize("name", ["Method._constMethod", "CodeBlob._name", "nmethod._compile_id"])
def test_a_build_that_does_not_say_enough_is_refused(name: str) -> None:
    made = make_recipe(*location(17, without=name), 1)
    assert isinstance(made, str)
    assert name in made


class FakeElf(LoadedElf):
    """A file that exports variables at addresses."""

    def __init__(self, symbols: dict[str, int]) -> None:
        self._symbols = symbols

    def symbol(self, name: str) -> LoadedSymbol | None:
        addr = self._symbols.get(name)
        return None if addr is None else LoadedSymbol(addr, 8)


def tables_in_memory(*, has_end: bool = True, stride: int = 48) -> tuple[FakeMemory, FakeElf]:
    """Tables with one field, one static variable, one type and one constant."""
    texts = b"Klass\0_name\0Symbol*\0Heap\0_all\0Seven\0\0"
    at = {text: 0x5000 + texts.index(text.encode()) for text in ("Klass", "_name", "Symbol*")}
    at |= {text: 0x5000 + texts.index(text.encode()) for text in ("Heap", "_all", "Seven")}
    structs = struct.pack("<3QiiQQ", at["Klass"], at["_name"], at["Symbol*"], 0, 0, 24, 0)
    structs += struct.pack("<3QiiQQ", at["Heap"], at["_all"], at["Symbol*"], 1, 0, 0, 0x7000)
    structs += bytes(48) if has_end else structs * 90
    types = struct.pack("<2Q", at["Klass"], 208) + bytes(16)
    constants = struct.pack("<2Q", at["Seven"], 7 | 0xABC << 32) + bytes(16)
    numbers = {
        "gHotSpotVMStructs": 0x6000,
        "gHotSpotVMStructEntryArrayStride": stride,
        "gHotSpotVMStructEntryTypeNameOffset": 0,
        "gHotSpotVMStructEntryFieldNameOffset": 8,
        "gHotSpotVMStructEntryTypeStringOffset": 16,
        "gHotSpotVMStructEntryIsStaticOffset": 24,
        "gHotSpotVMStructEntryOffsetOffset": 32,
        "gHotSpotVMStructEntryAddressOffset": 40,
        "gHotSpotVMTypes": 0x8000,
        "gHotSpotVMTypeEntryArrayStride": 16,
        "gHotSpotVMTypeEntryTypeNameOffset": 0,
        "gHotSpotVMTypeEntrySizeOffset": 8,
        "gHotSpotVMIntConstants": 0x9000,
        "gHotSpotVMIntConstantEntryArrayStride": 16,
        "gHotSpotVMIntConstantEntryNameOffset": 0,
        "gHotSpotVMIntConstantEntryValueOffset": 8,
    }
    variables = {name: 0x1000 + 8 * i for i, name in enumerate(numbers)}
    values = struct.pack(f"<{len(numbers)}Q", *numbers.values())
    pieces = {0x1000: values, 0x5000: texts.ljust(4096, b"\0"), 0x6000: structs}
    memory = FakeMemory(pieces | {0x8000: types, 0x9000: constants})
    return memory, FakeElf(variables)


def test_tables_are_read_as_they_describe_themselves() -> None:
    assert read_tables(*tables_in_memory()) == VmTables(
        {"Klass._name": 24},
        {"Heap._all": 0x7000},
        {"Klass._name": "Symbol*", "Heap._all": "Symbol*"},
        {"Klass": 208},
        {"Seven": 7},
    )


def test_damaged_tables_are_refused() -> None:
    for damaged in (tables_in_memory(has_end=False), tables_in_memory(stride=0)):
        with pytest.raises(MemoryReadError):
            read_tables(*damaged)
    memory, _ = tables_in_memory()
    with pytest.raises(MemoryReadError):
        read_tables(memory, FakeElf({"gHotSpotVMStructs": 0x1000}))
