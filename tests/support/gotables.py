"""Small programs with a Go function table in any of its formats, written byte by byte.

No toolchain that writes the older formats can be had. Each program has ``FUNCTIONS`` functions of
64 bytes, all alike: ``example.com/app.F<n>``, from byte 16 on with ``app.outer`` (called at line
101) inlined, from byte 32 to 47 with ``app.inner`` (called at line 201) inlined into that. No
section headers.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

FUNCTIONS = 12
SIZE = 64
BASE = 0x400000
TEXT = BASE + 0x1000
FILES = ("/src/app.go", "/src/outer.go", "/src/inner.go")
VERSIONS = ("1.11", "1.12", "1.13", "1.16", "1.18", "1.20", "1.26", "1.27")

_MAGIC = {"1.11": 0xFB, "1.12": 0xFB, "1.13": 0xFB, "1.16": 0xFA, "1.18": 0xF0}
_FILE_RUNS = ((0, 16), (1, 16), (2, 16), (1, 16))
_LINE_RUNS = ((100, 8), (101, 8), (200, 8), (201, 8), (300, 16), (202, 16))
_TREE_RUNS = ((-1, 16), (0, 16), (1, 16), (0, 16))


def expected(offset: int, number: int) -> list[tuple[str, str, int]]:
    """Name, file and line of each function at an offset into function ``number``, outermost
    first.
    """
    outermost = f"example.com/app.F{number}"
    if offset < 16:
        return [(outermost, FILES[0], 100 + offset // 8)]
    frames = [(outermost, FILES[0], 101)]
    if 32 <= offset < 48:
        return [*frames, ("app.outer", FILES[1], 201), ("app.inner", FILES[2], 300)]
    return [*frames, ("app.outer", FILES[1], 200 + (offset - 16) // 8 if offset < 32 else 202)]


def program(version: str, *, relocated: bool = False, tree_base_error: int = 0) -> bytes:
    """An ELF file.

    Args:
        version: one of ``VERSIONS``.
        relocated: pointers are zero in the file and filled in by relocations.
        tree_base_error: how far the base of the trees is off.
    """
    return _Writer(version, relocated, tree_base_error).elf()


class _Blob:
    """Bytes that things are appended to; each append returns where it begins."""

    def __init__(self) -> None:
        self.data = bytearray()

    def add(self, data: bytes, align: int = 1) -> int:
        self.data += bytes(-len(self.data) % align)
        place = len(self.data)
        self.data += data
        return place


class _Writer:
    def __init__(self, version: str, relocated: bool, tree_base_error: int) -> None:
        self.version = version
        self.magic = _MAGIC.get(version, 0xF1)
        self.has_pointers = self.magic in (0xFB, 0xFA)
        self.relocated = relocated
        self.tree_base_error = tree_base_error
        self.image = _Blob()
        self.image.add(bytes(0x1000 + FUNCTIONS * SIZE))  # headers, text
        self.relocations: list[tuple[int, int]] = []

    def pointer(self, addr: int, value: int) -> bytes:
        """A word at ``addr``."""
        if self.relocated and value:
            self.relocations.append((addr, value))
            return bytes(8)
        return struct.pack("<Q", value)

    def elf(self) -> bytes:
        trees = self.trees()
        table = BASE + self.image.add(b"", 32)
        pclntab, parts = self.table(table, trees)
        self.image.add(pclntab)
        if not self.has_pointers:
            self.moduledata(table, parts, trees)
        rela = b"".join(struct.pack("<QQQ", a, 8, v) for a, v in self.relocations)
        rela_addr = BASE + self.image.add(rela, 8)
        dynamic = struct.pack("<6Q", 7, rela_addr, 8, len(rela), 0, 0)
        dynamic_offset = self.image.add(dynamic, 8)
        size = len(self.image.data)
        header = struct.pack(
            "<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 3, 62, 1, TEXT, 64, 0, 0, 64, 56, 2, 0, 0, 0
        )
        header += struct.pack("<IIQQQQQQ", 1, 7, 0, BASE, BASE, size, size, 0x1000)
        header += struct.pack(
            "<IIQQQQQQ", 2, 6, dynamic_offset, BASE + dynamic_offset, 0, 48, 48, 8
        )
        self.image.data[: len(header)] = header
        return bytes(self.image.data)

    def trees(self) -> int:
        """The tree of inlined calls, the same for all functions. Returns its address."""
        outer, inner = 1, 11  # in the names
        if self.magic == 0xFB:
            outer, inner = outer + self.names_offset, inner + self.names_offset
        if self.magic == 0xF1:
            tree = struct.pack("<Bxxxiii", 0, outer, 8, 199)
            tree += struct.pack("<Bxxxiii", 0, inner, 24, 299)
        else:
            first = 1 if self.magic == 0xFB else 0  # files were numbered from 1
            tree = struct.pack("<hBxiiii", -1, 0, first, 101, outer, 8)
            tree += struct.pack("<hBxiiii", 0, 0, first + 1, 201, inner, 24)
        return BASE + self.image.add(tree, 8)

    @property
    def names_offset(self) -> int:
        """Where names begin in a table of Go 1.2's format: after the header and functions."""
        return 16 + FUNCTIONS * 16 + 16

    def table(self, addr: int, trees: int) -> tuple[bytes, list[int]]:
        names = _Blob()
        names.add(b"\0app.outer\0app.inner\0")
        name_places = [names.add(f"example.com/app.F{i}\0".encode()) for i in range(FUNCTIONS)]
        values = _Blob()
        values.add(b"\0")
        first = 1 if self.magic == 0xFB else 0
        files = values.add(_runs([(value + first, size) for value, size in _FILE_RUNS]))
        line_place = values.add(_runs(_LINE_RUNS))
        tree_place = values.add(_runs(_TREE_RUNS))
        paths = _Blob()
        paths.add(b"\0")
        path_places = [paths.add(path.encode() + b"\0") for path in FILES]
        tail = self.record_tail(tree_place, trees)

        def record(number: int, at: int) -> bytes:
            start = TEXT + number * SIZE
            name = name_places[number] + (self.names_offset if self.magic == 0xFB else 0)
            shift = value_shift
            head = (
                self.pointer(at, start) if self.has_pointers else struct.pack("<I", number * SIZE)
            )
            fields = [name, 0, 0, 0, files + shift, line_place + shift, 3]
            if self.magic != 0xFB:
                fields.append(0)  # compilation unit
            if self.magic == 0xF1:
                fields.append(99)
            return head + struct.pack(f"<{len(fields)}I", *fields) + tail(at, shift)

        value_shift = 0
        if self.magic == 0xFB:
            value_shift = self.names_offset + len(names.data)
            return self.table_1_2(addr, names, values, path_places, paths, record), []
        return self.table_1_16(addr, names, values, path_places, paths, record)

    def record_tail(self, tree_runs: int, trees: int) -> Callable[[int, int], bytes]:
        """What follows the fixed fields of a record: counts, offsets of runs, pointers."""
        index_at, tree_at = {"1.11": (1, 9), "1.12": (1, 2), "1.13": (2, 4)}.get(
            self.version, (2, 3)
        )

        def tail(at: int, shift: int) -> bytes:
            fixed = 40 if self.magic in (0xFB, 0xF0) else 44
            count = tree_at + 1
            runs = [0, 0, 0]
            runs[index_at] = tree_runs + shift
            data = struct.pack("<BBxB", 0, 0, count) + struct.pack("<3I", *runs)
            if not self.has_pointers:
                return data + struct.pack(f"<{count}I", *[0xFFFFFFFF] * tree_at, 0x40)
            place = at + fixed + 12
            data += bytes(-place % 8)
            place += -place % 8
            return data + bytes(8 * tree_at) + self.pointer(place + 8 * tree_at, trees)

        return tail

    def table_1_2(
        self,
        addr: int,
        names: _Blob,
        values: _Blob,
        path_places: list[int],
        paths: _Blob,
        record: Callable[[int, int], bytes],
    ) -> bytes:
        table = _Blob()
        table.add(bytes(self.names_offset))
        table.add(bytes(names.data))
        table.add(bytes(values.data))
        path_shift = table.add(bytes(paths.data))
        files = table.add(struct.pack("<I3I", 4, *(place + path_shift for place in path_places)), 4)
        head = struct.pack("<IHBBQ", 0xFFFFFF00 | self.magic, 0, 1, 8, FUNCTIONS)
        for number in range(FUNCTIONS):
            at = table.add(b"", 8)
            table.add(record(number, addr + at))
            head += self.pointer(addr + len(head), TEXT + number * SIZE) + struct.pack("<Q", at)
        head += self.pointer(addr + len(head), TEXT + FUNCTIONS * SIZE) + struct.pack("<Q", files)
        table.data[: len(head)] = head
        return bytes(table.data)

    def table_1_16(
        self,
        addr: int,
        names: _Blob,
        values: _Blob,
        path_places: list[int],
        paths: _Blob,
        record: Callable[[int, int], bytes],
    ) -> tuple[bytes, list[int]]:
        table = _Blob()
        table.add(bytes(72))
        parts = [
            table.add(bytes(names.data), 8),
            table.add(struct.pack("<3I", *path_places), 8),
            table.add(bytes(paths.data), 8),
            table.add(bytes(values.data), 8),
        ]
        wide = self.has_pointers
        functions = table.add(bytes(FUNCTIONS * (16 if wide else 8) + (16 if wide else 8)), 8)
        parts.append(functions)
        pairs = b""
        for number in range(FUNCTIONS):
            at = table.add(b"", 8)
            table.add(record(number, addr + at))
            start = TEXT + number * SIZE
            if wide:
                pairs += self.pointer(addr + functions + len(pairs), start)
                pairs += struct.pack("<Q", at - functions)
            else:
                pairs += struct.pack("<II", number * SIZE, at - functions)
        end = TEXT + FUNCTIONS * SIZE
        pairs += (
            self.pointer(addr + functions + len(pairs), end)
            if wide
            else struct.pack("<I", FUNCTIONS * SIZE)
        )
        table.data[functions : functions + len(pairs)] = pairs
        header = struct.pack("<IHBBQQ", 0xFFFFFF00 | self.magic, 0, 1, 8, FUNCTIONS, 3)
        if not wide:
            has_text = self.version in ("1.18", "1.20")
            header += self.pointer(addr + 24, TEXT) if has_text else bytes(8)
        table.data[: len(header) + 40] = header + struct.pack("<5Q", *parts)
        return bytes(table.data), parts

    def moduledata(self, table: int, parts: list[int], trees: int) -> None:
        at = BASE + self.image.add(b"", 8)
        end = TEXT + FUNCTIONS * SIZE
        words = [0] * 64
        words[0] = table
        words[1:16:3] = [table + part for part in parts]
        words[20:24] = [TEXT, end, TEXT, end]
        base = {"1.18": 38, "1.27": 43}.get(self.version, 40)
        words[base] = trees - 0x40 + self.tree_base_error
        words[base + 1] = table + 1  # where the table ends, or what comes after
        self.image.add(b"".join(self.pointer(at + 8 * i, word) for i, word in enumerate(words)))


def _runs(runs: tuple[tuple[int, int], ...] | list[tuple[int, int]]) -> bytes:
    """(value, bytes of code) pairs as the table encodes them."""
    data, value = b"", -1
    for new, size in runs:
        change = new - value
        value = new
        data += _varint((change << 1) ^ (change >> 63)) + _varint(size)
    return data + b"\0"


def _varint(number: int) -> bytes:
    number &= 0xFFFFFFFF
    data = b""
    while number >= 0x80:
        data += bytes([number & 0x7F | 0x80])
        number >>= 7
    return data + bytes([number])
