"""Read jitdumps: binary files in which a runtime describes the code that it generates.

They have the time of each piece of code and, from some runtimes, source lines. The runtime maps the
file executable, so that a profiler finds it.

::

    header   magic "JiTD" u32, version u32, bytes of header u32, ELF machine u32, 0 u32, pid u32,
             timestamp u64, flags u64 (bit 0: timestamps are not of CLOCK_MONOTONIC)
    record   id u32, bytes of record u32, timestamp u64, then by id:
      0 LOAD        pid u32, tid u32, vma u64, code_addr u64, code_size u64, code_index u64,
                    name "\\0", the code itself
      1 MOVE        pid u32, tid u32, vma u64, old_addr u64, new_addr u64, code_size u64,
                    code_index u64
      2 DEBUG_INFO  code_addr u64, source lines (``lines``); for the LOAD that follows
      3 CLOSE, 4 UNWINDING_INFO: ignored

All numbers are in the byte order of the machine, which the magic shows. Of each record we keep only
numbers, 48 bytes; names and lines are read when they are needed. The target controls the file, so
every size is checked, and an invalid record ends the reading.

Source: tools/perf/Documentation/jitdump-specification.txt in the Linux sources.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

import numpy as np

from .code_ranges import NOT_FOUND, CodeRanges, Ranges
from .code_reader import FileReader
from .growing_file import AppendedFile, Growth
from .lines import Lines, SourceLine, parse_lines

CHUNK_BYTES = 1 << 20
MAX_NAME_BYTES = 4096
# A record has the code of one function, or its lines; chromium's largest has 10 MB.
MAX_RECORD_BYTES = 256 << 20
_MAX_LINES_BYTES = 8 << 20
_MAX_TABLES = 256
_MAX_ADDRESS = 1 << 63

_MAGIC = {b"DTiJ": "<", b"JiTD": ">"}
_HEADER_BYTES = 40
_ARCH_TIMESTAMP = 1
_LOAD, _MOVE, _DEBUG_INFO = range(3)
_PREFIX, _LOAD_FIELDS, _MOVE_FIELDS = "IIQ", "IIQQQQ", "IIQQQQQ"
_NAME_AT = 56
_MAX_FIXED_BYTES = 64


class JitDump(FileReader):
    """The names in one jitdump, as far as it is written.

    Attributes:
        problem: why reading has ended before the end of the file, ``""`` if it has not.
    """

    kind = "jitdump"

    def __init__(self, file: AppendedFile) -> None:
        super().__init__(file)
        self._begin()

    def _begin(self) -> None:
        self.problem = ""
        self._order = ""
        self._has_times = True
        self._ranges = CodeRanges()
        self._pending: list[tuple[int, int, int, int]] = []  # start, end, key, made_ns
        # Pairs: a LOAD and the DEBUG_INFO before it; a MOVE and the LOAD that it moves.
        self._loads_with_lines, self._lines = array("q"), array("q")
        self._moves, self._moved = array("q"), array("q")
        self._last_lines = (NOT_FOUND, 0)  # offset, code_addr
        self._tables: dict[int, Lines] = {}

    @property
    def has_lines(self) -> bool:
        """True if any function has source lines."""
        return bool(self._lines)

    def look(self) -> Growth:
        """Check whether the file has grown. If it is another file, discard what was read."""
        growth = self.file.look()
        if growth is Growth.ANEW:
            self._begin()
        return growth

    def read_more(self) -> bool:
        """Read the next records; return False if no complete record is left."""
        if self.problem:
            return False
        begin, end = self.file.position, self.file.position + self.file.unread
        data = self.file.read_at(begin, min(end - begin, CHUNK_BYTES))
        at = 0 if self._order else self._read_header(data)
        is_last_chunk = begin + len(data) == end
        while self._order and at + 16 <= len(data):
            if at + _MAX_FIXED_BYTES > len(data) and at and not is_last_chunk:
                break
            record_bytes = self._read_record(data, at, begin + at, end)
            if not record_bytes:
                break
            at += record_bytes
        self._flush()
        self.file.go_on_at(begin + at)
        return at > 0 and begin + at < end

    def name(self, key: int, start: int) -> str:
        """Return the name for a key; ``""`` for code that was moved away."""
        load = self._load_of(key)
        if load is None:
            return ""
        name = self.file.read_at(load + _NAME_AT, MAX_NAME_BYTES)
        return name.partition(b"\0")[0].decode("utf-8", "replace")

    def source_line(self, key: int, start: int, address: int) -> SourceLine | None:
        """Return the source line of an address within the range of a key."""
        load = self._load_of(key)
        at = bisect_left(self._loads_with_lines, load) if load is not None else 0
        if at == len(self._loads_with_lines) or self._loads_with_lines[at] != load:
            return None
        try:
            return self._line_at(self._lines[at], address - start)
        except struct.error:  # the file has been truncated
            return None

    def _notes_on_content(self) -> Iterator[str]:
        if self.problem:
            yield f"{self.file.path} cannot be read further: {self.problem}"

    def _unpack(self, fields: str, data: bytes, at: int) -> tuple[int, ...]:
        return struct.unpack_from(self._order + fields, data, at)

    def _read_header(self, data: bytes) -> int:
        """Return the size of the header; 0 if it is incomplete or invalid."""
        if len(data) < _HEADER_BYTES:
            return 0
        order = _MAGIC.get(data[:4])
        if order is None:
            self.problem = "it is not a jitdump"
            return 0
        version, header_bytes = struct.unpack_from(order + "II", data, 4)
        (flags,) = struct.unpack_from(order + "Q", data, 32)
        if version != 1 or not _HEADER_BYTES <= header_bytes <= CHUNK_BYTES:
            self.problem = f"its version {version} is unknown"
            return 0
        if len(data) < header_bytes:
            return 0
        self._order = order
        self._has_times = not flags & _ARCH_TIMESTAMP
        return int(header_bytes)

    def _read_record(self, data: bytes, at: int, offset: int, file_end: int) -> int:
        """Process the record at ``data[at:]``, which is at a file_offset.

        Return its length; 0 if it is incomplete or invalid.
        """
        kind, record_bytes, timestamp = self._unpack(_PREFIX, data, at)
        if not 16 <= record_bytes <= MAX_RECORD_BYTES:
            self.problem = f"the record at {offset} has an impossible size of {record_bytes} bytes"
            return 0
        if offset + record_bytes > file_end:
            return 0
        made_ns = min(timestamp, _MAX_ADDRESS - 1) if self._has_times else 0
        try:
            if kind == _LOAD:
                self._take_load(offset, made_ns, self._unpack(_LOAD_FIELDS, data, at + 16))
            elif kind == _MOVE:
                self._take_move(offset, made_ns, self._unpack(_MOVE_FIELDS, data, at + 16))
            elif kind == _DEBUG_INFO:
                self._last_lines = (offset, self._unpack("Q", data, at + 16)[0])
        except struct.error:
            self.problem = f"the record at {offset} is too short"
            return 0
        return record_bytes

    def _take_load(self, offset: int, made_ns: int, fields: tuple[int, ...]) -> None:
        code_addr, code_size = fields[3:5]
        lines, lines_addr = self._last_lines
        if lines != NOT_FOUND and lines_addr == code_addr:
            self._loads_with_lines.append(offset)
            self._lines.append(lines)
        self._last_lines = (NOT_FOUND, 0)
        self._add(code_addr, code_size, offset, made_ns)

    def _take_move(self, offset: int, made_ns: int, fields: tuple[int, ...]) -> None:
        old_addr, new_addr, code_size = fields[3:6]
        if old_addr >= _MAX_ADDRESS:
            return
        self._flush()
        at, when = np.array([old_addr], np.uint64), np.array([made_ns])
        load = self._load_of(int(self._ranges.find(at, when).key[0]))
        # The old range is empty from now on. The new one may overlap it, and has a greater key.
        self._add(old_addr, code_size, offset, made_ns)
        if load is not None:
            self._moves.append(offset + 1)
            self._moved.append(load)
            self._add(new_addr, code_size, offset + 1, made_ns)

    def _add(self, start: int, size: int, key: int, made_ns: int) -> None:
        if size and start < _MAX_ADDRESS and size < MAX_RECORD_BYTES:
            self._pending.append((start, start + size, key, made_ns))

    def _flush(self) -> None:
        if not self._pending:
            return
        start, end, key, made_ns = zip(*self._pending, strict=True)
        self._pending.clear()
        self._ranges.add(
            Ranges(
                np.array(start, np.uint64),
                np.array(end, np.uint64),
                np.array(key, np.int64),
                np.array(made_ns, np.int64) if self._has_times else None,
            )
        )

    def _load_of(self, key: int) -> int | None:
        """Return the file_offset of the LOAD for a key; None if there is none (any more)."""
        if key == NOT_FOUND:
            return None
        at = bisect_left(self._moves, key)
        if at < len(self._moves) and self._moves[at] == key:
            return self._moved[at]
        # The key may also be the offset of a MOVE: then it stands for the place that code has left.
        kind = self.file.read_at(key, 4)
        return key if kind == struct.pack(self._order + "I", _LOAD) else None

    def _line_at(self, lines: int, offset: int) -> SourceLine | None:
        """Return the source line of an offset in the code of a DEBUG_INFO record."""
        table = self._tables.get(lines)
        if table is None:
            if len(self._tables) >= _MAX_TABLES:
                self._tables.clear()
            table = self._tables[lines] = self._read_lines(lines)
        at = bisect_right(table, offset, key=lambda entry: entry[0])
        return table[max(at - 1, 0)][1] if table else None

    def _read_lines(self, lines: int) -> Lines:
        _, record_bytes, _ = self._unpack(_PREFIX, self.file.read_at(lines, 16), 0)
        return parse_lines(
            self.file.read_at(lines, min(record_bytes, _MAX_LINES_BYTES)), self._order
        )
