"""Machine code as text, with names for what it refers to; against objdump where it is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flametap.symbols.object.disassembly import UnknownMachine, disassemble
from flametap.symbols.resolver import ModuleResolver
from objects import compile_object, module_of, open_elf, run, symbols

EM_X86_64, EM_AARCH64 = 62, 183

SOURCE = """
#include <stdio.h>
#include <stdlib.h>
static volatile int bad;
__attribute__((noinline)) static int twice(int x) { return x + x; }
__attribute__((cold, noinline)) void fail(int x) { fprintf(stderr, "%d", x); }
__attribute__((noinline)) int work(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) {
        if (bad) { fail(sum); fail(i); abort(); }
        sum += twice(i);
    }
    return sum;
}
int main(int argc, char **argv) { (void)argv; puts("ready"); return work(argc); }
"""


def texts(code: str, machine: int, addr: int = 0x1000) -> list[tuple[str, str]]:
    found = disassemble(
        bytes.fromhex(code), addr, machine, lambda places: [f"{place:x}" for place in places]
    )
    return [(each.text, each.target) for each in found]


def test_calls_jumps_and_relative_operands_are_named() -> None:
    code = "e8fbffffff 488b0501000000 ff2510000000 7402 488d3df9ffffff ffd0 c3"
    assert texts(code, EM_X86_64) == [
        ("callq 0x1000", "1000"),
        ("movq 1(%rip), %rax", "100d"),
        ("jmpq *0x10(%rip)", "1022"),
        ("je 0x1016", "1016"),
        ("leaq -7(%rip), %rdi", "1014"),
        ("callq *%rax", ""),
        ("retq", ""),
    ]
    assert texts("48c7c0ffffffff", EM_X86_64) == [("movq $-1, %rax", "")]


def test_arm64() -> None:
    assert texts("00000094 1f2003d5 81000054", EM_AARCH64) == [
        ("bl #0x1000", "1000"),
        ("nop", ""),
        ("b.ne #0x1018", "1018"),
    ]


def test_bytes_that_are_no_instruction_are_passed_over() -> None:
    found = disassemble(bytes.fromhex("06 0606 c3 e8"), 0x10, EM_X86_64)
    assert b"".join(each.data for each in found) == bytes.fromhex("06 0606 c3 e8")
    assert found[-2].text == "retq"
    assert disassemble(b"", 0x10, EM_X86_64) == []
    for noise in range(256):
        data = bytes((noise * 7 + at * 13) % 256 for at in range(64))
        assert b"".join(each.data for each in disassemble(data, 0, EM_X86_64)) == data


def test_another_processor_is_refused() -> None:
    with pytest.raises(UnknownMachine, match="243"):
        disassemble(b"\0\0\0\0", 0, 243)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_object(tmp_path_factory.mktemp("code"), SOURCE, "-O2", "-g")


@pytest.fixture
def resolver(program: Path) -> ModuleResolver:
    return ModuleResolver(module_of(program), open_elf(program), None)


@pytest.mark.needs("gcc")
def test_a_function_has_all_its_pieces(program: Path, resolver: ModuleResolver) -> None:
    pieces = {
        name: span for name, span in symbols(program).items() if name.partition(".")[0] == "work"
    }
    assert set(pieces) == {"work", "work.cold"}
    spans = sorted((start, start + size) for start, size in pieces.values())
    for start, _ in pieces.values():
        assert resolver.spans([start]) == spans
    assert resolver.spans([]) == []
    assert resolver.spans([1 << 50]) == []


@pytest.mark.needs("gcc")
def test_same_addresses_and_targets_as_objdump(program: Path, resolver: ModuleResolver) -> None:
    elf = open_elf(program)
    expected = {}
    for line in run(["objdump", "-d", "--no-show-raw-insn", str(program)]).splitlines():
        match = re.match(r" +([0-9a-f]+):\t(\S+)[^<#]*(?:# \w+ )?(?:<([^>]+)>)?", line)
        if match:
            expected[int(match[1], 16)] = (match[2], match[3] or "")
    seen = variables = 0
    for start, end in resolver.spans(start for start, _ in symbols(program).values()):
        code = elf.at_addr(start, end - start)
        for each in disassemble(code, start, elf.machine, resolver.target_names):
            mnemonic, target = expected[each.addr]
            if target == "bad":
                assert each.target == "bad", each
                variables += 1
            if mnemonic.startswith(("call", "j")) and target:
                # Its pieces are one function to us: work.cold is work.
                assert re.split(r"[+@]", each.target)[0] == re.split(r"[+.@]", target)[0], each
                seen += 1
    assert seen >= 5
    assert variables


@pytest.mark.needs("gcc")
def test_addresses_that_no_file_has_are_nameless(resolver: ModuleResolver) -> None:
    # The vDSO reads data that lie below its first byte.
    assert resolver.target_names([-0x6000, -1, 0, 1 << 63, (1 << 64) + 5]) == [""] * 5


@pytest.mark.needs("gcc")
def test_a_private_function_of_the_same_name_is_another(tmp_path: Path) -> None:
    one = "__attribute__((noinline)) static int same(int x) { return x * 3; }\n"
    (tmp_path / "other.c").write_text(f"{one}int other(int x) {{ return same(x) - 1; }}\n")
    main = (
        f"{one}int other(int);\nint main(int c, char **v) {{ return same(c) + other(c) + !v; }}\n"
    )
    path = compile_object(tmp_path, main, "-O1", "-g", str(tmp_path / "other.c"))
    elf = open_elf(path)
    resolver = ModuleResolver(module_of(path), elf, None)
    starts = [
        int(line.split()[0], 16)
        for line in run(["nm", str(path)]).splitlines()
        if line.endswith(" same")
    ]
    assert len(starts) == 2
    from flametap.symbols.debuginfo import symcache
    from flametap.symbols.debuginfo.job import DebugJob
    from flametap.symbols.debuginfo.reader import open_symcache

    built = symcache.build_symcache(DebugJob(str(path), elf.base_addr))
    resolver.lines = open_symcache(built.payload, elf.base_addr)
    for start in starts:
        assert [span[0] for span in resolver.spans([start])] == [start]
