"""Read Python's objects in another process: types, numbers, strings, containers, attributes.

By reading memory only: nothing runs in the process. The process may be hostile, and may run
meanwhile: each object is checked by its type, each length has a limit, and what does not fit is an
``ObjectError``. What was read of an object that changed meanwhile may be of no moment at all;
callers read twice where that matters.

One thread at a time.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from typing import NamedTuple

from ....linux.process_memory import MemoryReadError, ProcessMemory
from ....wire.events import CodePart
from ..recipe import Recipe
from . import object_layout as at
from .object_layout import ObjectLayout
from .text import MAX_CHARACTERS, name_text

_MAX_TYPE_NAME = 128
_MAX_INT_BYTES = 512  # of the digits of an int that is read
_MAX_LOG_SIZE = 40  # of a dictionary
_MAX_LENGTH = 1 << 48
_CHUNK = 256  # entries that are read at once
_MAX_INLINE = 256  # attributes that an object holds itself
_LOWEST_ADDR = 4096
_DIGIT_BITS = 30
_GENERAL_KEYS, _SPLIT_KEYS = 0, 2
_DELETED_HASH = (1 << 64) - 1
_STRING_BYTES = 160  # read at once of a string: enough for most
_NAME_CHARACTERS = 256  # of a key that is compared


class ObjectError(MemoryReadError):
    """There is no such object at an address."""


class Type(NamedTuple):
    """A class."""

    addr: int
    name: str
    size: int
    flags: int
    dict_offset: int

    def has(self, flag: int) -> bool:
        """Return whether it has a flag."""
        return self.flags & flag != 0


class Objects:
    """The objects of one CPython.

    Args:
        memory: of the process.
        recipe: of the interpreter.
        layout: of its version.
    """

    def __init__(self, memory: ProcessMemory, recipe: Recipe, layout: ObjectLayout) -> None:
        self.memory = memory
        self.recipe = recipe
        self.layout = layout
        self._types: dict[int, Type] = {}
        self._is_old = layout.version < (3, 11)

    def type_of(self, addr: int) -> Type:
        """Return the class of an object.

        Raises:
            MemoryReadError: there is no object.
        """
        if addr < _LOWEST_ADDR or addr % 8:
            raise ObjectError(f"{addr:#x} is no object")
        return self.class_at(self.memory.word(addr + self.recipe["object_type"]))

    def class_at(self, addr: int) -> Type:
        """Return the class at an address.

        Raises:
            MemoryReadError: there is none.
        """
        known = self._types.get(addr)
        if known is None:
            known = self._types[addr] = self._read_type(addr)
        return known

    def _read_type(self, addr: int) -> Type:
        memory = self.memory
        if addr < _LOWEST_ADDR or addr % 8:
            raise ObjectError(f"{addr:#x} is no class")
        meta = memory.word(addr + self.recipe["object_type"])
        if not memory.word(meta + at.TYPE_FLAGS) & at.IS_TYPE:
            raise ObjectError(f"{addr:#x} is no class")
        name = memory.read_some(memory.word(addr + at.TYPE_NAME), _MAX_TYPE_NAME)
        text, end, _ = name.partition(b"\0")
        if (not end and len(name) < _MAX_TYPE_NAME) or not text:
            raise ObjectError(f"the class at {addr:#x} has no name")
        return Type(
            addr,
            text.decode("utf-8", "replace"),
            memory.integer(addr + at.TYPE_SIZE, 8, signed=True),
            memory.word(addr + at.TYPE_FLAGS),
            memory.integer(addr + at.TYPE_DICT, 8, signed=True),
        )

    def expect(self, addr: int, flag: int) -> Type:
        """Return the class of an object that must have a flag.

        Raises:
            MemoryReadError: it has not.
        """
        found = self.type_of(addr)
        if not found.has(flag):
            raise ObjectError(f"{addr:#x} is another object: {found.name}")
        return found

    # ------------------------------------------------------------------ numbers and strings

    def integer(self, addr: int) -> int | None:
        """Return an int; None if it is too long to be read.

        Raises:
            MemoryReadError: it is none.
        """
        self.expect(addr, at.IS_INT)
        if self.layout.version >= (3, 12):
            tag = self.memory.word(addr + at.LONG_TAG)
            digits, is_negative = tag >> 3, tag & 3 == 2
        else:
            size = self.memory.integer(addr + at.LENGTH, 8, signed=True)
            digits, is_negative = abs(size), size < 0
        if digits * 4 > _MAX_INT_BYTES:
            return None
        number = 0
        raw = self.memory.read(addr + at.LONG_DIGITS, digits * 4)
        for (digit,) in reversed(list(struct.iter_unpack("<I", raw))):
            number = number << _DIGIT_BITS | digit & ((1 << _DIGIT_BITS) - 1)
        return -number if is_negative else number

    def real(self, addr: int) -> float:
        """Return the number in a float."""
        number: float = struct.unpack("<d", self.memory.read(addr + at.FLOAT_VALUE, 8))[0]
        return number

    def text(self, addr: int, limit: int = MAX_CHARACTERS) -> tuple[str, int]:
        """Return the first characters of a str, lone surrogates among them, and how many it has.

        Raises:
            MemoryReadError: it is none.
        """
        part, length = self._characters(addr, limit)
        if part.wide == 1:
            return part.raw.decode("latin-1"), length
        codes = struct.unpack(f"<{len(part.raw) // part.wide}{' HI'[part.wide // 2]}", part.raw)
        if max(codes, default=0) > sys.maxunicode:
            raise ObjectError(f"the string at {addr:#x} is damaged")
        return "".join(map(chr, codes)), length

    def name(self, addr: int, limit: int = MAX_CHARACTERS) -> str:
        """Return a str to be shown as it is: a long one is cut, with a mark.

        Raises:
            MemoryReadError: it is none.
        """
        part, length = self._characters(addr, limit)
        return name_text(CodePart(part.raw, part.wide, length > limit))

    def _characters(self, addr: int, limit: int) -> tuple[CodePart, int]:
        self.expect(addr, at.IS_STRING)
        recipe = self.recipe
        head = self.memory.read_some(addr, _STRING_BYTES)
        if len(head) < recipe["string_compact"]:
            head = self.memory.read(addr, recipe["string_compact"])
        length = int.from_bytes(head[recipe["string_length"] :][:8], "little")
        state = int.from_bytes(head[recipe["string_state"] :][:4], "little")
        state >>= recipe["string_kind_shift"]
        kind, is_compact, is_ascii = state & 7, state >> 3 & 1, state >> 4 & 1
        if kind not in (1, 2, 4) or length > _MAX_LENGTH:
            raise ObjectError(f"the string at {addr:#x} is damaged")
        place = recipe["string_ascii" if is_ascii and is_compact else "string_compact"]
        size = min(length, limit) * kind
        if not is_compact:
            data = int.from_bytes(head[place : place + 8], "little")
            raw = self.memory.read(data, size)
        elif place + size <= len(head):
            raw = head[place : place + size]
        else:
            raw = self.memory.read(addr + place, size)
        return CodePart(raw, kind, False), length

    def is_string(self, addr: int, text: str) -> bool:
        """Return whether an object is a str with this text."""
        try:
            return self.text(addr, _NAME_CHARACTERS) == (text, len(text))
        except ObjectError:
            return False

    def octets(self, addr: int, limit: int) -> tuple[bytes, int]:
        """Return the first of the bytes of a bytes object, and how many it has.

        Raises:
            MemoryReadError: it is none.
        """
        self.expect(addr, at.IS_BYTES)
        length = self._length(addr + at.LENGTH)
        return self.memory.read(addr + self.recipe["bytes_data"], min(length, limit)), length

    # ------------------------------------------------------------------ containers

    def items(self, addr: int, limit: int) -> tuple[list[int], int]:
        """Return the addresses of the first items of a list or tuple, and how many it has.

        Raises:
            MemoryReadError: it is none.
        """
        kind = self.type_of(addr)
        length = self._length(addr + at.LENGTH)
        count = min(length, limit)
        if kind.has(at.IS_LIST):
            place, room = struct.unpack("<2Q", self.memory.read(addr + at.LIST_ITEMS, 16))
            if length > room:
                raise ObjectError(f"the list at {addr:#x} is damaged")
        elif kind.has(at.IS_TUPLE):
            place = addr + self.layout.tuple_items
        else:
            raise ObjectError(f"{addr:#x} is neither a list nor a tuple: {kind.name}")
        raw = self.memory.read(place, count * 8) if count else b""
        return [word for (word,) in struct.iter_unpack("<Q", raw)], length

    def pairs(self, addr: int, limit: int) -> tuple[list[tuple[int, int]], int]:
        """Return the first keys and values of a dict, in their order, and how many it has.

        Raises:
            MemoryReadError: it is none.
        """
        self.expect(addr, at.IS_DICT)
        memory = self.memory
        used, _, keys, values = struct.unpack("<4Q", memory.read(addr + at.DICT_USED, 32))
        if used > _MAX_LENGTH:
            raise ObjectError(f"the dictionary at {addr:#x} is damaged")
        found: list[tuple[int, int]] = []
        entries = self._values(keys, values) if values else self._entries(keys)
        for pair in entries if used else ():
            if len(found) >= min(limit, used):
                break
            found.append(pair)
        return found, used

    def _keys(self, keys: int) -> tuple[int, int, int]:
        """Return where the entries of a dictionary's keys are, their number, and their kind."""
        if self._is_old:
            head = self.memory.read(keys, 40)
            size, entries = (int.from_bytes(head[i : i + 8], "little") for i in (8, 32))
            if size > 1 << _MAX_LOG_SIZE or size & (size - 1) or entries > size:
                raise ObjectError(f"the keys at {keys:#x} are damaged")
            width = 1 if size <= 0xFF else 2 if size <= 0xFFFF else 4 if size <= 0xFFFFFFFF else 8
            return keys + 40 + size * width, entries, _GENERAL_KEYS
        head = self.memory.read(keys, 32)
        log_size, log_bytes, kind = head[8], head[9], head[10]
        entries = int.from_bytes(head[24:32], "little")
        if log_size > _MAX_LOG_SIZE or log_bytes > _MAX_LOG_SIZE + 3 or entries > 1 << log_size:
            raise ObjectError(f"the keys at {keys:#x} are damaged")
        return keys + 32 + (1 << log_bytes), entries, kind

    def _entries(self, keys: int) -> Iterator[tuple[int, int]]:
        """Yield keys and values of a dictionary that holds its values in its entries."""
        place, entries, kind = self._keys(keys)
        row = struct.Struct("<8xQQ" if kind == _GENERAL_KEYS else "<QQ")
        for first in range(0, entries, _CHUNK):
            count = min(_CHUNK, entries - first)
            raw = self.memory.read(place + first * row.size, count * row.size)
            yield from ((key, value) for key, value in row.iter_unpack(raw) if key and value)

    def _values(self, keys: int, values: int) -> Iterator[tuple[int, int]]:
        """Yield keys and values of a dictionary that shares its keys with others."""
        place, entries, kind = self._keys(keys)
        is_general = kind == _GENERAL_KEYS
        entries = min(entries, _MAX_INLINE if not self._is_old else 1 << 16)
        row = struct.Struct("<8xQ8x" if is_general else "<Q8x")
        raw = self.memory.read(place, entries * row.size)
        names = [name for (name,) in row.iter_unpack(raw)]
        start = values + (8 if self.layout.version >= (3, 13) else 0)
        raw = self.memory.read(start, entries * 8)
        words = [word for (word,) in struct.iter_unpack("<Q", raw)]
        for index in self._order(values, entries):
            if index < entries and names[index] and words[index]:
                yield names[index], words[index]

    def _order(self, values: int, entries: int) -> list[int]:
        """Return in which order the values of an object were set."""
        if self._is_old:
            return list(range(entries))
        if self.layout.version >= (3, 13):
            capacity, size = self.memory.read(values, 2)
            place = values + 8 + capacity * 8
        else:
            size = self.memory.integer(values - 2, 1)
            place = values - 2 - size
        order = list(self.memory.read(place, size))
        return order if self.layout.version >= (3, 13) else order[::-1]

    def members(self, addr: int, limit: int) -> tuple[list[int], int]:
        """Return the first members of a set or frozenset, and how many it has.

        Raises:
            MemoryReadError: it is damaged. The caller has checked that it is a set.
        """
        used, mask, table = struct.unpack("<3Q", self.memory.read(addr + at.SET_USED, 24))
        if mask >> _MAX_LOG_SIZE or mask & (mask + 1) or used > mask:
            raise ObjectError(f"the set at {addr:#x} is damaged")
        found: list[int] = []
        for first in range(0, mask + 1, _CHUNK):
            if len(found) >= min(limit, used):
                break
            count = min(_CHUNK, mask + 1 - first)
            raw = self.memory.read(table + first * at.SET_ENTRY, count * at.SET_ENTRY)
            found += (k for k, h in struct.iter_unpack("<QQ", raw) if k and h != _DELETED_HASH)
        return found[:limit], used

    # ------------------------------------------------------------------ attributes

    def lookup(self, dictionary: int, name: str) -> int:
        """Return the value of a str key; 0 if there is none.

        Raises:
            MemoryReadError: it is no dictionary, or damaged.
        """
        pairs, _ = self.pairs(dictionary, 1 << 17)
        return next((value for key, value in pairs if self.is_string(key, name)), 0)

    def attribute(self, addr: int, name: str) -> int:
        """Return an attribute that is in an object's dictionary; 0 if there is none.

        Raises:
            MemoryReadError: the object is damaged.
        """
        return next((v for k, v in self.attributes(addr) if self.is_string(k, name)), 0)

    def attributes(self, addr: int) -> list[tuple[int, int]]:
        """Return names and values of all that is in an object's dictionary.

        Raises:
            MemoryReadError: the object is damaged.
        """
        kind, version = self.type_of(addr), self.layout.version
        dictionary = values = 0
        if version >= (3, 11) and kind.has(at.HAS_MANAGED_DICT):
            dictionary = self.memory.word(addr - 24)
            if version == (3, 11):
                values = self.memory.word(addr - 32)
            elif version == (3, 12) and dictionary & 1:
                dictionary, values = 0, dictionary + 1
            elif version >= (3, 13) and not dictionary and kind.has(at.HAS_INLINE_VALUES):
                values = addr + kind.size
                if not self.memory.integer(values + 3, 1):
                    return []
        elif 0 < kind.dict_offset <= kind.size - 8:
            dictionary = self.memory.word(addr + kind.dict_offset)
        if dictionary:
            return self.pairs(dictionary, 1 << 12)[0]
        if not values:
            return []
        keys = self.memory.word(kind.addr + self.layout.cached_keys)
        return list(self._values(keys, values)) if keys else []

    def _length(self, addr: int) -> int:
        length = self.memory.word(addr)
        if length > _MAX_LENGTH:
            raise ObjectError(f"the length at {addr:#x} is damaged")
        return length
