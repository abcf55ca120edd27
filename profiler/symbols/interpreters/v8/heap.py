"""Read objects of V8's heap: kinds, small integers, strings.

The bytes may be hostile, and change while they are read: every length and depth has a bound, and
what does not fit is None or raises ``MemoryReadError``.

Source: src/objects/{map,string,fixed-array}.h; src/objects/map-word.h.
"""

from __future__ import annotations

import struct

from ....linux.process_memory import MemoryReadError, ProcessMemory
from .layout import Layout

TAG, _TAG_MASK = 1, 3
_LOWEST, _HIGHEST = 4096, 1 << 47
_STRING_LENGTH, _STRING_FIRST, _STRING_SECOND = 12, 16, 24
_SEQUENTIAL, _CONS, _EXTERNAL, _SLICED, _THIN = 0, 1, 2, 3, 5
_FORM_MASK, _ONE_BYTE, _UNCACHED = 7, 8, 16
_MAX_DEPTH = 60
_ARRAY_LENGTH, ARRAY_DATA = 8, 16
MAX_TEXT_CHARACTERS = 64 << 20
_MAX_PIECES = 1 << 16  # of one string


def is_object(word: int) -> bool:
    """Return whether a word is a pointer to an object."""
    return word & _TAG_MASK == TAG and _LOWEST < word < _HIGHEST


def small_integer(word: int) -> int | None:
    """Return the integer that a word is; None if it is none."""
    if word & 0xFFFFFFFF:
        return None
    value = word >> 32
    return value - (1 << 32) if value >> 31 else value


class Text:
    """A string as it lies in memory: characters of one or two bytes."""

    __slots__ = ("is_wide", "raw")

    def __init__(self, raw: bytes, *, is_wide: bool) -> None:
        self.raw = raw
        self.is_wide = is_wide

    def __str__(self) -> str:
        if self.is_wide:
            return self.raw.decode("utf-16-le", "replace")
        return self.raw.decode("latin-1")

    def widened(self) -> bytes:
        """Return the characters in two bytes each."""
        if self.is_wide:
            return self.raw
        wide = bytearray(2 * len(self.raw))
        wide[::2] = self.raw
        return bytes(wide)


