"""What kind of program a file is, from its headers alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from elfheaders import AARCH64, GLIBC_LOADER, GLIBC_NOTE, I386, executable, note
from flametap.linux.executable import Program, is_elf, read_program


def read(content: bytes) -> Program | None:
    descriptor = os.memfd_create("program")
    try:
        os.write(descriptor, content)
        return read_program(descriptor)
    finally:
        os.close(descriptor)


def test_dynamic_program_names_its_loader() -> None:
    program = read(executable(GLIBC_LOADER, notes=GLIBC_NOTE))
    assert program == Program(64, 62, GLIBC_LOADER, is_go=False, has_glibc_note=True)
    assert program is not None
    assert not program.is_musl


def test_musl_loader_is_recognised() -> None:
    program = read(executable("/lib/ld-musl-x86_64.so.1"))
    assert program is not None
    assert program.is_musl


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (executable(notes=GLIBC_NOTE), "glibc"),
        (executable(sections=b"\0.text\0.gopclntab\0"), "Go"),
        (executable(notes=GLIBC_NOTE, sections=b"\0.gopclntab\0"), "Go"),
        (executable(notes=note(b"GNU\0", 3, bytes(20))), "musl or another libc"),
        (executable(), "musl or another libc"),
    ],
)
def test_static_program_tells_what_it_is_made_with(content: bytes, kind: str) -> None:
    program = read(content)
    assert program is not None
    assert program.interpreter == ""
    assert program.static_kind == kind


@pytest.mark.parametrize(("bits", "machine"), [(32, I386), (64, AARCH64)])
def test_foreign_program_tells_class_and_machine(bits: int, machine: int) -> None:
    program = read(executable(GLIBC_LOADER, bits=bits, machine=machine))
    assert program is not None
    assert (program.bits, program.machine) == (bits, machine)


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh\n", b"\x7fELF", b"MZ" + bytes(200)])
def test_other_files_are_no_program(tmp_path: Path, content: bytes) -> None:
    assert read(content) is None


def test_damaged_headers_end_in_an_answer() -> None:
    whole = executable(GLIBC_LOADER, notes=GLIBC_NOTE, sections=b"\0.gopclntab\0")
    for position in range(16, len(whole)):
        for value in (0x00, 0x7F, 0xFF):
            damaged = whole[:position] + bytes([value]) + whole[position + 1 :]
            assert isinstance(read(damaged), Program)
    for length in range(64, len(whole)):
        assert isinstance(read(whole[:length]), Program)


def test_own_interpreter_is_an_elf_file() -> None:
    descriptor = os.open("/proc/self/exe", os.O_RDONLY)
    try:
        assert is_elf(descriptor)
    finally:
        os.close(descriptor)
