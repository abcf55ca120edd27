"""The headers of ELF files, whole and damaged."""

from __future__ import annotations

import os
import random
import struct
from pathlib import Path

import pytest

from elfheaders import AARCH64, GLIBC_LOADER, GLIBC_NOTE, executable, note, with_sections
from flametap.linux import elf_headers
from flametap.linux.elf_headers import ElfHeaderError, Header, Read, Table

BIG_ENDIAN = b"\x7fELF\x02\x02\x01" + bytes(9) + struct.pack(">HH", 2, 22) + bytes(44)


def reader(data: bytes, asked: list[int] | None = None) -> Read:
    def read(offset: int, size: int) -> bytes:
        if asked is not None:
            asked.append(size)
        return data[offset : offset + size]

    return read


def with_many_sections(count: int, names_index: int) -> bytes:
    """A file that holds the numbers of its sections in section 0, all of them names."""
    first = struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, count, names_index, 0, 0, 0)
    other = struct.pack("<IIQQQQIIQQ", 1, 3, 0, 0, 0, 4, 0, 0, 1, 0)
    header = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQ", 1, 62, 1, 0, 0, 64)
    header += struct.pack("<IHHHHHH", 0, 64, 56, 0, 64, 0, 0xFFFF)
    return header + first + other * (count - 1)


def read_tables(header: Header, read: Read) -> None:
    elf_headers.read_program_headers(header, read)
    elf_headers.read_section_headers(header, read)
    elf_headers.find_section_names(header, read)


def test_headers_hold_what_was_written() -> None:
    data = executable(GLIBC_LOADER, notes=GLIBC_NOTE, sections=b"\0.text\0")
    header = elf_headers.parse_header(data)
    assert (header.bits, header.byte_order, header.file_type, header.machine) == (
        64,
        "little",
        2,
        62,
    )
    loader, notes = elf_headers.read_program_headers(header, reader(data))
    assert (loader.kind, notes.kind) == (elf_headers.PT_INTERP, elf_headers.PT_NOTE)
    assert data[loader.offset :][: loader.file_size] == GLIBC_LOADER.encode() + b"\0"
    assert (loader.flags, loader.vaddr, loader.alignment) == (4, loader.offset, 1)
    (names,) = elf_headers.read_section_headers(header, reader(data))
    assert data[names.offset :][: names.size] == b"\0.text\0"
    assert elf_headers.find_section_names(header, reader(data)) == names


def test_file_without_tables_has_no_headers() -> None:
    data = executable()
    header = elf_headers.parse_header(data)
    assert elf_headers.read_program_headers(header, reader(data)) == []
    assert elf_headers.read_section_headers(header, reader(data)) == []
    assert elf_headers.find_section_names(header, reader(data)) is None


def test_own_interpreter_has_a_segment_that_is_loaded() -> None:
    data = Path("/proc/self/exe").read_bytes()
    header = elf_headers.parse_header(data)
    segments = elf_headers.read_program_headers(header, reader(data))
    assert elf_headers.PT_LOAD in {segment.kind for segment in segments}
    names = elf_headers.find_section_names(header, reader(data))
    assert names is None or b".text\0" in data[names.offset :][: names.size]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (executable(bits=32, machine=3), (32, "little", 3)),
        (executable(machine=AARCH64), (64, "little", AARCH64)),
        (BIG_ENDIAN, (64, "big", 22)),
    ],
)
def test_foreign_file_tells_class_and_machine(data: bytes, expected: tuple[int, str, int]) -> None:
    header = elf_headers.parse_header(data)
    assert (header.bits, header.byte_order, header.machine) == expected
    assert elf_headers.read_program_headers(header, reader(data)) == []
    assert elf_headers.read_section_headers(header, reader(data)) == []


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not an ELF file"),
        (b"#!/bin/sh\n" * 20, "not an ELF file"),
        (b"\x7fELF", "truncated"),
        (executable(bits=32)[:51], "truncated"),
        (executable()[:63], "truncated"),
    ],
)
def test_other_files_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ElfHeaderError, match=reason):
        elf_headers.parse_header(data)


