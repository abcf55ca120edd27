"""Read the tables by which HotSpot describes its own structures to debuggers.

``libjvm`` exports ``gHotSpotVMStructs`` (fields with their offsets, static variables with their
addresses), ``gHotSpotVMTypes`` (sizes) and ``gHotSpotVMIntConstants``, each with symbols that say
how an entry is laid out. JDK 8 and newer. Some 700 entries, read once.

The bytes may be hostile: every count and length has a bound, and what does not fit raises
``MemoryReadError``.

Source: src/hotspot/share/runtime/vmStructs.hpp.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from ....linux.process_memory import MemoryReadError, ProcessMemory
from ...locate.loaded_symbols import LoadedElf

STRUCTS = "gHotSpotVMStructs"
_MAX_ENTRIES = 1 << 13  # JDK 11 to 25 have 585 to 900
_MAX_STRIDE = 256
_MAX_TEXT = 256
_PAGE_BYTES = 4096
_MAX_PAGES = 1 << 10  # of text
_TYPES, _INTEGERS = "gHotSpotVMTypes", "gHotSpotVMIntConstants"


@dataclass(frozen=True)
class VmTables:
    """What the tables say, by ``Type.field`` or name."""

    offsets: dict[str, int]  # of fields, in bytes
    statics: dict[str, int]  # runtime_addr of static variables
    field_types: dict[str, str]  # of both, as C++ writes them
    sizes: dict[str, int]  # of types, in bytes
    constants: dict[str, int]


class _Texts:
    """C strings of the process, by page: most lie side by side."""

    def __init__(self, memory: ProcessMemory) -> None:
        self._memory = memory
        self._pages: dict[int, bytes] = {}

    def at(self, addr: int) -> str:
        """Return the string at an address; "" at 0.

        Raises:
            MemoryReadError: it cannot be read, or is too long.
        """
        if not addr:
            return ""
        page, offset = divmod(addr, _PAGE_BYTES)
        text = self._page(page)[offset : offset + _MAX_TEXT]
        if b"\0" not in text:
            text = (text + self._page(page + 1))[:_MAX_TEXT]
        found, end, _ = text.partition(b"\0")
        if not end:
            raise MemoryReadError("a name without an end")
        return found.decode("latin-1")

    def _page(self, number: int) -> bytes:
        page = self._pages.get(number)
        if page is None:
            if len(self._pages) >= _MAX_PAGES:
                raise MemoryReadError("names lie too far apart")
            page = self._memory.read(number * _PAGE_BYTES, _PAGE_BYTES)
            self._pages[number] = page
        return page


class _Table:
    """One table: entries of a fixed size, up to one whose first text is missing."""

    def __init__(
        self, memory: ProcessMemory, elf: LoadedElf, name: str, entry: str, fields: tuple[str, ...]
    ) -> None:
        start = _variable(memory, elf, name)
        stride = _variable(memory, elf, f"{entry}ArrayStride")
        self._at = [_variable(memory, elf, f"{entry}{field}Offset") for field in fields]
        if not 8 <= stride <= _MAX_STRIDE or any(at + 8 > stride for at in self._at):
            raise MemoryReadError(f"{name} has entries of an impossible size")
        self.rows: list[tuple[int, ...]] = []
        step = _PAGE_BYTES // stride  # entries read at a time
        while len(self.rows) < _MAX_ENTRIES:
            data = memory.read_some(start, step * stride)
            for place in range(0, len(data) - stride + 1, stride):
                row = tuple(struct.unpack_from("<Q", data, place + at)[0] for at in self._at)
                if not row[0]:
                    return
                self.rows.append(row)
            if len(data) < step * stride:
                break
            start += len(data)
        raise MemoryReadError(f"{name} has no end")


def has_tables(elf: LoadedElf) -> bool:
    """Return True if a loaded file is a HotSpot."""
    return elf.symbol(STRUCTS) is not None


def read_tables(memory: ProcessMemory, elf: LoadedElf) -> VmTables:
    """Read all tables of a loaded HotSpot.

    Raises:
        MemoryReadError: one is missing, damaged, or not filled in yet.
    """
    texts = _Texts(memory)
    found = VmTables({}, {}, {}, {}, {})
    names = ("TypeName", "FieldName", "TypeString", "IsStatic", "Offset", "Address")
    for type_name, field, c_type, is_static, offset, addr in _Table(
        memory, elf, STRUCTS, "gHotSpotVMStructEntry", names
    ).rows:
        name = f"{texts.at(type_name)}.{texts.at(field)}"
        if is_static & 0xFFFFFFFF:
            found.statics.setdefault(name, addr)
        else:
            found.offsets.setdefault(name, offset)
        found.field_types.setdefault(name, texts.at(c_type))
    for type_name, size in _Table(
        memory, elf, _TYPES, "gHotSpotVMTypeEntry", ("TypeName", "Size")
    ).rows:
        found.sizes.setdefault(texts.at(type_name), size)
    for name_addr, value in _Table(
        memory, elf, _INTEGERS, "gHotSpotVMIntConstantEntry", ("Name", "Value")
    ).rows:
        found.constants.setdefault(texts.at(name_addr), value & 0xFFFFFFFF)
    return found


def _variable(memory: ProcessMemory, elf: LoadedElf, name: str) -> int:
    symbol = elf.symbol(name)
    if symbol is None:
        raise MemoryReadError(f"{name} is not exported")
    return memory.word(symbol.addr)
