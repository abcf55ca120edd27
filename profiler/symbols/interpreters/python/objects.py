"""Read Python's containers and attributes in another process; see ``scalars`` for the rules."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from ....linux.process_memory import ProcessMemory
from ..recipe import Recipe
from . import object_layout as at
from .object_layout import ObjectLayout
from .scalars import Scalars
from .strings import MAX_LENGTH, ObjectError

_MAX_LOG_SIZE = 40  # of a dictionary
_CHUNK = 256  # entries that are read at once
_MAX_INLINE = 256  # attributes that an object holds itself
_GENERAL_KEYS = 0
_DELETED_HASH = (1 << 64) - 1


class Objects(Scalars):
    """The objects of one CPython.

    Args:
        memory: of the process.
        recipe: of the interpreter.
        layout: of its version.
    """

    def __init__(self, memory: ProcessMemory, recipe: Recipe, layout: ObjectLayout) -> None:
        super().__init__(memory, recipe, layout)
        self._is_old = layout.version < (3, 11)

    def items(self, addr: int, limit: int) -> tuple[list[int], int]:
        """Return the addresses of the first items of a list or tuple, and how many it has.

        Raises:
            MemoryReadError: it is none.
        """
        kind = self.type_of(addr)
        length = self.length_at(addr + at.LENGTH)
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
        if used > MAX_LENGTH:
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
        return next((value for key, value in pairs if self.key(key) == name), 0)

    def attribute(self, addr: int, name: str) -> int:
        """Return an attribute that is in an object's dictionary; 0 if there is none.

        Raises:
            MemoryReadError: the object is damaged.
        """
        return next((v for k, v in self.attributes(addr) if self.key(k) == name), 0)

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
