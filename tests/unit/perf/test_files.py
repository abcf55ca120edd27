"""What is known of the code in a file: its place, and how to come to its caller."""

from __future__ import annotations

import os
import struct
import sys

import pytest

from flametap.linux.elf_headers import PT_LOAD
from flametap.linux.maps import read_maps
from flametap.linux.vdso import VDSO
from flametap.perf.call_frames import RIP
from flametap.perf.files import NO_CALLER, CodeFile
from flametap.symbols.object.elf import ElfFile

PROGRAM = os.path.realpath(sys.executable)


def entry_offset() -> int:
    """The file_offset of the code that the program begins with."""
    with open(PROGRAM, "rb") as file:
        data = file.read()
    (entry_addr,) = struct.unpack("<Q", data[24:32])
    elf = ElfFile(lambda at, size: data[at : at + size], len(data))
    (segment,) = (
        each
        for each in elf.segments
        if each.kind == PT_LOAD and 0 <= entry_addr - each.vaddr < each.file_size
    )
    return int(entry_addr) - segment.vaddr + segment.offset


def test_program_begins_without_a_caller() -> None:
    """Whatever its rules say: some linkers' are those of every function."""
    file = CodeFile(PROGRAM, os.stat(PROGRAM).st_ino)
    place, rules = file.code(entry_offset() + 4)
    assert place is not None
    assert place.path == PROGRAM
    assert rules == NO_CALLER


def test_vdso_is_read_from_our_memory() -> None:
    mapping = next((each for each in read_maps("/proc/self") if each.path == VDSO), None)
    if mapping is None:
        pytest.skip("the kernel maps no vDSO here")
    file = CodeFile(VDSO, 0)
    found = [file.code(offset) for offset in range(0, mapping.end - mapping.start, 16)]
    with_rules = [rules for _, rules in found if rules is not None]
    assert len(with_rules) > 10
    assert any(register == RIP for rules in with_rules for register, _ in rules.saved)


def test_another_file_of_the_same_name_is_none() -> None:
    file = CodeFile(PROGRAM, os.stat(PROGRAM).st_ino + 1)
    assert file.code(entry_offset()) == (None, None)
