"""Read types, numbers and strings of Python in another process.

By reading memory only: nothing runs in the process. The process may be hostile, and may run
meanwhile: each object is checked by its type, each length has a limit, and what does not fit is an
``ObjectError``. What was read of an object that changed meanwhile may be of no moment at all;
callers read twice where that matters.

One thread at a time.
"""

from __future__ import annotations

import struct
import sys
from typing import NamedTuple

from ....linux.process_memory import ProcessMemory
from ....wire.events import CodePart
from ..recipe import Recipe
from . import object_layout as at
from .chains import NO_POINTER
from .object_layout import ObjectLayout
from .strings import MAX_LENGTH, ObjectError, read_string
from .text import MAX_CHARACTERS, name_text

_MAX_TYPE_NAME = 128
_MAX_INT_BYTES = 512  # of the digits of an int that is read
_DIGIT_BITS = 30
_NAME_CHARACTERS = 256  # of a key that is compared


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


class Scalars:
    """Types, numbers and strings of one CPython.

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
        self._known_keys: dict[int, str] = {}

    def type_of(self, addr: int) -> Type:
        """Return the class of an object.

        Raises:
            MemoryReadError: there is no object.
        """
        if addr < NO_POINTER or addr % 8:
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
        if addr < NO_POINTER or addr % 8:
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
        return name_text(self._characters(addr, limit)[0])

    def _characters(self, addr: int, limit: int) -> tuple[CodePart, int]:
        self.expect(addr, at.IS_STRING)
        return read_string(self.memory, self.recipe, addr, limit)

    def key(self, addr: int) -> str:
        """Return a str that is a key of several dictionaries; "" if it is none. Reads it once."""
        known = self._known_keys.get(addr)
        if known is None:
            try:
                known = self.text(addr, _NAME_CHARACTERS)[0]
            except ObjectError:
                known = ""
            self._known_keys[addr] = known
        return known

    def octets(self, addr: int, limit: int) -> tuple[bytes, int]:
        """Return the first of the bytes of a bytes object, and how many it has.

        Raises:
            MemoryReadError: it is none.
        """
        self.expect(addr, at.IS_BYTES)
        length = self.length_at(addr + at.LENGTH)
        return self.memory.read(addr + self.recipe["bytes_data"], min(length, limit)), length

    def length_at(self, addr: int) -> int:
        """Return the length in the word at an address.

        Raises:
            MemoryReadError: it cannot be one.
        """
        length = self.memory.word(addr)
        if length > MAX_LENGTH:
            raise ObjectError(f"the length at {addr:#x} is damaged")
        return length
