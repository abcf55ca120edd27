"""Read symcaches with numpy: thousands of addresses in one search.

A symcache is the flat table that ``symbolic`` makes from debug information. It has sorted range
starts, a source location for each, and for each location its file, line, function and the location
into which it was inlined. A look-up with symbolic costs 10-30 µs per address, because of the calls
between Python and C. Here all addresses share one vectorised binary search, and objects are made
only for distinct functions and files. A damaged table can at worst give a wrong string.

Layout (little-endian, every part aligned to 8): ``SYMC`` · u32 version · header of 72 bytes · files
· functions · source locations · range starts · strings, each with its length as LEB128. Ranges
correspond one by one to the last source locations. All references are u32, 2^32-1 for none.

Source: symbolic-symcache/src/v9/raw.rs, lookup.rs and mod.rs in github.com/getsentry/symbolic.
Version 9 has three more words in a file record than version 8; otherwise they are the same.
"""

from __future__ import annotations

import posixpath
import re
import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...recording.names.inline_chains import Chain, Chains, Indexes, LinesError, unpack_chains
from ..names.limits import cut

VERSIONS = (8, 9)

_MAGIC = b"SYMC"
_PREAMBLE = struct.Struct("<4sI")
# 32 bytes of debug id, arch; files, functions, locations, ranges, bytes of strings; 16 reserved.
_HEADER = struct.Struct("<32sI5I16s")
_FILE_WORDS = {8: 3, 9: 6}  # compilation folder, folder, name; then a source server's
_NONE = 0xFFFFFFFF
_MAX_STRING = 1 << 15  # the longest name that we have found in a C++ program has 9 KB
_MAX_DEPTH = 512  # deeper inlining means that the table is damaged
_ABSOLUTE = re.compile(r"[/\\]|[A-Za-z]:[/\\]")


