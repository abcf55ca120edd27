"""Call frame programs put together by hand: what each instruction and record becomes."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from eh_frame import (
    CFA_DEREF_INDEXED,
    CFA_DEREF_RBP,
    CFA_DEREF_REG,
    CFA_DEREF_RSP,
    CFA_PLT,
    CFA_RBP,
    CFA_REG,
    CFA_RSP,
    CFA_SIGNAL,
    CFA_UNSUPPORTED,
    ENTRY_PROGRAM,
    NO_RULE,
    RA_REG,
    RA_UNDEFINED,
    RA_UNSUPPORTED,
    RBP_DEREF,
    RBP_SAVED,
    RBP_UNDEFINED,
    TEXT_END,
    TEXT_START,
    Compiled,
    Rule,
    SectionBuilder,
    cie,
    compile_section,
    record,
    sleb,
    uleb,
)

START = TEXT_START + 0x100
LENGTH = 0x80
RBP, RSP, RDI, R8, R10, RA = 6, 7, 5, 8, 10, 16
ENTRY = Rule(CFA_RSP, cfa_off=8, ra_off=-8)
UNSUPPORTED = Rule(CFA_UNSUPPORTED, RBP_UNDEFINED, RA_UNSUPPORTED)
ADVANCE_4 = b"\x44"


def block(*parts: bytes) -> bytes:
    joined = b"".join(parts)
    return uleb(len(joined)) + joined


def breg(register: int, offset: int) -> bytes:
    return bytes([0x70 + register]) + sleb(offset)


DEREF = b"\x06"
PLT_TAIL = bytes([0x80, 0, 0x3F, 0x1A, 0x3B, 0x2A, 0x33, 0x24, 0x22])


@pytest.fixture
def compile_program(cfi_driver: Path, tmp_path: Path):
    """Compile one FDE with this program (and maybe this CIE)."""

    def run(program: bytes, cie_record: bytes | None = None) -> Compiled:
        builder = SectionBuilder()
        first = builder.add(cie() if cie_record is None else cie_record)
        builder.fde(first, START, LENGTH, program)
        return compile_section(cfi_driver, builder.section(), tmp_path)

    return run


@pytest.mark.parametrize(
    ("program", "rule"),
    [
        pytest.param(b"\x0e\x90\x01", ENTRY._replace(cfa_off=144), id="def_cfa_offset"),
        pytest.param(b"\x0e" + uleb(262_208), ENTRY._replace(cfa_off=262_208), id="big frame"),
        pytest.param(b"\x13" + sleb(-4), ENTRY._replace(cfa_off=32), id="def_cfa_offset_sf"),
        pytest.param(b"\x0c\x06\x10", ENTRY._replace(cfa_kind=CFA_RBP, cfa_off=16), id="def_cfa"),
        pytest.param(
            b"\x12\x06" + sleb(-3), ENTRY._replace(cfa_kind=CFA_RBP, cfa_off=24), id="def_cfa_sf"
        ),
        pytest.param(b"\x0d\x06", ENTRY._replace(cfa_kind=CFA_RBP), id="def_cfa_register"),
        pytest.param(
            b"\x0d\x0a", ENTRY._replace(cfa_kind=CFA_REG, cfa_reg=R10), id="def_cfa_register r10"
        ),
        pytest.param(b"\x0d\x11", UNSUPPORTED, id="CFA from a vector register"),
        pytest.param(b"\x86\x02", ENTRY._replace(rbp_kind=RBP_SAVED, rbp_off=-16), id="offset"),
        pytest.param(
            b"\x05\x06\x03", ENTRY._replace(rbp_kind=RBP_SAVED, rbp_off=-24), id="offset_extended"
        ),
        pytest.param(
            b"\x11\x06" + sleb(-15),
            ENTRY._replace(rbp_kind=RBP_SAVED, rbp_off=120),
            id="offset_extended_sf",
        ),
        pytest.param(
            b"\x2f\x06\x02",
            ENTRY._replace(rbp_kind=RBP_SAVED, rbp_off=16),
            id="GNU_negative_offset_extended",
        ),
        pytest.param(b"\x86\x02\xc6", ENTRY, id="restore"),
        pytest.param(b"\x86\x02\x06\x06", ENTRY, id="restore_extended"),
        pytest.param(b"\x86\x02\x08\x06", ENTRY, id="same_value"),
        pytest.param(b"\x07\x06", ENTRY._replace(rbp_kind=RBP_UNDEFINED), id="undefined rbp"),
        pytest.param(b"\x09\x06\x09", ENTRY._replace(rbp_kind=RBP_UNDEFINED), id="rbp in r9"),
        pytest.param(b"\x14\x06\x02", ENTRY._replace(rbp_kind=RBP_UNDEFINED), id="val_offset rbp"),
        pytest.param(b"\x14\x07\x00", ENTRY, id="val_offset rsp = CFA"),
        pytest.param(b"\x15\x07\x7f", UNSUPPORTED, id="val_offset_sf rsp"),
        pytest.param(
            b"\x16\x06" + block(breg(RSP, 8)),
            ENTRY._replace(rbp_kind=RBP_UNDEFINED),
            id="val_expression rbp",
        ),
        pytest.param(
            b"\x07\x10", ENTRY._replace(ra_kind=RA_UNDEFINED, ra_off=0), id="undefined RA: root"
        ),
        pytest.param(
            b"\x09\x10\x05", ENTRY._replace(ra_kind=RA_REG, ra_off=RDI), id="vfork: RA in rdi"
        ),
        pytest.param(b"\x09\x10\x11", UNSUPPORTED, id="RA in a vector register"),
        pytest.param(b"\x14\x10\x01", UNSUPPORTED, id="val_offset RA"),
        pytest.param(b"\x83\x02\x8f\x04\x05\x0c\x01\x09\x03\x08", ENTRY, id="other registers"),
        pytest.param(b"\x2e\x20\x2d\x00", ENTRY, id="args_size, window_save, nop"),
        pytest.param(
            b"\x0c\x05\x00\x09\x07\x08\x09\x06\x09\x09\x10\x01",
            Rule(CFA_REG, RBP_UNDEFINED, RA_REG, cfa_reg=R8, ra_off=1),
            id="longjmp: rsp in r8, RA in rdx",
        ),
        pytest.param(
            b"\x0c\x01\x00\x11\x07" + sleb(-20) + b"\x11\x10" + sleb(-21),
            UNSUPPORTED,
            id="setcontext: rsp and RA from memory",
        ),
        pytest.param(
            b"\x07\x10\x0f" + block(b"\x30"),
            UNSUPPORTED._replace(ra_kind=RA_UNDEFINED),
            id="root with an unknown CFA",
        ),
    ],
)
def test_instruction(compile_program, program: bytes, rule: Rule) -> None:
    compiled = compile_program(ADVANCE_4 + program)
    if rule == ENTRY:
        assert compiled.rows == [(START, ENTRY), (START + LENGTH, NO_RULE)]
    else:
        assert compiled.rows == [(START, ENTRY), (START + 4, rule), (START + LENGTH, NO_RULE)]
    assert compiled.bad_fde_count == 0
    assert compiled.unsupported_row_count == (rule.cfa_kind == CFA_UNSUPPORTED)


@pytest.mark.parametrize(
    ("expression", "rule"),
    [
        pytest.param(breg(RSP, 24), Rule(CFA_RSP, cfa_off=24), id="rsp+n"),
        pytest.param(breg(RSP, 24) + b"\x23\x08", Rule(CFA_RSP, cfa_off=32), id="rsp+n, plus"),
        pytest.param(breg(RBP, -40) + DEREF, Rule(CFA_DEREF_RBP, cfa_off=-40), id="DRAP"),
        pytest.param(
            breg(RSP, 152) + DEREF + b"\x23\x08",
            Rule(CFA_DEREF_RSP, cfa_off=152, extra=8),
            id="libcrypto",
        ),
        pytest.param(
            breg(RBP, 0) + DEREF + b"\x40\x22", Rule(CFA_DEREF_RBP, extra=16), id="sbcl, lit; plus"
        ),
        pytest.param(breg(RBP, 0) + DEREF + b"\x40\x1c", UNSUPPORTED, id="lit; minus"),
        pytest.param(
            b"\x92\x0a" + sleb(-8) + DEREF,
            Rule(CFA_DEREF_REG, cfa_reg=R10, cfa_off=-8),
            id="bregx",
        ),
        pytest.param(breg(RSP, 8) + PLT_TAIL, Rule(CFA_PLT, extra=11), id="PLT"),
        pytest.param(breg(RSP, 8) + PLT_TAIL[:-1] + b"\x1c", UNSUPPORTED, id="not quite the PLT"),
        pytest.param(
            breg(RSP, 8) + breg(9, 0) + b"\x38\x1e\x22\x06\x23\x08",
            Rule(CFA_DEREF_INDEXED, cfa_reg=9, cfa_off=8, extra=8),
            id="libcrypto, r9",
        ),
        pytest.param(
            breg(RBP, 8) + breg(9, 0) + b"\x38\x1e\x22\x06\x23\x08", UNSUPPORTED, id="rbp, r9"
        ),
        pytest.param(breg(RSP, 8) + breg(9, 0) + b"\x38\x1e\x22", UNSUPPORTED, id="r9, no deref"),
        pytest.param(breg(RSP, 8) + DEREF + DEREF, UNSUPPORTED, id="deref twice"),
        pytest.param(breg(RA, 0), UNSUPPORTED, id="rip"),
        pytest.param(b"\x92\x22\x00", UNSUPPORTED, id="bregx 34"),
        pytest.param(b"", UNSUPPORTED, id="empty"),
        pytest.param(b"\x77\x80", UNSUPPORTED, id="cut off"),
    ],
)
def test_cfa_expression(compile_program, expression: bytes, rule: Rule) -> None:
    compiled = compile_program(b"\x0f" + block(expression))
    expected = rule if rule == UNSUPPORTED else rule._replace(ra_off=-8)
    assert compiled.rows == [(START, expected), (START + LENGTH, NO_RULE)]


def test_register_and_offset_survive_an_expression(compile_program) -> None:
    program = b"\x0e\x20" + b"\x0f" + block(breg(RBP, -8), DEREF) + ADVANCE_4 + b"\x0d\x07"
    assert compile_program(program).rows[:2] == [
        (START, Rule(CFA_DEREF_RBP, cfa_off=-8, ra_off=-8)),
        (START + 4, ENTRY._replace(cfa_off=32)),
    ]


def test_rbp_saved_through_itself(compile_program) -> None:
    program = b"\x0f" + block(breg(RBP, -8), DEREF) + b"\x10\x06" + block(breg(RBP, 0))
    expected = Rule(CFA_DEREF_RBP, RBP_DEREF, cfa_off=-8, ra_off=-8)
    assert compile_program(program).rows[0] == (START, expected)


def test_advances_and_remembered_states(compile_program) -> None:
    compiled = compile_program(
        b"\x41\x0e\x10\x86\x02"  # advance_loc 1: push rbp
        b"\x0a\x02\x03\x0e\x20"  # remember; advance_loc1 3
        b"\x0a\x03\x04\x00\x0e\x30"  # remember; advance_loc2 4
        b"\x04\x08\x00\x00\x00\x0b"  # advance_loc4 8; restore
        b"\x1d\x10\x00\x00\x00\x00\x00\x00\x00\x0b"  # MIPS_advance_loc8 16; restore
        b"\x40\x41"  # advances that change nothing
    )
    pushed = ENTRY._replace(cfa_off=16, rbp_kind=RBP_SAVED, rbp_off=-16)
    assert compiled.rows == [
        (START, ENTRY),
        (START + 1, pushed),
        (START + 4, pushed._replace(cfa_off=32)),
        (START + 8, pushed._replace(cfa_off=48)),
        (START + 16, pushed._replace(cfa_off=32)),
        (START + 32, pushed),
        (START + LENGTH, NO_RULE),
    ]


def test_set_loc(cfi_driver: Path, tmp_path: Path) -> None:
    builder = SectionBuilder()
    first = builder.add(cie(augmentation="zR", data=b"\x00"))
    offset = len(builder.data)
    program = b"\x01" + struct.pack("<Q", START + 0x20) + b"\x0e\x10"
    builder.add(record(struct.pack("<IQQ", offset + 4 - first, START, LENGTH) + b"\0" + program))
    compiled = compile_section(cfi_driver, builder.section(), tmp_path)
    assert [addr for addr, _ in compiled.rows] == [START, START + 0x20, START + LENGTH]


def test_advance_past_the_end_of_the_function_ends_it(compile_program) -> None:
    compiled = compile_program(b"\x02\xff\x0e\x10\x41\x0e\x20")
    assert compiled.rows == [(START, ENTRY), (START + LENGTH, NO_RULE)]


def test_signal_trampoline(compile_program) -> None:
    program = b"\x0f" + block(breg(RSP, 160), DEREF) + b"\x10\x10" + block(breg(RSP, 168))
    compiled = compile_program(program, cie(b"", augmentation="zRS"))
    assert compiled.rows == [
        (START, Rule(CFA_SIGNAL)),
        (START + LENGTH, NO_RULE),
    ]


def test_signal_frame_with_ordinary_rules_is_ordinary(compile_program) -> None:
    compiled = compile_program(b"", cie(augmentation="zRS"))
    assert compiled.rows[0] == (START, ENTRY)


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(b"\x3f", id="unknown instruction"),
        pytest.param(b"\x0b", id="restore_state without remember_state"),
        pytest.param(b"\x0a" * 65, id="remember_state 65 times"),
        pytest.param(b"\x0e" + uleb(1 << 31), id="a frame of 2 GiB"),
        pytest.param(b"\x0e" + uleb(1 << 70), id="a number of 71 bits"),
        pytest.param(b"\x86" + uleb((1 << 31) - 1), id="an offset that overflows when scaled"),
        pytest.param(b"\x0f\x7f\x77\x08", id="expression longer than the record"),
        pytest.param(b"\x0e\x80\x80", id="number cut off"),
        pytest.param(b"\x01\x00\x00\xf0\xff", id="set_loc backwards"),
        pytest.param(b"\x1d" + b"\xff" * 8, id="advance by 2^64-1"),
    ],
)
def test_malformed_program_costs_its_function_only(
    cfi_driver: Path, tmp_path: Path, program: bytes
) -> None:
    builder = SectionBuilder()
    first = builder.add(cie())
    builder.fde(first, START - 0x10, 0x10)
    builder.fde(first, START, LENGTH, ADVANCE_4 + b"\x0e\x10" + ADVANCE_4 + program)
    builder.fde(first, START + LENGTH, 0x10)
    compiled = compile_section(cfi_driver, builder.section(), tmp_path)
    assert compiled.rows == [
        (START - 0x10, ENTRY),
        (START, NO_RULE),
        (START + LENGTH, ENTRY),
        (START + LENGTH + 0x10, NO_RULE),
    ]
    assert (compiled.fde_count, compiled.bad_fde_count) == (3, 1)


@pytest.mark.parametrize(
    "cie_record",
    [
        pytest.param(cie(version=5), id="version 5"),
        pytest.param(cie(ra_reg=30), id="another architecture's return register"),
        pytest.param(cie(augmentation="eh"), id="augmentation without a length"),
        pytest.param(cie(data=b"\x9b"), id="indirect pointers"),
        pytest.param(cie(data=b"\x3b"), id="pointers relative to data"),
        pytest.param(cie(data=b"\x17"), id="unknown pointer format"),
        pytest.param(cie(code_align=0), id="code alignment 0"),
        pytest.param(cie(data_align=1 << 40), id="huge data alignment"),
        pytest.param(cie(b"\x3f"), id="malformed program"),
        pytest.param(record(b"\0\0\0\0\x01zR"), id="cut off"),
    ],
)
def test_unusable_cie(compile_program, cie_record: bytes) -> None:
    compiled = compile_program(b"", cie_record)
    assert (compiled.code, compiled.rows, compiled.bad_fde_count) == (-1, [], 1)


def test_each_fde_follows_its_own_cie(cfi_driver: Path, tmp_path: Path) -> None:
    builder = SectionBuilder()
    plain = builder.add(cie())
    scaled = builder.add(
        cie(b"\x0c\x07\x10\x90\x02", code_align=4, data_align=-4, version=3, data=b"\x1b")
    )
    personality = builder.add(cie(augmentation="zPLR", data=b"\x9b\x01\x02\x03\x04\x1b\x1b"))
    builder.fde(scaled, START, 0x40, b"\x42\x86\x05")
    builder.fde(plain, START + 0x40, 0x40, b"\x42\x86\x05")
    builder.fde(personality, START + 0x80, 0x40)
    compiled = compile_section(cfi_driver, builder.section(), tmp_path)
    assert compiled.rows == [
        (START, ENTRY._replace(cfa_off=16)),
        (START + 8, ENTRY._replace(cfa_off=16, rbp_kind=RBP_SAVED, rbp_off=-20)),
        (START + 0x40, ENTRY),
        (START + 0x42, ENTRY._replace(rbp_kind=RBP_SAVED, rbp_off=-40)),
        (START + 0x80, ENTRY),
        (START + 0xC0, NO_RULE),
    ]


def test_functions_out_of_order_with_and_without_gaps(cfi_driver: Path, tmp_path: Path) -> None:
    builder = SectionBuilder()
    first = builder.add(cie())
    builder.fde(first, START + 0x30, 0x10, b"\x0e\x20")
    builder.fde(first, START + 0x10, 0x10, b"\x0e\x10")
    builder.fde(first, START, 0x10)
    compiled = compile_section(cfi_driver, builder.section(), tmp_path)
    assert compiled.rows == [
        (START, ENTRY),
        (START + 0x10, ENTRY._replace(cfa_off=16)),
        (START + 0x20, NO_RULE),
        (START + 0x30, ENTRY._replace(cfa_off=32)),
        (START + 0x40, NO_RULE),
    ]


def test_overlapping_functions(cfi_driver: Path, tmp_path: Path) -> None:
    """The later start wins from there on; of equal starts the first in the section."""
    builder = SectionBuilder()
    first = builder.add(cie())
    builder.fde(first, START, 0x40)
    builder.fde(first, START, 0x60, b"\x0e\x10")
    builder.fde(first, START + 0x20, 0x10, b"\x0e\x20")
    compiled = compile_section(cfi_driver, builder.section(), tmp_path)
    assert compiled.rows == [
        (START, ENTRY),
        (START + 0x20, ENTRY._replace(cfa_off=32)),
        (START + 0x30, NO_RULE),
    ]


def test_code_outside_of_the_text(cfi_driver: Path, tmp_path: Path) -> None:
    """Discarded functions (address 0 or nearly) are left out, an end behind the text is cut."""
    builder = SectionBuilder()
    first = builder.add(cie())
    builder.fde(first, 0, 0x40)
    builder.fde(first, TEXT_END, 0x40)
    builder.fde(first, START, 0)
    builder.fde(first, TEXT_END - 0x10, 0x40)
    compiled = compile_section(cfi_driver, builder.section(), tmp_path)
    assert compiled.rows == [(TEXT_END - 0x10, ENTRY), (TEXT_END, NO_RULE)]
    assert (compiled.fde_count, compiled.bad_fde_count) == (1, 0)


def test_section_ends_at_the_zero_record(cfi_driver: Path, tmp_path: Path) -> None:
    builder = SectionBuilder()
    first = builder.add(cie())
    builder.fde(first, START, 0x10)
    builder.add(bytes(4))
    builder.fde(first, START + 0x10, 0x10, b"\x0e\x10")
    compiled = compile_section(cfi_driver, builder.section(), tmp_path)
    assert compiled.rows == [(START, ENTRY), (START + 0x10, NO_RULE)]


def test_fde_without_a_cie_is_counted(cfi_driver: Path, tmp_path: Path) -> None:
    builder = SectionBuilder()
    first = builder.add(cie())
    builder.fde(first + 4, START, 0x10)
    builder.fde(-0x1000, START, 0x10)
    builder.add(struct.pack("<IQ", 0xFFFFFFFF, 8) + bytes(8))  # 64-bit record: skipped
    builder.fde(first, START + 0x10, 0x10)
    compiled = compile_section(cfi_driver, builder.section(), tmp_path)
    assert compiled.rows == [(START + 0x10, ENTRY), (START + 0x20, NO_RULE)]
    assert compiled.bad_fde_count == 3


def test_nothing_usable(cfi_driver: Path, tmp_path: Path) -> None:
    builder = SectionBuilder()
    builder.add(cie(ENTRY_PROGRAM))
    compiled = compile_section(cfi_driver, builder.section(), tmp_path)
    assert (compiled.code, compiled.row_limit, compiled.rows) == (-1, 0, [])
