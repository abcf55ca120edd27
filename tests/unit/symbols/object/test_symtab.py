"""Symbol lookup: sizes respected, the best of several names, stubs of the PLT."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flametap.symbols.object.plt import PltNames
from flametap.symbols.object.symtab import SymbolIndex
from objects import compile_object, open_elf, run, symbols

pytestmark = pytest.mark.needs("gcc", "readelf")

SOURCE = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) static int hidden(int x) { volatile int y = x; return y * 3; }
__attribute__((noinline)) int __GI___work(int x) { return hidden(x) + 1; }
extern int work(int) __attribute__((alias("__GI___work")));
extern int __work(int) __attribute__((alias("__GI___work")));
__asm__(".text\\n.globl bare\\n.type bare,@function\\nbare: nop\\n nop\\n nop\\n ret\\n"
        ".local .Lplace\\n.Lplace: nop\\n");
__attribute__((noinline)) int exported(char *s) { return (int)strlen(s) + abs(atoi(s)); }
void (*volatile taken)(void *) = free;
int main(int argc, char **argv) {
    char *copy = strdup(argv[0]);
    printf("%d %d\\n", work(argc), exported(copy));
    taken(copy);
    free(0);
    return 0;
}
"""


def build(folder: Path, *flags: str) -> Path:
    return compile_object(folder, SOURCE, "-O1", *flags)


def test_every_byte_of_a_function_has_its_name(tmp_path: Path) -> None:
    program = build(tmp_path)
    index = SymbolIndex([(open_elf(program), ".symtab")])
    for name in ("hidden", "exported", "main"):
        start, size = symbols(program)[name]
        for file_addr in range(start, start + size):
            found = index.lookup(file_addr)
            assert found is not None
            assert found == (name, start)


def test_public_name_is_preferred_over_internal_aliases(tmp_path: Path) -> None:
    program = build(tmp_path)
    start, _ = symbols(program)["__GI___work"]
    found = SymbolIndex([(open_elf(program), ".symtab")]).lookup(start + 2)
    assert found is not None
    assert found.name == "work"


def test_symbol_without_size_ends_at_the_next_symbol_and_at_its_section(tmp_path: Path) -> None:
    program = build(tmp_path)
    index = SymbolIndex([(open_elf(program), ".symtab")])
    listing = run(["nm", str(program)])
    start = int(re.search(r"(\w+) T bare", listing)[1], 16)  # type: ignore[index]
    found = index.lookup(start + 3)
    assert found is not None
    assert found.name == "bare"
    fini = open_elf(program).section(".fini")
    assert fini is not None
    assert index.lookup(fini.addr + fini.size - 1) == ("_fini", fini.addr)
    assert index.lookup(fini.addr + fini.size) is None
    assert index.lookup(1 << 40) is None


def test_dynsym_alone_names_nothing_beyond_sizes(tmp_path: Path) -> None:
    program = build(tmp_path, "-rdynamic")
    full = symbols(program)
    bare = int(re.search(r"(\w+) T bare", run(["nm", str(program)]))[1], 16)  # type: ignore[index]
    run(["strip", str(program)])
    index = SymbolIndex([(open_elf(program), ".dynsym")])
    start, size = full["exported"]
    assert index.lookup(start + size - 1) == ("exported", start)
    assert index.lookup(start + size) is None or start + size in {s for s, _ in full.values()}
    assert index.lookup(full["hidden"][0] + 1) is None
    assert index.lookup(bare + 1) is None


def test_empty_and_missing_tables_name_nothing(tmp_path: Path) -> None:
    program = build(tmp_path)
    run(["strip", str(program)])
    index = SymbolIndex([(open_elf(program), ".symtab")])
    assert len(index) == 0
    assert index.lookup(0x1000) is None


@pytest.mark.parametrize(
    "flags",
    [
        ("-fcf-protection=none", "-Wl,-z,lazy"),
        ("-fcf-protection=full", "-Wl,-z,lazy", "-Wl,-z,ibtplt"),
        ("-fcf-protection=full", "-Wl,-z,now"),
        ("-no-pie", "-fno-pie", "-Wl,-z,lazy"),
    ],
    ids=["lazy", "ibt", "now", "no-pie"],
)
def test_stubs_have_the_names_that_objdump_gives_them(tmp_path: Path, flags: list[str]) -> None:
    program = build(tmp_path, *flags)
    listing = run(["objdump", "-d", "--no-show-raw-insn", str(program)])
    expected = {
        int(address, 16): name
        for address, name in re.findall(r"^(\w+) <([\w*]+)@plt>:", listing, re.MULTILINE)
    }
    assert len(expected) >= 3
    run(["strip", str(program)])
    stripped = open_elf(program)
    plt = PltNames(stripped, SymbolIndex([(stripped, ".dynsym")]))
    assert {address: plt.lookup(address) for address in expected} == expected
    assert {address: plt.lookup(address + 7) for address in expected} == expected
    text = stripped.section(".text")
    assert text is not None
    assert plt.lookup(text.addr) is None


def test_stubs_of_indirect_functions_are_named_after_their_resolver() -> None:
    """libc calls its own memcpy through .plt: an IRELATIVE relocation without a name."""
    path = next(Path("/").glob("lib/*/libc.so.6"))
    libc = open_elf(path)
    plt_section = libc.section(".plt")
    assert plt_section is not None
    plt = PltNames(libc, SymbolIndex([(libc, ".dynsym")]))
    stubs = range(plt_section.addr + 16, plt_section.addr + plt_section.size, 16)
    names = [plt.lookup(stub) for stub in stubs]
    assert None not in names
    assert "memcpy" in names or "strlen" in names
