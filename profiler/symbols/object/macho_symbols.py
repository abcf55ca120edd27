"""Read names from a Mach-O file: its symbol table, its exports and its stubs.

Symbols have no sizes. A symbol extends to the next function start. So in a file stripped of its
private symbols, an exported function does not cover the private functions after it. Without
function starts, a symbol extends to the next symbol, unless the file was stripped: then its end is
unknown.

We remove the underscore that every C symbol has on Apple systems; Objective-C's ``-[Class
method:]`` has none.

Source: <mach-o/nlist.h>; dyld, MachOTrie (the format of the exports trie).
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .macho_image import MAX_ADDR, MachOError, MachOImage

_SYMBOL = np.dtype(
    [("name", "<u4"), ("kind", "u1"), ("section", "u1"), ("description", "<u2"), ("value", "<u8")]
)
_N_STAB, _N_TYPE, _N_SECT, _N_EXT = 0xE0, 0x0E, 0x0E, 0x01
_N_OSO = 0x66  # the name of an object file with debug information
_EXPORT_REEXPORT = 0x08
# Labels that an assembler sets inside a function. No C name starts like this, because all start
# with an underscore. Go's names do not; they start with a package name and a dot.
_LABELS = (b".L", b"ltmp", b"Ltmp", b"LBB", b"Lloh", b"L_", b"l_")
MAX_NAME_BYTES = 1 << 16


class FunctionSymbols(NamedTuple):
    """Names for code: columns of one length."""

    starts: NDArray[np.int64]  # file_addr
    sizes: NDArray[np.int64]  # 0: up to the next symbol
    ends: NDArray[np.int64]  # of their sections
    ranks: NDArray[np.uint8]  # of two names for one address, the lower rank is preferred
    names: NDArray[np.int64]  # offsets into the strings
    strings: bytes  # terminated by zero bytes


def function_symbols(file: MachOImage) -> FunctionSymbols:
    """Return the names of functions, in no order.

    Raises:
        MachOError: a table is damaged.
    """
    string_bytes, strings, symbols, ends = _code_symbols(file)
    first = strings[symbols["name"]]
    is_label = _labels(string_bytes, symbols["name"], first)
    labels = symbols["value"][is_label].astype(np.int64)
    symbols, first, ends = symbols[~is_label], first[~is_label], ends[~is_label]
    starts = symbols["value"].astype(np.int64)
    names = symbols["name"].astype(np.int64) + (first == ord("_"))
    ranks = (symbols["kind"] & _N_EXT == 0).astype(np.uint8)

    known = set(starts.tolist())
    code = _code_ranges(file)
    more, more_ends, more_names = [], [], []
    text = bytearray()
    for name, addr in _exports(file):
        end = next((end for start, end in code.values() if start <= addr < end), 0)
        if end and addr not in known:
            more.append(addr)
            more_ends.append(end)
            more_names.append(len(string_bytes) + len(text))
            text += name.removeprefix(b"_") + b"\0"
    starts = np.concatenate([starts, np.array(more, np.int64)])
    ends = np.concatenate([ends, np.array(more_ends, np.int64)])
    names = np.concatenate([names, np.array(more_names, np.int64)])
    ranks = np.concatenate([ranks, np.zeros(len(more), np.uint8)])

    sizes = np.zeros(len(starts), np.int64)
    table = file.fde_table()
    if table is not None:
        # The linker takes a label that it sees for the start of a function.
        kept = np.setdiff1d(np.array(table.starts, np.int64), np.setdiff1d(labels, starts))
        after = np.append(kept, np.iinfo(np.int64).max)
        sizes = np.minimum(after[np.searchsorted(kept, starts, side="right")], ends) - starts
    elif not _has_private_symbols(file):
        starts = starts[:0]
    count = len(starts)
    return FunctionSymbols(
        starts, sizes[:count], ends[:count], ranks[:count], names[:count],
        string_bytes + bytes(text),
    )  # fmt: skip


def _has_private_symbols(file: MachOImage) -> bool:
    kinds = _symbols(file)["kind"]
    return bool(np.any((kinds & (_N_STAB | _N_EXT) == 0) & (kinds & _N_TYPE == _N_SECT)))


def _code_ranges(file: MachOImage) -> dict[int, tuple[int, int]]:
    """Return start and end of each section with code, by its number."""
    return {
        number: (section.addr, min(section.addr + section.size, MAX_ADDR))
        for number, section in enumerate(file.sections, 1)
        if number in file.code_sections
    }


def _code_symbols(
    file: MachOImage,
) -> tuple[bytes, NDArray[np.uint8], NDArray[Any], NDArray[np.int64]]:
    """Return the strings as bytes and array, the symbols for code, and their sections' ends."""
    string_bytes = _strings(file)
    strings = np.frombuffer(string_bytes, np.uint8)
    symbols = _symbols(file)
    low, high = np.full(256, MAX_ADDR, np.uint64), np.zeros(256, np.int64)
    for number, (start, end) in _code_ranges(file).items():
        if number < 256:
            low[number], high[number] = min(start, MAX_ADDR), end
    wanted = (symbols["kind"] & _N_STAB == 0) & (symbols["kind"] & _N_TYPE == _N_SECT)
    wanted &= symbols["name"] < len(strings)
    wanted &= symbols["value"] >= low[symbols["section"]]
    wanted &= symbols["value"] < high[symbols["section"]].astype(np.uint64)
    symbols = symbols[wanted]
    symbols = symbols[strings[symbols["name"]] != 0]
    return string_bytes, strings, symbols, high[symbols["section"]]


