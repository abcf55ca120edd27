"""Read numbers one after the other, as DWARF writes them."""

from __future__ import annotations

import struct

_SIZES = {0x00: "<Q", 0x02: "<H", 0x03: "<I", 0x04: "<Q", 0x0A: "<h", 0x0B: "<i", 0x0C: "<q"}
_MAX_BITS = 70
_RELATIVE = 0x10  # to where the number is


class Reader:
    """Bytes from ``at`` to ``end``. Raises ValueError behind them."""

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self.data, self.at, self.end = data, at, min(end, len(data))

    def __bool__(self) -> bool:
        """Whether something is left."""
        return self.at < self.end

    def skip(self, size: int) -> None:
        """Leave bytes out."""
        if not 0 <= size <= self.end - self.at:
            raise ValueError("the data end too soon")
        self.at += size

    def take(self, size: int) -> bytes:
        """Return bytes."""
        at = self.at
        self.skip(size)
        return self.data[at : self.at]

    def unsigned(self, size: int) -> int:
        """Return a number of so many bytes."""
        return int.from_bytes(self.take(size), "little")

    def leb(self) -> int:
        """Return an unsigned LEB128."""
        value = shift = 0
        while True:
            byte = self.unsigned(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
            if shift > _MAX_BITS:
                raise ValueError("a number without an end")

    def signed_leb(self) -> int:
        """Return a signed LEB128."""
        before = self.at
        value = self.leb()
        bits = 7 * (self.at - before)
        return value - (1 << bits) if value >> (bits - 1) else value

    def pointer(self, encoding: int, section_addr: int) -> int:
        """Return an address that is written in one of DW_EH_PE's ways. LSB core, 10.5.1."""
        place = section_addr + self.at
        form = struct.Struct(_SIZES.get(encoding & 0x0F, ""))
        if not form.size or encoding & 0xF0 & ~_RELATIVE:
            raise ValueError("an address in an unusual encoding")
        (value,) = form.unpack(self.take(form.size))
        return int(value) + (place if encoding & _RELATIVE else 0)
