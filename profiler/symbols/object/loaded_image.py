"""An ELF image as the loader lays it out: bytes and pointers by file_addr.

Tables that a program reads at run time hold addresses, which in a position-independent program are
filled in by the loader: the file may hold zeros there. Here such words are read with the relative
relocations applied. Works from the program headers alone. Bytes come through a small cache of
blocks: the tables may be 100 MB of which a few kB matter, and a mapped file would raise SIGBUS when
somebody truncates it.

Source: System V ABI, "Dynamic Section"; psABI x86-64 and AArch64, "Relocation".
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterator

from ...linux.elf_headers import EM_X86_64, PT_DYNAMIC, PT_LOAD
from .object_file import ObjectFile, Segment

_DT_RELA, _DT_RELASZ = 7, 8
_RELATIVE_X86_64, _RELATIVE_AARCH64 = 8, 1027
_BLOCK_BYTES = 1 << 14
_MAX_BLOCKS = 1 << 10
_SCAN_BYTES = 4 << 20
_MAX_RELA_BYTES = 512 << 20
_MAX_STRING = 1 << 14


class LoadedImage:
    """Reads one ELF file by address. Used by one thread at a time.

    Reading where nothing is loaded from the file raises IndexError, as for any sequence.
    """

    def __init__(self, elf: ObjectFile) -> None:
        self._elf = elf
        self._loads = [s for s in elf.segments if s.kind == PT_LOAD and s.file_size]
        self._blocks: dict[int, bytes] = {}
        # Where the loader writes, in order, and what; read on first use.
        self._places: array[int] | None = None
        self._values: array[int] = array("Q")

    def read(self, file_addr: int, size: int) -> bytes:
        """Exactly ``size`` bytes, without relocations."""
        data = self.read_some(file_addr, size)
        if len(data) != size:
            raise IndexError(f"{size} bytes at {file_addr:#x} are not in the file")
        return data

    def read_some(self, file_addr: int, size: int) -> bytes:
        """Up to ``size`` bytes, fewer at the end of what is loaded."""
        for segment in self._loads:
            offset = file_addr - segment.vaddr
            if 0 <= offset < segment.file_size:
                return self._cached(segment, offset, min(size, segment.file_size - offset))
        return b""

    def string(self, file_addr: int) -> str:
        """The text up to the next zero byte."""
        data = self.read_some(file_addr, 128)
        if b"\0" not in data:
            data = self.read_some(file_addr, _MAX_STRING)
        end = data.find(b"\0")
        if end < 0:
            raise IndexError(f"no text at {file_addr:#x}")
        return data[:end].decode("utf-8", "replace")

    def pointer(self, file_addr: int) -> int:
        """A word, as it is once the program is loaded (at load bias 0)."""
        return self.pointers(file_addr, 1)[0]

    def pointers(self, file_addr: int, count: int) -> array[int]:
        """``count`` words, as they are once the program is loaded (at load bias 0)."""
        words = array("Q", self.read(file_addr, count * 8))
        places = self._relocated_places()
        index = bisect_left(places, file_addr)
        while index < len(places) and places[index] < file_addr + count * 8:
            position, misaligned = divmod(places[index] - file_addr, 8)
            if not misaligned:
                words[position] = self._values[index]
            index += 1
        return words

    def find(self, wanted: bytes, start: int = 0, end: int = 1 << 64) -> Iterator[int]:
        """Addresses in ``start`` … ``end`` that these bytes of the file are loaded to. Data comes
        last in a program, so the last segment is searched first.
        """
        for segment in reversed(self._loads):
            first = max(start, segment.vaddr) - segment.vaddr
            last = min(end - segment.vaddr, segment.file_size)
            overlap = len(wanted) - 1
            while first < last:
                size = min(_SCAN_BYTES, last - first)
                data = self._elf.at_addr(segment.vaddr + first, min(size + overlap, last - first))
                place = data.find(wanted)
                while 0 <= place < size:
                    yield segment.vaddr + first + place
                    place = data.find(wanted, place + 1)
                if len(data) < size:
                    break  # the file is shorter than its headers say
                first += size

    def find_pointers(self, value: int) -> Iterator[int]:
        """Addresses of words that hold ``value`` once the program is loaded."""
        places = self._relocated_places()
        index = -1
        while True:
            try:
                index = self._values.index(value, index + 1)
            except ValueError:
                break
            yield places[index]
        yield from (place for place in self.find(struct.pack("<Q", value)) if place % 8 == 0)

    def _cached(self, segment: Segment, offset: int, size: int) -> bytes:
        """Bytes of a segment, all of them inside."""
        number, start = divmod(offset, _BLOCK_BYTES)
        end = start + size
        if end <= _BLOCK_BYTES:
            return self._block(segment, number)[start:end]
        last = (offset + size - 1) // _BLOCK_BYTES
        if last - number > 8:
            return self._elf.at_addr(segment.vaddr + offset, size)
        return b"".join(self._block(segment, n) for n in range(number, last + 1))[start:end]

    def _block(self, segment: Segment, number: int) -> bytes:
        addr = segment.vaddr + number * _BLOCK_BYTES
        block = self._blocks.get(addr)
        if block is None:
            if len(self._blocks) >= _MAX_BLOCKS:
                self._blocks.clear()
            size = min(_BLOCK_BYTES, segment.file_size - number * _BLOCK_BYTES)
            block = self._elf.at_addr(addr, size)
            self._blocks[addr] = block
        return block

    def _relocated_places(self) -> array[int]:
        if self._places is None:
            table = self._relative_relocations()
            self._places = array("Q", (place for place, _ in table))
            self._values = array("Q", (value for _, value in table))
        return self._places

    def _relative_relocations(self) -> list[tuple[int, int]]:
        """Place and value of each, in the order of places."""
        dynamic = next((s for s in self._elf.segments if s.kind == PT_DYNAMIC), None)
        if dynamic is None:
            return []
        data = self._elf.at_addr(dynamic.vaddr, dynamic.file_size)
        entries = dict(struct.iter_unpack("<QQ", data[: len(data) // 16 * 16]))
        size = entries.get(_DT_RELASZ, 0) // 24 * 24
        if not 0 < size <= _MAX_RELA_BYTES:
            return []
        words = array("Q", self._elf.at_addr(entries.get(_DT_RELA, 0), size))
        is_x86 = self._elf.machine == EM_X86_64
        relative = _RELATIVE_X86_64 if is_x86 else _RELATIVE_AARCH64
        found = zip(words[0::3], words[1::3], words[2::3], strict=True)
        return sorted((place, value) for place, kind, value in found if kind == relative)