def _labels(
    string_bytes: bytes, names: NDArray[np.uint32], first: NDArray[np.uint8]
) -> NDArray[np.bool_]:
    """Return which of the names are labels inside functions."""
    is_label = np.zeros(len(names), bool)
    for index in np.nonzero(np.isin(first, np.frombuffer(b".lL", np.uint8)))[0].tolist():
        is_label[index] = string_bytes.startswith(_LABELS, int(names[index]))
    return is_label


def count_functions(file: MachOImage) -> tuple[int, int]:
    """Return the numbers of private and of exported functions in the symbol table, without labels.

    Raises:
        MachOError: a table is damaged.
    """
    string_bytes, strings, symbols, _ = _code_symbols(file)
    symbols = symbols[~_labels(string_bytes, symbols["name"], strings[symbols["name"]])]
    public = int(np.count_nonzero(symbols["kind"] & _N_EXT))
    return len(symbols) - public, public


def has_debug_map(file: MachOImage) -> bool:
    """Return True if the debug information is in the object files that the linker read.

    Raises:
        MachOError: the symbol table is damaged.
    """
    return bool(np.any(_symbols(file)["kind"] == _N_OSO))


class StubNames:
    """Names of the stubs through which a file calls functions of other files.

    Raises:
        MachOError: a table is damaged.
    """

    def __init__(self, file: MachOImage) -> None:
        self._file = file
        self._strings = b""
        self._symbols = np.empty(0, _SYMBOL)
        self._indirect = b""
        if file.stubs and file.indirect is not None:
            self._strings = _strings(file)
            self._symbols = _symbols(file)
            self._indirect = file.read_exactly(file.indirect, "indirect symbols")

    def slot(self, file_addr: int) -> str | None:
        """Return None: we do not read the slots through which stubs jump."""
        return None

    def lookup(self, file_addr: int) -> str | None:
        """Return the symbol that the stub at ``file_addr`` calls; ``None`` outside of stubs."""
        for section, first_index, stub_size in self._file.stubs:
            if section.addr <= file_addr < section.addr + section.size:
                place = (first_index + (file_addr - section.addr) // stub_size) * 4
                if place + 4 > len(self._indirect):
                    return None
                (index,) = struct.unpack_from("<I", self._indirect, place)
                # This also excludes local symbols, which have the two highest bits set.
                if index >= len(self._symbols):
                    return None
                return _name(self._strings, int(self._symbols["name"][index])) or None
        return None


def _symbols(file: MachOImage) -> NDArray[Any]:
    data = b"" if file.symbols is None else file.read_exactly(file.symbols, "symbol table")
    return np.frombuffer(data, _SYMBOL, len(data) // _SYMBOL.itemsize)


def _strings(file: MachOImage) -> bytes:
    if file.strings is None:
        return b"\0"
    return file.read_exactly(file.strings, "symbol names") + b"\0"


def _name(strings: bytes, offset: int) -> str:
    end = strings.find(b"\0", offset)
    return strings[offset:end].removeprefix(b"_").decode("utf-8", "replace") if end >= 0 else ""


def _exports(file: MachOImage) -> list[tuple[bytes, int]]:
    """Return exported names and their file_addrs, from the trie that the loader uses."""
    if file.exports is None or not file.exports.size:
        return []
    trie = file.read_exactly(file.exports, "exports")
    found = []
    seen = set()
    todo = [(0, b"")]
    try:
        while todo:
            node, prefix = todo.pop()
            if node in seen or len(prefix) > MAX_NAME_BYTES:
                raise MachOError("damaged exports")
            seen.add(node)
            size, position = _uleb(trie, node)
            children = position + size
            if size:
                flags, position = _uleb(trie, position)
                addr, position = _uleb(trie, position)
                if not flags & _EXPORT_REEXPORT:
                    found.append((prefix, file.base_addr + addr))
            count, position = trie[children], children + 1
            for _ in range(count):
                end = trie.index(b"\0", position)
                child, after = _uleb(trie, end + 1)
                todo.append((child, prefix + trie[position:end]))
                position = after
    except (IndexError, ValueError) as error:
        raise MachOError("damaged exports") from error
    return found


def _uleb(data: bytes, position: int) -> tuple[int, int]:
    """Return an unsigned LEB128 number and the position after it."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise ValueError("number too long")
