"""The readers of what a Java machine's memory holds: a part of ``host_readers``."""

from __future__ import annotations

import struct
from pathlib import Path

from fake_memory import FakeMemory
from flametap.linux.process_memory import MemoryReadError
from flametap.symbols.interpreters.hotspot.names import JavaNames
from flametap.symbols.interpreters.hotspot.tables import read_tables
from flametap.symbols.locate.loaded_symbols import LoadedElf, LoadedSymbol
from flametap.symbols.names.limits import Budgets
from flametap.wire.abi import CODE_PARTS, JAVA_NO_INDEX
from flametap.wire.events import Code, CodePart
from host_fuzzing import Reader

_HEAD = struct.Struct("<5H")  # bytes of the four parts, and of the method's name
_STRUCTS, _TYPES, _CONSTANTS = "gHotSpotVMStruct", "gHotSpotVMType", "gHotSpotVMIntConstant"
# Where a seed has the variables, and what is in them.
_VARIABLES = {
    f"{_STRUCTS}s": 0x400,
    f"{_STRUCTS}EntryArrayStride": 48,
    f"{_STRUCTS}EntryTypeNameOffset": 0,
    f"{_STRUCTS}EntryFieldNameOffset": 8,
    f"{_STRUCTS}EntryTypeStringOffset": 16,
    f"{_STRUCTS}EntryIsStaticOffset": 24,
    f"{_STRUCTS}EntryOffsetOffset": 32,
    f"{_STRUCTS}EntryAddressOffset": 40,
    f"{_TYPES}s": 0x600,
    f"{_TYPES}EntryArrayStride": 16,
    f"{_TYPES}EntryTypeNameOffset": 0,
    f"{_TYPES}EntrySizeOffset": 8,
    f"{_CONSTANTS}s": 0x700,
    f"{_CONSTANTS}EntryArrayStride": 16,
    f"{_CONSTANTS}EntryNameOffset": 0,
    f"{_CONSTANTS}EntryValueOffset": 8,
}
_TEXTS = 0x200


class _Elf(LoadedElf):
    """A file that exports the variables."""

    def __init__(self) -> None:
        self._places = {name: 8 * i for i, name in enumerate(_VARIABLES)}

    def symbol(self, name: str) -> LoadedSymbol | None:
        addr = self._places.get(name)
        return None if addr is None else LoadedSymbol(addr, 8)


def _methods(_: Path) -> list[bytes]:
    lines = bytes([0xFF, 1, 15, 3 << 3 | 1, 0xFF, 200, 5, 199, 198, 4])
    seeds = []
    for class_name, name, signature, file in (
        ("java/util/HashMap", "get", "(Ljava/lang/Object;[[I)V", "HashMap.java"),
        ("Main$$Lambda$14+0x0000000800c03000", "<init>", "()V", ""),
        ("a/Ünï", "𝒳", "(BCDFIJSZ)Lq/R;", "Ünï.kt"),
    ):
        parts = (class_name.encode(), (name + signature).encode(), file.encode(), lines)
        head = _HEAD.pack(*map(len, parts), len(name.encode()))
        seeds.append(head + b"".join(parts))
    return seeds


def _read_method(data: bytes) -> None:
    if len(data) < _HEAD.size:
        return
    *sizes, name_bytes = _HEAD.unpack_from(data)
    at, parts = _HEAD.size, []
    for size in sizes:
        parts.append(CodePart(data[at : at + size], 1, bool(size & 1)))
        at += size
    assert len(parts) == CODE_PARTS
    budgets = Budgets()
    names = JavaNames(lambda _: data[-1] & 1, lambda _: (), budgets.names, budgets.table_bytes)
    method = names.code(Code(1, 1, False, tuple(parts), (name_bytes, 0)))
    for position in (0, 1, 77, JAVA_NO_INDEX, 0xFFFFFF, data[0]):
        (frame,) = method.frames_at(position)
        assert frame.function.name.isprintable()
        assert frame.function.full_name.isprintable()
        assert frame.function.file.isprintable()
        assert 0 <= frame.line <= 0xFFFF


def _memories(_: Path) -> list[bytes]:
    memory = bytearray(0x3000)
    struct.pack_into(f"<{len(_VARIABLES)}Q", memory, 0, *_VARIABLES.values())
    memory[_TEXTS : _TEXTS + 24] = b"Klass\0\0\0_name\0\0\0Symbol*\0"
    places = _TEXTS, _TEXTS + 8, _TEXTS + 16
    struct.pack_into("<3QiiQQ", memory, 0x400, *places, 0, 0, 24, 0)
    struct.pack_into("<3QiiQQ", memory, 0x430, *places, 1, 0, 0, 0x7000)
    struct.pack_into("<2Q", memory, 0x600, _TEXTS, 208)
    struct.pack_into("<2Q", memory, 0x700, _TEXTS, 7)
    return [bytes(memory)]


def _read_tables(data: bytes) -> None:
    read_tables(FakeMemory({0: data}), _Elf())


JAVA_READERS: dict[str, Reader] = {
    "java-method": Reader(_methods, _read_method, (), (b"(", b"[", b"L", b";", b"\xff", b"/0x")),
    "java-tables": Reader(_memories, _read_tables, (MemoryReadError,)),
}
