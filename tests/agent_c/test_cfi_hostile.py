"""Damaged sections: never a read outside, an endless loop or a broken promise."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from agent_build import run_driver
from eh_frame import (
    TEXT_START,
    Section,
    SectionBuilder,
    cie,
    compile_section,
    driver_arguments,
    read_section,
    record,
)

LOADER = Path("/lib64/ld-linux-x86-64.so.2")
MAX_RULES = 65_535  # agent/unwind/rules.h
MEGABYTE = 1 << 20


def handmade() -> Section:
    """Several CIEs, and programs that use every instruction there is."""
    builder = SectionBuilder()
    cies = [
        builder.add(cie()),
        builder.add(cie(augmentation="zPLR", data=b"\x9b\x01\x02\x03\x04\x1b\x1b")),
        builder.add(cie(augmentation="zRS")),
        builder.add(cie(augmentation="zR", data=b"\x00", version=3, code_align=2)),
    ]
    for i in range(0x40):
        operands = bytes([6, 2, 0x77, 8, 6, 0x41, 0x0E, 0x10, 0x86, 2])
        program = bytes([0x41, 0x0E, 0x10, 0x0A, 0x41, i]) + operands + b"\x0b\xc6"
        builder.fde(cies[i % 3], TEXT_START + i * 0x20, 0x20, program)
    return builder.section()


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("source", [LOADER, None], ids=["loader", "handmade"])
def test_random_damage(source: Path | None, seed: int, cfi_driver: Path, tmp_path: Path) -> None:
    section = read_section(source) if source else handmade()
    arguments = driver_arguments(section, tmp_path)
    output = run_driver(cfi_driver, "mutate", *arguments, seed, 8000).decode()
    words = output.split()
    assert int(words[2]) > 100, f"hardly anything was compiled: {output}"
    assert int(words[4]) > 100, f"hardly anything was damaged: {output}"


def test_truncated_section(cfi_driver: Path, tmp_path: Path) -> None:
    section = handmade()
    for length in [*range(1, 40), 41, 100, 1001]:
        cut = dataclasses.replace(section, data=section.data[:length])
        run_driver(cfi_driver, "rows", *driver_arguments(cut, tmp_path))


def _alternating_cies() -> bytes:
    """4 096 CIEs, and FDEs that refer to them in turn: none may be parsed twice."""
    builder = SectionBuilder()
    program = b"\x0c\x07\x08\x90\x01" + b"\x86\x02" * 64
    offsets = [builder.add(cie(program)) for _ in range(4096)]
    parts = [builder.data]
    offset = len(builder.data)
    for i in range(20_000):
        single = SectionBuilder()
        start = TEXT_START + 8 * i - offset
        single.fde(-(offset - offsets[i * 1021 % 4096]), start, 8)
        parts.append(single.data)
        offset += len(single.data)
    return b"".join(parts)


def _one_long_program(program: bytes) -> bytes:
    builder = SectionBuilder()
    first = builder.add(cie())
    builder.fde(first, TEXT_START, 0x70000, program)
    return builder.data


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(bytes(MEGABYTE), id="zeros"),
        pytest.param(b"\xff" * MEGABYTE, id="ones"),
        pytest.param(record(b"\0\0\0\0") * (MEGABYTE // 8), id="smallest CIEs"),
        pytest.param(record(b"\4\0\0\0") * (MEGABYTE // 8), id="smallest FDEs"),
        pytest.param(_alternating_cies(), id="alternating CIEs"),
        pytest.param(_one_long_program(b"\x40" * MEGABYTE), id="advances by nothing"),
        pytest.param(_one_long_program(b"\x0a\x0b" * (MEGABYTE // 2)), id="remember and restore"),
        pytest.param(_one_long_program(b"\x0e" + b"\x80" * MEGABYTE), id="one long number"),
        pytest.param(_one_long_program(b"\x0f\x00" * (MEGABYTE // 2)), id="empty expressions"),
    ],
)
def test_work_is_linear(data: bytes, cfi_driver: Path, tmp_path: Path) -> None:
    """Under sanitizers a second is plenty for a megabyte; quadratic work takes minutes."""
    section = Section(data, 0x100000, TEXT_START, TEXT_START + 0x70000)
    run_driver(cfi_driver, "rows", *driver_arguments(section, tmp_path), timeout_s=120)


def test_more_rules_than_the_table_holds(cfi_driver: Path, tmp_path: Path) -> None:
    """What has no room gets no rule, and that is said."""
    program = b"".join(
        b"\x41\x0e" + bytes([i & 0x7F | 0x80, i >> 7 & 0x7F | 0x80, i >> 14])
        for i in range(9, 100_009)
    )
    section = Section(_one_long_program(program), 0x100000, TEXT_START, TEXT_START + 0x70000)
    compiled = compile_section(cfi_driver, section, tmp_path)
    assert (compiled.rules_full, compiled.rule_count) == (1, MAX_RULES)
    assert len(compiled.rows) == MAX_RULES  # all but rule 0, and the end