class SymcacheTable:
    """A symcache, read with numpy.

    Args:
        data: the symcache.
        base_addr: lowest loaded file_addr of the object file: ranges are relative to it.

    Raises:
        LinesError: not a symcache of a known version, or truncated.
    """

    def __init__(self, data: bytes, base_addr: int) -> None:
        if version_of(data) not in VERSIONS:
            raise LinesError("damaged symcache, or one of another version")
        self._base_addr = base_addr
        start = _PREAMBLE.size
        if len(data) < start + _HEADER.size:
            raise LinesError("damaged symcache: cut short")
        _, _, files, functions, locations, ranges, string_bytes, _ = _HEADER.unpack_from(
            data, start
        )
        words = np.frombuffer(data, "<u4", len(data) // 4)
        place = start + _HEADER.size
        parts = []
        for count, width in (
            (files, _FILE_WORDS[version_of(data)]),
            (functions, 4),
            (locations, 4),
            (ranges, 1),
        ):
            place = place + 7 & ~7
            end = place + count * width * 4
            if end > len(data):
                raise LinesError("damaged symcache: cut short")
            parts.append(words[place // 4 : end // 4].reshape(count, width))
            place = end
        self._files, self._functions, self._locations, starts = parts
        self._starts = starts[:, 0]
        place = place + 7 & ~7
        self._strings = data[place : place + string_bytes]
        self._first = locations - ranges  # the source location of the first range
        if self._first < 0 or len(self._strings) != string_bytes:
            raise LinesError("damaged symcache: its counts do not fit together")
        self._names: dict[int, str] = {}
        self._paths: dict[int, str] = {}

    def lookup(self, file_addr: int) -> Chain:
        """Return the inline chain at ``file_addr``, outermost function first; empty if unknown."""
        return self.lookup_many([file_addr])[0]

    def lookup_many(self, file_addrs: Sequence[int]) -> list[Chain]:
        """Return the inline chain at each address; equal positions share one object."""
        return unpack_chains(self.chains(file_addrs))

    def chains(self, file_addrs: Sequence[int]) -> Chains:
        """Return the inline chain at each address, in columns."""
        base = self._base_addr
        # 2^32 - 1 is not a valid address; it stands for all that are out of range.
        relative = np.array(
            [a - base if 0 <= a - base < _NONE else _NONE for a in file_addrs], np.uint32
        )
        positions = np.searchsorted(self._starts, relative, side="right").astype(np.int64) - 1
        found = np.where((positions < 0) | (relative == _NONE), -1, positions + self._first)
        locations, of = np.unique(found, return_inverse=True)
        of = of.astype(np.int64)
        if len(locations) and locations[0] < 0:
            locations, of = locations[1:], of - 1
        count, rows = self._frames(locations)
        first = np.cumsum(count) - count
        file_numbers, file = np.unique(rows[:, 0], return_inverse=True)
        function_numbers, symbol = np.unique(rows[:, 2], return_inverse=True)
        files = [self._path(number) for number in file_numbers.tolist()]
        symbols = [self._name(number) for number in function_numbers.tolist()]
        line = np.where(rows[:, 1] < 1 << 31, rows[:, 1], 0).astype(np.int64)
        # A single frame without file and line comes from a symbol table.
        has_place = (line != 0) | np.array([path != "" for path in files], bool)[file]
        is_chain = (count > 1) | ((count == 1) & has_place[np.minimum(first, len(rows) - 1)])
        if len(locations):
            of[(of >= 0) & ~is_chain[of]] = -1
        return Chains(of, first, count, symbol, file, line, symbols, files)

    def _frames(self, locations: Indexes) -> tuple[Indexes, NDArray[np.uint32]]:
        """Return the number of frames in the chain of each source location, and their records.

        The records of all chains follow each other, outermost first; there is at least one.
        """
        count = np.zeros(len(locations), np.int64)
        # For each depth, innermost first: the locations whose chains are so deep, and the records.
        levels: list[tuple[Indexes, NDArray[np.uint32]]] = []
        inside, at = np.arange(len(locations)), locations
        while len(inside) and len(levels) < _MAX_DEPTH:
            records = self._locations[at]
            is_known = ~(records == _NONE).all(axis=1)  # False for a range without a function
            inside, records = inside[is_known], records[is_known]
            levels.append((inside, records))
            count[inside] += 1
            goes_on = records[:, 3] < len(self._locations)
            inside, at = inside[goes_on], records[goes_on, 3].astype(np.int64)
        ends = np.cumsum(count)
        rows = np.full((max(1, int(ends[-1]) if len(ends) else 0), 4), _NONE, np.uint32)
        for level, (inside, records) in enumerate(levels):
            rows[ends[inside] - 1 - level] = records
        return count, rows

    def _name(self, function: int) -> str:
        name = self._names.get(function)
        if name is None:
            if function < len(self._functions):
                name = self._string(int(self._functions[function, 0])) or "?"
            else:
                name = "?"
            self._names[function] = name
        return name

    def _path(self, file: int) -> str:
        path = self._paths.get(file)
        if path is None:
            path = ""
            if file < len(self._files):
                for place in self._files[file, :3].tolist():
                    path = _joined(path, self._string(place))
                path = tidy_path(path)
            self._paths[file] = path
        return path

    def _string(self, place: int) -> str:
        strings, length, shift = self._strings, 0, 0
        if place >= len(strings):
            return ""
        while place < len(strings) and shift < 35:
            byte = strings[place]
            place += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        return strings[place : place + min(length, _MAX_STRING)].decode("utf-8", "replace")


def version_of(data: bytes) -> int:
    """Return the format's version; 0 if the data is not a symcache."""
    if len(data) < _PREAMBLE.size:
        return 0
    magic, version = _PREAMBLE.unpack_from(data)
    return int(version) if magic == _MAGIC else 0


def tidy_path(path: str) -> str:
    """Normalize and limit a path: ``/build/glibc/elf/../string/x.c`` → ``/build/glibc/string/x.c``.

    No system opens a path that is longer than the limit.
    """
    path = cut(path)
    is_tidy = "/." not in path and "//" not in path and path[:2] != "./"
    return path if is_tidy else posixpath.normpath(path)


def _joined(folder: str, name: str) -> str:
    """Join two paths as symbolic does: with a backslash if the folder is a Windows path."""
    if not folder or not name or _ABSOLUTE.match(name):
        return name or folder
    is_windows = "/" not in folder and "\\" in folder
    separator = "\\" if is_windows else "/"
    return folder + name if folder[-1] in "/\\" else folder + separator + name