def test_numbers_that_do_not_fit_are_taken_from_section_0() -> None:
    data = with_many_sections(70_000, 69_999)
    header = elf_headers.parse_header(data)
    sections = elf_headers.read_section_headers(header, reader(data))
    assert len(sections) == 70_000
    assert elf_headers.find_section_names(header, reader(data)) == sections[69_999]


NOTHING = Table(0, 0, 0)


def _header(*, segments: Table = NOTHING, sections: Table = NOTHING) -> Header:
    return Header(64, "little", 2, 62, segments, sections, 0)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (_header(segments=Table(64, 57, 1)), "program headers of an unknown size"),
        (_header(segments=Table(64, 0, 1)), "program headers of an unknown size"),
        (_header(segments=Table(1 << 63, 56, 1)), "truncated: the program headers"),
        (_header(segments=Table(64, 56, 0xFFFF)), "truncated: the program headers"),
        (_header(sections=Table(64, 0, 1)), "section headers of an unknown size"),
        (_header(sections=Table((1 << 64) - 1, 64, 1)), "truncated: the section headers"),
        (_header(sections=Table(64, 64, 0)), "truncated: the section headers"),
    ],
)
def test_tables_that_cannot_be_read_are_refused(header: Header, reason: str) -> None:
    with pytest.raises(ElfHeaderError, match=reason):
        read_tables(header, reader(bytes(100)))


def test_promise_of_many_sections_reads_one() -> None:
    damaged = bytearray(with_many_sections(3, 2))
    struct.pack_into("<Q", damaged, 64 + 32, 1 << 60)
    data = bytes(damaged)
    asked: list[int] = []
    with pytest.raises(ElfHeaderError, match="too many sections"):
        elf_headers.read_section_headers(elf_headers.parse_header(data), reader(data, asked))
    assert asked == [64]


def test_damage_ends_in_the_one_error() -> None:
    generator = random.Random(11)
    files = [
        executable(GLIBC_LOADER, notes=GLIBC_NOTE, sections=b"\0.text\0"),
        with_sections({".text": b"x", ".symtab": b"y"}),
        with_many_sections(5, 4),
    ]
    refused = 0
    for _ in range(2000):
        data = bytearray(generator.choice(files))
        del data[generator.choice([len(data), generator.randrange(len(data))]) :]
        for _ in range(generator.randrange(6)):
            if data:
                place = generator.randrange(min(len(data), 128))
                data[place] = generator.choice((0, 1, 0x7F, 0xFF, generator.randrange(256)))
        try:
            read_tables(elf_headers.parse_header(bytes(data)), reader(bytes(data)))
        except ElfHeaderError:
            refused += 1
    assert 500 < refused < 2000


def test_notes_come_with_their_names_and_descriptions() -> None:
    data = (
        note(b"GNU\0", 3, b"\xab\xcd\xef") + note(b"stapsdt\0", 9, b"") + note(b"GNU\0", 1, b"1234")
    )
    assert list(elf_headers.notes(data)) == [
        (b"GNU\0", 3, b"\xab\xcd\xef"),
        (b"stapsdt\0", 9, b""),
        (b"GNU\0", 1, b"1234"),
    ]


@pytest.mark.parametrize(
    "data", [b"", bytes(11), struct.pack("<III", 0xFFFFFFFF, 4, 1), note(b"GNU\0", 3, b"abcd")[:17]]
)
def test_notes_cut_short_end(data: bytes) -> None:
    assert sum(len(name) + len(text) for name, _, text in elf_headers.notes(data)) <= len(data)


@pytest.mark.parametrize("offset", [0, 5, 10, (1 << 63) - 4, 1 << 63, (1 << 64) - 1])
def test_file_reader_gives_what_there_is(tmp_path: Path, offset: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    descriptor = os.open(path, os.O_RDONLY)
    try:
        read = elf_headers.file_reader(descriptor, 4)
        assert read(offset, 1 << 62) == b"0123456789"[offset : offset + 4]
    finally:
        os.close(descriptor)