class Heap:
    """The objects of one process. Used by one thread at a time."""

    def __init__(self, memory: ProcessMemory, layout: Layout) -> None:
        self.memory = memory
        self.layout = layout
        self._pieces = 0

    def kind(self, tagged: int) -> int:
        """Return the kind of an object; 0 if it is none.

        Raises:
            MemoryReadError: it cannot be read.
        """
        if not is_object(tagged):
            return 0
        map_word = self.memory.word(tagged - TAG)
        if not is_object(map_word):
            return 0
        return self.memory.integer(map_word - TAG + self.layout.map_kind, 2)

    def field(self, tagged: int, offset: int) -> int:
        """Return a word of an object.

        Raises:
            MemoryReadError: it cannot be read.
        """
        return self.memory.word(tagged - TAG + offset)

    def integer(self, tagged: int, offset: int) -> int:
        """Return an i32 of an object.

        Raises:
            MemoryReadError: it cannot be read.
        """
        return self.memory.integer(tagged - TAG + offset, 4, signed=True)

    def array_length(self, tagged: int, most: int) -> int:
        """Return the length of an array; 0 if it has an impossible one.

        Raises:
            MemoryReadError: it cannot be read.
        """
        length = small_integer(self.field(tagged, _ARRAY_LENGTH))
        return length if length is not None and 0 < length <= most else 0

    def bytes_of(self, tagged: int, most: int) -> bytes:
        """Return the bytes of an array of bytes; b"" if it is none.

        Raises:
            MemoryReadError: it cannot be read.
        """
        if self.kind(tagged) not in self.layout.byte_kinds:
            return b""
        length = self.array_length(tagged, most)
        return self.memory.read(tagged - TAG + ARRAY_DATA, length) if length else b""

    def words_of(self, tagged: int, count: int) -> tuple[int, ...]:
        """Return the first words of an array's content.

        Raises:
            MemoryReadError: they cannot be read.
        """
        return struct.unpack(f"<{count}Q", self.memory.read(tagged - TAG + ARRAY_DATA, 8 * count))

    def words_at(self, runtime_addr: int, most: int) -> tuple[int, ...]:
        """Return up to ``most`` words: those before the end of the memory.

        What is looked for may end before, and nothing need follow the last object of a page.

        Raises:
            MemoryReadError: none can be read.
        """
        raw = self.memory.read_some(runtime_addr, 8 * most)
        return struct.unpack_from(f"<{len(raw) // 8}Q", raw)

    def is_string(self, tagged: int) -> bool:
        """Return whether an object is a string.

        Raises:
            MemoryReadError: it cannot be read.
        """
        return is_object(tagged) and 0 <= self._string_kind(tagged) < self._end_of_strings

    def text(self, tagged: int, most: int = MAX_TEXT_CHARACTERS) -> Text | None:
        """Return a string; None if it is none, or longer than ``most`` characters.

        Raises:
            MemoryReadError: it cannot be read.
        """
        self._pieces = 0
        return self._text(tagged, most, 0)

    @property
    def _end_of_strings(self) -> int:
        return self.layout.first_nonstring_kind

    def _string_kind(self, tagged: int) -> int:
        map_word = self.memory.word(tagged - TAG)
        if not is_object(map_word):
            return -1
        return self.memory.integer(map_word - TAG + self.layout.map_kind, 2)

    def _text(self, tagged: int, most: int, depth: int) -> Text | None:
        self._pieces += 1
        if depth > _MAX_DEPTH or self._pieces > _MAX_PIECES or not is_object(tagged):
            return None
        kind = self._string_kind(tagged)
        if not 0 <= kind < self._end_of_strings:
            return None
        length = self.memory.integer(tagged - TAG + _STRING_LENGTH, 4)
        if length > most:
            return None
        form, is_wide = kind & _FORM_MASK, not kind & _ONE_BYTE
        if form == _SEQUENTIAL:
            return self._characters(tagged - TAG + _STRING_FIRST, length, is_wide=is_wide)
        if form == _EXTERNAL:
            if kind & _UNCACHED:
                return None
            return self._characters(self.field(tagged, _STRING_SECOND), length, is_wide=is_wide)
        if form == _CONS:
            return self._joined(tagged, most, depth)
        if form == _THIN:
            return self._text(self.field(tagged, _STRING_FIRST), most, depth + 1)
        if form == _SLICED:
            return self._slice(tagged, length, depth)
        return None

    def _joined(self, tagged: int, most: int, depth: int) -> Text | None:
        """Return a string of two parts. The first is often such a string, too: a loop goes down."""
        parts: list[Text] = []
        total = 0
        for _ in range(_MAX_PIECES):
            second = self._text(self.field(tagged, _STRING_SECOND), most, depth + 1)
            if second is None:
                return None
            parts.append(second)
            total += len(second.raw)
            tagged = self.field(tagged, _STRING_FIRST)
            kind = self._string_kind(tagged) if is_object(tagged) else -1
            self._pieces += 1
            if (
                self._pieces > _MAX_PIECES
                or total > 2 * most
                or not 0 <= kind < self._end_of_strings
            ):
                return None
            if kind & _FORM_MASK != _CONS:
                break
        first = self._text(tagged, most, depth + 1)
        if first is None:
            return None
        parts.append(first)
        parts.reverse()
        if any(part.is_wide and part.raw for part in parts):
            return Text(b"".join(part.widened() for part in parts), is_wide=True)
        return Text(b"".join(part.raw for part in parts), is_wide=False)

    def _slice(self, tagged: int, length: int, depth: int) -> Text | None:
        parent = self._text(self.field(tagged, _STRING_FIRST), MAX_TEXT_CHARACTERS, depth + 1)
        start = small_integer(self.field(tagged, _STRING_SECOND))
        if parent is None or start is None or start < 0:
            return None
        size = 2 if parent.is_wide else 1
        return Text(parent.raw[start * size : (start + length) * size], is_wide=parent.is_wide)

    def _characters(self, addr: int, length: int, *, is_wide: bool) -> Text:
        return Text(self.memory.read(addr, length << is_wide) if length else b"", is_wide=is_wide)


__all__ = ["ARRAY_DATA", "TAG", "Heap", "MemoryReadError", "Text", "is_object", "small_integer"]
