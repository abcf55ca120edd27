"""Rows of a real Go program, against a second reading of its function table."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from elftools.elf.elffile import ELFFile

from agent_build import build_driver, run_driver
from eh_frame import CFA_NONE, CFA_RBP, CFA_RSP, CFA_SIGNAL
from flametap.agent import C_SOURCES

pytestmark = pytest.mark.needs("age", "sanitizers")

DRIVER = Path(__file__).parent / "gotable_driver.c"
MAGIC = b"\xf0\xff\xff\xff\0\0\1\x08"  # Go 1.18 and 1.19
TOP_OF_STACK, WRITES_SP = 1, 2
# Assembly that moves to another stack, without a frame and with one that rbp points to. Compiled
# functions of the same names call it.
ROOTS = {
    "gogo",
    "runtime.rt0_go",
    "runtime.mstart",
    "runtime.mcall",
    "runtime.systemstack",
    "runtime.morestack",
    "runtime.asmcgocall",
    "runtime.goexit",
    "runtime.clone",
}
BY_RBP = {
    "time.now",
    "runtime.nanotime1",
    "runtime.cgocallback",
    "runtime.sigfwd",
    "runtime.callCgoSigaction",
    "runtime.callCgoMmap",
    "runtime.callCgoMunmap",
}


class GoProgram(NamedTuple):
    """Its table from the header on, as it is mapped; the text that functions are counted from."""

    table: bytes
    text: int
    start: int
    end: int


@pytest.fixture(scope="module")
def program(require_capability: Callable[[str], str]) -> GoProgram:
    with Path(require_capability("age")).open("rb") as file:
        elf = ELFFile(file)
        runtime_text = elf.get_section_by_name(".text")
        segments = [s for s in elf.iter_segments() if s["p_type"] == "PT_LOAD" and s["p_flags"] & 1]
        for name in (".gopclntab", ".data.rel.ro.gopclntab", ".data.rel.ro"):
            section = elf.get_section_by_name(name)
            if section is None:
                continue
            place = section.data().find(MAGIC)
            if place < 0:
                continue
            table = bytearray(section.data()[place:])
            here = section["sh_addr"] + place + 24
            (text,) = struct.unpack_from("<Q", table, 24)
            relocations: Any = elf.get_section_by_name(".rela.dyn")
            for entry in relocations.iter_relocations() if relocations else ():
                if entry["r_offset"] == here:
                    text = entry["r_addend"]
            struct.pack_into("<Q", table, 24, text)
            assert runtime_text is not None
            assert runtime_text["sh_addr"] <= text
            start, end = segments[0]["p_vaddr"], segments[0]["p_vaddr"] + segments[0]["p_memsz"]
            return GoProgram(bytes(table), text, start, end)
    pytest.skip("another Go than the one this test reads")


@pytest.fixture(scope="module")
def driver(require_capability: Callable[[str], str]) -> Path:
    require_capability("sanitizers")
    flags = ("-O1", "-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-pthread")
    return build_driver(DRIVER, C_SOURCES, flags)


def entry_of(program: GoProgram, wanted: str) -> int:
    """The address of a function."""
    table = program.table
    count, _, _, names, _, _, _, functions = struct.unpack_from("<8Q", table, 8)
    for i in range(count):
        entry, place = struct.unpack_from("<2I", table, functions + 8 * i)
        name = names + struct.unpack_from("<Ii", table, functions + place)[1]
        if table[name : table.index(0, name)].decode() == wanted:
            return int(program.text + entry)
    raise KeyError(wanted)


def stack_moves(program: GoProgram) -> list[tuple[int, str, int]]:
    """(address, what holds there, bytes the stack pointer moved), each up to the
    next."""
    table = program.table
    count, _, _, names, _, _, values, functions = struct.unpack_from("<8Q", table, 8)
    rows: list[tuple[int, str, int]] = []
    for i in range(count):
        entry, place, next_entry = struct.unpack_from("<3I", table, functions + 8 * i)
        _, name, _, _, sp_values = struct.unpack_from("<IiiII", table, functions + place)
        flags = table[functions + place + 37]
        text = table[names + name : table.index(0, names + name)].decode()
        start, end = program.text + entry, program.text + next_entry
        if text.startswith("runtime.sigreturn"):
            rows.append((start, "signal", 0))
        elif (is_special := flags & (TOP_OF_STACK | WRITES_SP)) and text in ROOTS:
            rows.append((start, "root", 0))
        else:
            by_rbp = is_special and text in BY_RBP
            assert by_rbp or not is_special or text == "runtime.sigtramp", text
            at, value, pc = values + sp_values, -1, start
            while pc < end and sp_values:
                numbers = []
                for _ in range(2):
                    number = shift = 0
                    while True:
                        byte = table[at]
                        at += 1
                        number |= (byte & 0x7F) << shift
                        shift += 7
                        if byte < 0x80:
                            break
                    numbers.append(number)
                change, length = numbers
                if change == 0 and pc != start:
                    break
                value += -((change + 1) >> 1) if change & 1 else change >> 1
                kind = "none" if value < 0 else "rbp" if value and by_rbp else "sp"
                rows.append((pc, kind, value))
                pc += length
            if pc < end:
                rows.append((pc, "none", 0))
    return rows


@pytest.mark.parametrize("is_told", [True, False])
def test_rows_agree_with_a_second_reading(
    is_told: bool, driver: Path, program: GoProgram, tmp_path: Path
) -> None:
    """As Go 1.26 has it, too: where the code starts is not told by the table."""
    path = tmp_path / "table"
    path.write_bytes(program.table if is_told else _without_text(program.table))
    text = 0 if is_told else program.text
    output = run_driver(driver, path, program.start, program.end, text).decode()
    *lines, preempted = output.splitlines()
    assert int(preempted) == entry_of(program, "runtime.asyncPreempt")
    ours = [tuple(map(int, line.split())) for line in lines]
    starts = [row[0] + program.start for row in ours]
    assert starts == sorted(set(starts))
    expected = stack_moves(program)
    assert len(expected) > 5000
    assert {"root", "signal", "sp", "rbp"} <= {kind for _, kind, _ in expected}
    for addr, kind, moved in expected:
        _, cfa_kind, cfa_off, is_root = ours[bisect_right(starts, addr) - 1]
        match kind:
            case "sp":
                assert (cfa_kind, cfa_off, is_root) == (CFA_RSP, moved + 8, 0), hex(addr)
            case "rbp":
                assert (cfa_kind, cfa_off, is_root) == (CFA_RBP, 16, 0), hex(addr)
            case "root":
                assert is_root, hex(addr)
            case "signal":
                assert cfa_kind == CFA_SIGNAL, hex(addr)
                assert ours[bisect_right(starts, addr - 1) - 1][1] == CFA_SIGNAL, "returned to"
            case _:
                assert cfa_kind == CFA_NONE, hex(addr)


def _without_text(table: bytes) -> bytes:
    return table[:24] + bytes(8) + table[32:]


def test_random_damage(driver: Path, program: GoProgram, tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.write_bytes(program.table)
    run_driver(driver, path, program.start, program.end, 0, 60)
