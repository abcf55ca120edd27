"""Call frame information for tests: sections to compile, and what the agent made of them.

Sections come from ELF files or are put together by hand (``SectionBuilder``); ``compile_section``
runs ``cfi_driver`` on one and reads its output. Layouts are those of ``agent/unwind/rules.h``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from elftools.elf.elffile import ELFFile

from agent_build import run_driver

# enum cfa_kind, rbp_kind and ra_kind of agent/unwind/rules.h
(
    CFA_NONE,
    CFA_RSP,
    CFA_RBP,
    CFA_REG,
    CFA_DEREF_RSP,
    CFA_DEREF_RBP,
    CFA_DEREF_REG,
    CFA_PLT,
    CFA_SIGNAL,
    CFA_UNSUPPORTED,
    CFA_DEREF_INDEXED,
) = range(11)
RBP_SAME, RBP_SAVED, RBP_UNDEFINED, RBP_DEREF = range(4)
RA_AT_CFA, RA_UNDEFINED, RA_UNSUPPORTED, RA_REG = range(4)


class Rule(NamedTuple):
    """struct unwind_rule."""

    cfa_kind: int
    rbp_kind: int = RBP_SAME
    ra_kind: int = RA_AT_CFA
    cfa_reg: int = 0
    cfa_off: int = 0
    rbp_off: int = 0
    ra_off: int = 0
    extra: int = 0


RULE = struct.Struct("<4B4i")
ROW = struct.Struct("<2I")
HEADER = struct.Struct("<i7I")
NO_RULE = Rule(CFA_NONE)


@dataclass(frozen=True)
class Section:
    """An .eh_frame or .debug_frame and the code it is about. Addresses are file_addr."""

    data: bytes
    file_addr: int
    text_start: int
    text_end: int
    is_debug_frame: bool = False


@dataclass(frozen=True)
class Compiled:
    """What cfi_compile returned. ``rows``: (file_addr, rule); each holds up to the next."""

    code: int
    fde_count: int
    bad_fde_count: int
    unsupported_row_count: int
    rules_full: int
    row_limit: int
    rule_count: int
    rows: list[tuple[int, Rule]]


def read_section(path: Path, name: str = ".eh_frame") -> Section:
    """The .eh_frame or .debug_frame of an ELF file, and the extent of its executable segments.

    Raises:
        ValueError: it has none.
    """
    with path.open("rb") as file:
        elf = ELFFile(file)
        section = elf.get_section_by_name(name)
        if section is None:
            raise ValueError(f"{path} has no {name}")
        text = [
            (segment["p_vaddr"], segment["p_vaddr"] + segment["p_memsz"])
            for segment in elf.iter_segments()
            if segment["p_type"] == "PT_LOAD" and segment["p_flags"] & 1
        ]
        return Section(
            data=section.data(),
            file_addr=section["sh_addr"],
            text_start=min(start for start, _ in text),
            text_end=max(end for _, end in text),
            is_debug_frame=name == ".debug_frame",
        )


def driver_arguments(section: Section, folder: Path) -> tuple[str | int | Path, ...]:
    """The arguments that tell cfi_driver of a section, which is written to a file in ``folder``."""
    path = folder / "eh_frame.bin"
    path.write_bytes(section.data)
    addr = "debug_frame" if section.is_debug_frame else section.file_addr
    return path, addr, section.text_start, section.text_end


def compile_section(program: Path, section: Section, folder: Path) -> Compiled:
    """Compile a section with ``cfi_driver rows``.

    Raises:
        RuntimeError: the driver crashed or found a broken promise.
    """
    output = run_driver(program, "rows", *driver_arguments(section, folder))
    code, row_count, fdes, bad, unsupported, full, limit, rule_count = HEADER.unpack_from(output)
    rules_end = HEADER.size + rule_count * RULE.size
    rules = [Rule(*fields) for fields in RULE.iter_unpack(output[HEADER.size : rules_end])]
    rows = [
        (section.text_start + pc_offset, rules[rule])
        for pc_offset, rule in ROW.iter_unpack(output[rules_end:])
    ]
    assert len(rows) == row_count
    return Compiled(code, fdes, bad, unsupported, full, limit, rule_count, rows)


def uleb(value: int) -> bytes:
    """Unsigned LEB128."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def sleb(value: int) -> bytes:
    """Signed LEB128."""
    out = bytearray()
    while not -0x40 <= value < 0x40:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value & 0x7F)
    return bytes(out)


def record(body: bytes) -> bytes:
    """A record: its length and its body, padded to 4 bytes with DW_CFA_nop as linkers do."""
    body += bytes(-len(body) % 4)
    return struct.pack("<I", len(body)) + body


# def_cfa rsp+8; offset RA at cfa-8: how every CIE of x86-64 begins a function.
ENTRY_PROGRAM = bytes([0x0C, 7, 8, 0x80 | 16, 1])


def cie(
    program: bytes = ENTRY_PROGRAM,
    *,
    augmentation: str = "zR",
    data: bytes = b"\x1b",
    code_align: int = 1,
    data_align: int = -8,
    version: int = 1,
    ra_reg: int = 16,
) -> bytes:
    """A CIE record. ``data`` is the augmentation data; 0x1b: pointers are pcrel, signed 4 bytes."""
    body = struct.pack("<IB", 0, version) + augmentation.encode() + b"\0"
    body += uleb(code_align) + sleb(data_align) + uleb(ra_reg)
    if augmentation.startswith("z"):
        body += uleb(len(data)) + data
    return record(body + program)


SECTION_ADDR = 0x100000
TEXT_START = 0x1000
TEXT_END = 0x80000


class SectionBuilder:
    """Put records behind each other; knows where it stands, as pcrel pointers need."""

    def __init__(self) -> None:
        self.data = b""

    def add(self, record_bytes: bytes) -> int:
        """Append a record; returns its offset."""
        offset = len(self.data)
        self.data += record_bytes
        return offset

    def fde(self, cie_offset: int, start: int, length: int, program: bytes = b"") -> int:
        """Append an FDE for [start, start + length); its CIE has ``cie``'s default pointers."""
        offset = len(self.data)
        pc_addr = SECTION_ADDR + offset + 8
        body = struct.pack("<IiI", offset + 4 - cie_offset, start - pc_addr, length)
        return self.add(record(body + b"\0" + program))

    def section(self) -> Section:
        """What was put together, as a section with code from TEXT_START to TEXT_END."""
        return Section(self.data, SECTION_ADDR, TEXT_START, TEXT_END)
