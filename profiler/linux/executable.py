"""What kind of program an executable file is, as far as attaching to it is concerned. Reads a
descriptor, no more.

Frida brings its agent in by calling the program's own dynamic loader. A program without one
(static), or with a loader other than glibc's, would be killed or frozen by the attempt, so it has
to be told apart before.

Source: elf(5); Go: src/debug/buildinfo; glibc: the ``.note.ABI-tag`` that csu/abi-note.S puts into
every program.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass

MACHINE_X86_64 = 62  # elf.h EM_X86_64
MACHINES = {
    3: "x86",
    8: "MIPS",
    20: "PowerPC",
    40: "ARM",
    62: "x86-64",
    183: "ARM64",
    243: "RISC-V",
}

_PT_INTERP = 3
_PT_NOTE = 4
_NOTE_ABI_TAG = 1
_MAX_TABLE_BYTES = (
    1 << 20
)  # of a header table, a note segment or the section names; real ones are < 64 KiB


@dataclass(frozen=True)
class Program:
    """The facts of an ELF executable."""

    bits: int  # 32 or 64
    machine: int  # e_machine
    interpreter: str  # path of the dynamic loader; "" for a static program
    is_go: bool = False
    has_glibc_note: bool = False

    @property
    def is_musl(self) -> bool:
        """Dynamically linked against musl."""
        return "ld-musl" in self.interpreter

    @property
    def static_kind(self) -> str:
        """What a static program is made with: ``Go``, ``glibc`` or ``musl or another libc``."""
        if self.is_go:
            return "Go"
        return "glibc" if self.has_glibc_note else "musl or another libc"


def read_program(descriptor: int) -> Program | None:
    """Reads the headers of an executable; None if it is no ELF file.

    Only 64-bit little-endian files are read further than their class and machine.
    """
    header = os.pread(descriptor, 64, 0)
    if len(header) < 52 or not header.startswith(b"\x7fELF"):
        return None
    bits = 64 if header[4] == 2 else 32
    big_endian = header[5] == 2
    machine = int.from_bytes(header[18:20], "big" if big_endian else "little")
    if bits == 32 or big_endian or len(header) < 64:
        return Program(bits, machine, interpreter="?")
    (table_offset,) = struct.unpack_from("<Q", header, 32)
    entry_size, entry_count = struct.unpack_from("<HH", header, 54)
    interpreter, has_glibc_note = "", False
    if entry_size >= 56:
        table = _read(descriptor, entry_size * entry_count, table_offset)
        for entry in range(0, len(table) - 55, entry_size):
            (kind,) = struct.unpack_from("<I", table, entry)
            (offset,) = struct.unpack_from("<Q", table, entry + 8)
            (size,) = struct.unpack_from("<Q", table, entry + 32)
            if kind == _PT_INTERP:
                path = _read(descriptor, size, offset).rstrip(b"\0")
                interpreter = path.decode("utf-8", "replace")
            elif kind == _PT_NOTE:
                notes = _read(descriptor, size, offset)
                has_glibc_note = has_glibc_note or _has_abi_tag(notes)
    is_go = b".gopclntab\0" in _section_names(descriptor, header)
    return Program(bits, machine, interpreter, is_go, has_glibc_note)


def is_elf(descriptor: int) -> bool:
    """True if the file starts like an ELF file."""
    return os.pread(descriptor, 4, 0) == b"\x7fELF"


def _has_abi_tag(notes: bytes) -> bool:
    position = 0
    while position + 12 <= len(notes):
        name_size, data_size, kind = struct.unpack_from("<III", notes, position)
        name = notes[position + 12 : position + 12 + name_size]
        if kind == _NOTE_ABI_TAG and name == b"GNU\0":
            return True
        # Names and data are padded to 4 bytes.
        position += 12 + ((name_size + 3) & ~3) + ((data_size + 3) & ~3)
    return False


def _section_names(descriptor: int, header: bytes) -> bytes:
    """The section name table; empty if there is none. Go keeps its sections when it strips."""
    (table_offset,) = struct.unpack_from("<Q", header, 40)
    entry_size, entry_count, names_index = struct.unpack_from("<HHH", header, 58)
    if entry_size < 64 or names_index >= entry_count:
        return b""
    entry = _read(descriptor, 64, table_offset + names_index * entry_size)
    if len(entry) < 64:
        return b""
    offset, size = struct.unpack_from("<QQ", entry, 24)
    return _read(descriptor, size, offset)


def _read(descriptor: int, size: int, offset: int) -> bytes:
    """What there is; headers may claim anything."""
    if offset >= 1 << 63:
        return b""
    return os.pread(descriptor, min(size, _MAX_TABLE_BYTES), offset)
