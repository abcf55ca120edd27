"""Names of stripped Go programs, on Debian's age."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from flametap.model import FrameKind, Module
from flametap.symbols import elf
from flametap.symbols.elf import ElfError
from flametap.symbols.gotable import find_go_table
from flametap.symbols.resolver import ModuleResolver
from objects import module_of, open_elf, run

pytestmark = pytest.mark.needs("age", "readelf")


@pytest.fixture
def program(require_capability: Callable[[str], str]) -> Path:
    return Path(require_capability("age")).resolve()


def test_functions_have_names_files_and_lines(program: Path) -> None:
    parsed = open_elf(program)
    resolver = ModuleResolver(module_of(program), parsed, None)
    assert resolver.tables == "gopclntab"
    text = parsed.section(".text")
    assert text is not None
    generator = random.Random(1)
    frames = [resolver.resolve(text.addr + generator.randrange(text.size))[0] for _ in range(1000)]
    named = [frame for frame in frames if frame.function.kind is FrameKind.NATIVE]
    assert len(named) > 990  # the C start-up code has no names
    with_lines = [f for f in named if f.line and f.function.file.endswith((".go", ".s"))]
    assert len(with_lines) > 900  # the rest: padding, and code that the compiler generated
    assert any(frame.function.name.startswith("runtime.") for frame in named)


def test_exported_symbols_agree(program: Path) -> None:
    table = find_go_table(open_elf(program))
    assert table is not None
    exported = [line.split() for line in run(["nm", "-D", str(program)]).splitlines()]
    known = {name: int(addr, 16) for addr, *_, name in (f for f in exported if len(f) == 3)}
    for name in ("crosscall2", "_cgo_topofstack"):
        found = table.lookup(known[name] + 1)
        assert found is not None
        assert (found.name, found.start) == (name, known[name])


def test_other_programs_have_no_go_table() -> None:
    assert find_go_table(open_elf(Path("/bin/sh").resolve())) is None


def test_damage_makes_names_wrong_or_missing_but_raises_nothing(program: Path) -> None:
    data = bytearray(program.read_bytes())
    parsed = elf.from_bytes(bytes(data))
    text = parsed.section(".text")
    assert text is not None
    generator = random.Random(5)
    place = data.index(b"\xf0\xff\xff\xff\0\0\x01\x08")
    for _ in range(10):
        damaged = bytearray(data)
        for _ in range(2000):
            damaged[place + 8 + generator.randrange(len(data) - place - 8)] ^= 255
        damaged[place + 8 + generator.randrange(64)] ^= 3
        try:
            resolver = ModuleResolver(
                Module(1, str(program), 0, 0, 1, ""), elf.from_bytes(bytes(damaged)), None
            )
        except ElfError:
            continue
        for _ in range(50):
            resolver.resolve(text.addr + generator.randrange(text.size))
