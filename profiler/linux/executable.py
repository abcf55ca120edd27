"""What kind of program an executable file is, as far as attaching to it is concerned. Reads a
descriptor, no more.

Frida brings its agent in by calling the program's own dynamic loader. A program without one
(static), or with a loader other than glibc's, would be killed or frozen by the attempt, so it has
to be told apart before.

Source: elf(5); Go: src/debug/buildinfo; glibc: the ``.note.ABI-tag`` that csu/abi-note.S puts into
every program.

A malloc of the program's own serves the whole process, also threads that are not the program's. If
the program was never made for threads, such a malloc needs no locks.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

from . import elf_headers
from .elf_headers import ElfHeaderError

MACHINES = {
    elf_headers.EM_386: "x86",
    elf_headers.EM_MIPS: "MIPS",
    elf_headers.EM_PPC: "PowerPC",
    elf_headers.EM_ARM: "ARM",
    elf_headers.EM_X86_64: "x86-64",
    elf_headers.EM_AARCH64: "ARM64",
    elf_headers.EM_RISCV: "RISC-V",
}

# Of the program headers, a note segment or the section names; real ones are < 64 KiB.
_MAX_PART_BYTES = 1 << 20
# Of the dynamic symbols; of a larger program, they are not looked at.
_MAX_SYMBOLS_BYTES = 1 << 22


@dataclass(frozen=True)
class Program:
    """The facts of an ELF executable."""

    bits: int  # 32 or 64
    machine: int  # e_machine
    interpreter: str  # path of the dynamic loader; "" for a static program
    is_go: bool = False
    has_glibc_note: bool = False
    has_lone_malloc: bool = False  # exports a malloc, and uses nothing of POSIX threads
    has_thread_sanitizer: bool = False

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
    """Read the headers of an executable; None if it is no ELF file.

    Only 64-bit little-endian files are read further than their class and machine. A table of
    headers that is damaged counts as empty.
    """
    read = elf_headers.file_reader(descriptor, _MAX_PART_BYTES)
    try:
        header = elf_headers.parse_header(read(0, elf_headers.HEADER.size))
    except ElfHeaderError:
        return None
    if header.bits == 32 or header.byte_order == "big":
        return Program(header.bits, header.machine, interpreter="?")
    interpreter, has_glibc_note, is_go = "", False, False
    with contextlib.suppress(ElfHeaderError):
        for segment in elf_headers.read_program_headers(header, read):
            if segment.kind == elf_headers.PT_INTERP:
                path = read(segment.offset, segment.file_size).rstrip(b"\0")
                interpreter = path.decode("utf-8", "replace")
            elif segment.kind == elf_headers.PT_NOTE:
                notes = read(segment.offset, segment.file_size)
                has_glibc_note = has_glibc_note or _has_abi_tag(notes)
    with contextlib.suppress(ElfHeaderError):
        names = elf_headers.find_section_names(header, read)
        # Go keeps its sections when it strips.
        is_go = names is not None and b".gopclntab\0" in read(names.offset, names.size)
    symbols, table = _dynamic_symbols(header, descriptor)
    return Program(
        header.bits,
        header.machine,
        interpreter,
        is_go,
        has_glibc_note,
        has_lone_malloc=_has_lone_malloc(symbols, table),
        has_thread_sanitizer=b"\0__tsan_init\0" in symbols,
    )


def is_elf(descriptor: int) -> bool:
    """True if the file starts like an ELF file."""
    return os.pread(descriptor, len(elf_headers.MAGIC), 0) == elf_headers.MAGIC


def _has_abi_tag(notes: bytes) -> bool:
    return any(
        note.kind == elf_headers.NT_GNU_ABI_TAG and note.name == b"GNU\0"
        for note in elf_headers.notes(notes)
    )


def _dynamic_symbols(header: elf_headers.Header, descriptor: int) -> tuple[bytes, bytes]:
    """Return the names of the dynamic symbols, separated by zero bytes, and their table."""
    read = elf_headers.file_reader(descriptor, _MAX_SYMBOLS_BYTES)
    with contextlib.suppress(ElfHeaderError):
        sections = elf_headers.read_section_headers(header, read)
        for section in sections:
            if section.kind == elf_headers.SHT_DYNSYM and section.link < len(sections):
                strings = sections[section.link]
                return read(strings.offset, strings.size), read(section.offset, section.size)
    return b"", b""


def _has_lone_malloc(names: bytes, table: bytes) -> bool:
    if b"malloc\0" not in names or b"\0pthread_" in names or b"\0__pthread_" in names:
        return False
    whole = len(table) // elf_headers.SYMBOL.size * elf_headers.SYMBOL.size
    return any(
        section and names.startswith(b"malloc\0", name)
        for name, _, _, section, _, _ in elf_headers.SYMBOL.iter_unpack(table[:whole])
    )
