"""Names, lines and inlined functions of Go programs: small tables of each format, Debian's age, and
a program of our own against llvm-symbolizer.
"""

from __future__ import annotations

import json
import random
import re
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import gotables
from flametap.model import FrameKind, Module
from flametap.symbols.names.limits import ModuleNames
from flametap.symbols.object import elf
from flametap.symbols.object.elf import ElfError, from_bytes
from flametap.symbols.object.go_find import find_go_table
from flametap.symbols.object.go_names import go_names, short_go_name
from flametap.symbols.object.go_pclntab import MAGIC_1_20, GoTable
from flametap.symbols.object.loaded_image import LoadedImage
from flametap.symbols.resolver import ModuleResolver
from objects import module_of, open_elf, run

PROGRAM = """
package main

import "C"
import ("fmt"; "os"; "sort"; "strings")

type number interface{ ~int | ~float64 }

func add[T number](a, b T) T { return a + b }

//go:noinline
func Sum[T number](values []T) T {
	var total T
	for _, value := range values { total = add(total, value) }
	return total
}

type Box[K comparable, V any] struct{ items map[K]V }

func (b *Box[K, V]) Put(key K, value V) {
	if b.items == nil { b.items = map[K]V{} }
	b.items[key] = value
}

func outer(s string) string { return inner(s) + "!" }
func inner(s string) string { return strings.ToUpper(s) }

func main() {
	ints := []int{3, 1, len(os.Args)}
	sort.Slice(ints, func(i, j int) bool { return ints[i] < ints[j] })
	b := &Box[string, int]{}
	b.Put(outer(os.Args[0]), Sum(ints))
	fmt.Println(b, Sum([]float64{1, 2}))
}
"""


def table_of(data: bytes) -> GoTable | None:
    return find_go_table(elf.from_bytes(data))


def chain_at(table: GoTable, file_addr: int) -> list[tuple[str, str, int]]:
    found = table.lookup(file_addr)
    return [] if found is None else [(name, file, line) for name, file, line in found.chain]


@pytest.mark.parametrize("relocated", [False, True])
@pytest.mark.parametrize("version", [v for v in gotables.VERSIONS if v != "1.11"])
def test_each_format_tells_functions_lines_and_inlined_calls(version: str, relocated: bool) -> None:
    table = table_of(gotables.program(version, relocated=relocated))
    assert table is not None
    assert table.has_inlines
    for number in range(gotables.FUNCTIONS):
        for offset in range(gotables.SIZE):
            addr = gotables.TEXT + number * gotables.SIZE + offset
            assert chain_at(table, addr) == gotables.expected(offset, number)
    assert table.lookup(gotables.TEXT - 1) is None
    assert table.lookup(gotables.TEXT + gotables.FUNCTIONS * gotables.SIZE) is None


def test_before_go_1_12_inlined_functions_are_not_told() -> None:
    table = table_of(gotables.program("1.11"))
    assert table is not None
    assert not table.has_inlines
    assert chain_at(table, gotables.TEXT) == gotables.expected(0, 0)
    names = go_names(elf.from_bytes(gotables.program("1.11")), ModuleNames("app"), inlines=True)
    assert names is not None
    assert names.lacks_inlines
    # The line is one of another file's, in which the inlined function stands.
    (frame,) = names.frames(gotables.TEXT + 40, None)
    _, file, line = gotables.expected(40, 0)[-1]
    assert (frame.function.name, frame.function.file) == ("app.F0", "/src/app.go")
    assert (frame.file, frame.line) == (file, line)
    assert file != "/src/app.go"


@pytest.mark.parametrize("version", ["1.18", "1.20"])
@pytest.mark.parametrize("error", [-16, 16, 4, 0x1000])
def test_a_wrong_base_of_the_trees_gives_no_inlined_function(version: str, error: int) -> None:
    table = table_of(gotables.program(version, tree_base_error=error))
    assert table is not None
    assert not table.has_inlines
    assert len(chain_at(table, gotables.TEXT + 40)) == 1


@pytest.mark.parametrize("version", gotables.VERSIONS)
def test_damaged_tables_raise_nothing(version: str) -> None:
    data = gotables.program(version)
    generator = random.Random(version)
    start = data.index(struct.pack("<H", 0xFFFF) + b"\xff\0\0\1\x08") - 1
    for _ in range(150):
        damaged = bytearray(data)
        for _ in range(generator.randrange(1, 8)):
            damaged[generator.randrange(start + 8, len(data) - 48)] = generator.randrange(256)
        table = table_of(bytes(damaged))
        for _ in range(20):
            if table is not None:
                chain_at(table, gotables.TEXT + generator.randrange(gotables.FUNCTIONS * 64))
    for end in range(start, len(data), 97):
        table_of(data[:end].ljust(len(data), b"\0"))


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("main.main", "main.main"),
        ("runtime/pprof.(*profileBuilder).pbMapping", "pprof.(*profileBuilder).pbMapping"),
        ("github.com/x/app/v2.(*Server).Run.func1.2", "app.(*Server).Run.func1.2"),
        ("github.com/x/app/v2/store.(*DB).Get-fm", "store.(*DB).Get-fm"),
        ("gopkg.in/yaml%2ev3.Unmarshal", "yaml.v3.Unmarshal"),
        ("example.com/a.Map[go.shape.int,example.com/b.T[int]].func1", "a.Map[...].func1"),
        ("example.com/a.(*Box[...]).Put", "a.(*Box[...]).Put"),
        ("type:.eq.struct { F uintptr; p *a/b.T }", "type:.eq.struct { F uintptr; p *a/b.T }"),
        ("crosscall2", "crosscall2"),
    ],
)
def test_short_names(name: str, short: str) -> None:
    assert short_go_name(name) == short


@pytest.fixture
def age(require_capability: Callable[[str], str]) -> Path:
    return Path(require_capability("age")).resolve()


@pytest.mark.needs("age")
def test_functions_of_a_stripped_program(age: Path) -> None:
    parsed = open_elf(age)
    resolver = ModuleResolver(module_of(age), parsed, None)
    assert resolver.tables == "gopclntab"
    assert not resolver.lacks_inlines
    text = parsed.section(".text")
    assert text is not None
    generator = random.Random(1)
    chains = [resolver.resolve(text.addr + generator.randrange(text.size)) for _ in range(1000)]
    outer = [chain[0] for chain in chains]
    named = [frame for frame in outer if frame.function.kind is FrameKind.NATIVE]
    assert len(named) > 950  # the C start-up code has no names, padding belongs to nothing
    with_lines = [f for f in named if f.line and f.function.file.endswith((".go", ".s"))]
    assert len(with_lines) > 900  # the rest: code that the compiler generated
    inlined = [frame for chain in chains for frame in chain[1:]]
    assert len(inlined) > 100
    assert {frame.function.kind for frame in inlined} == {FrameKind.INLINED}
    assert any(frame.function.name.startswith("runtime.") for frame in named)


@pytest.mark.needs("age", "readelf")
def test_exported_symbols_agree(age: Path) -> None:
    table = find_go_table(open_elf(age))
    assert table is not None
    exported = [line.split() for line in run(["nm", "-D", str(age)]).splitlines()]
    known = {name: int(addr, 16) for addr, *_, name in (f for f in exported if len(f) == 3)}
    for name in ("crosscall2", "_cgo_topofstack"):
        found = table.lookup(known[name] + 1)
        assert found is not None
        assert (found.chain[0].name, found.start) == (name, known[name])


def test_other_programs_have_no_go_table() -> None:
    assert find_go_table(open_elf(Path("/bin/sh").resolve())) is None


@pytest.mark.needs("age")
def test_damage_makes_names_wrong_or_missing_but_raises_nothing(age: Path) -> None:
    data = bytearray(age.read_bytes())
    text = elf.from_bytes(bytes(data)).section(".text")
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
                Module(1, str(age), 0, 0, 1, ""), elf.from_bytes(bytes(damaged)), None
            )
        except ElfError:
            continue
        for _ in range(50):
            resolver.resolve(text.addr + generator.randrange(text.size))


@pytest.fixture(scope="module")
def built(
    tmp_path_factory: pytest.TempPathFactory, require_capability: Callable[[str], str]
) -> Path:
    """A program with all that Go adds to find its way in it."""
    folder = tmp_path_factory.mktemp("go")
    (folder / "main.go").write_text(PROGRAM)
    (folder / "go.mod").write_text("module example.org/app/v2\n\ngo 1.18\n")
    offline = ["env", "GOPROXY=off", "GOTOOLCHAIN=local", "CGO_ENABLED=1"]
    go = [*offline, require_capability("go"), "build", "-o", "app", "."]
    run(["sh", "-c", 'cd "$0" && exec "$@"', str(folder), *go])
    return folder / "app"


def _without_debugger_marks(name: str, file: str) -> tuple[str, str]:
    """DWARF spells out type arguments, and marks assembly's calling convention."""
    name = re.sub(r"\.abi(0|internal)$", "", name)
    prefix, bracket, _ = name.partition("[")
    rest = name[name.rindex("]") + 1 :] if bracket else ""
    return prefix + ("[...]" + rest if bracket else ""), file.removeprefix("./")


@pytest.mark.needs("go", "llvm-symbolizer")
def test_chains_are_those_of_the_debug_information(
    built: Path, require_capability: Callable[[str], str]
) -> None:
    table = find_go_table(open_elf(built))
    assert table is not None
    generator = random.Random(3)
    addrs = sorted(generator.sample(range(table.first, table.end), 2000))
    tool = [require_capability("llvm-symbolizer"), "--output-style=JSON", "--inlines"]
    text = run([*tool, "--no-demangle", "-e", str(built)], "\n".join(map(hex, addrs)))
    compared = equal = inlined = 0
    for addr, answer in zip(addrs, map(json.loads, text.split("\n")), strict=False):
        theirs = [(f["FunctionName"], f["FileName"], f["Line"]) for f in answer["Symbol"]]
        if not theirs or not theirs[0][0]:
            continue  # between functions
        expected = [(*_without_debugger_marks(n, f), line) for n, f, line in reversed(theirs)]
        compared += 1
        found = [(*_without_debugger_marks(n, f), line) for n, f, line in chain_at(table, addr)]
        equal += found == expected
        inlined += len(found) > 1
    assert compared > 1500
    assert inlined > 200
    assert equal >= 0.995 * compared


@pytest.mark.needs("go", "readelf")
def test_nothing_is_lost_without_symbols_or_section_headers(built: Path, tmp_path: Path) -> None:
    full = find_go_table(open_elf(built))
    stripped = tmp_path / "stripped"
    run(["strip", "-s", "-o", str(stripped), str(built)])
    bare = bytearray(stripped.read_bytes())
    bare[40:48] = bytes(8)  # e_shoff
    bare[60:64] = bytes(4)  # e_shnum, e_shstrndx
    assert full is not None
    for parsed in (open_elf(stripped), elf.from_bytes(bytes(bare))):
        assert not parsed.has_symtab
        table = find_go_table(parsed)
        assert table is not None
        for addr in range(full.first, full.end, 997):
            assert chain_at(table, addr) == chain_at(full, addr)


@pytest.mark.needs("go")
def test_type_arguments_and_closures_have_a_short_and_a_full_name(
    built: Path,
) -> None:
    parsed = open_elf(built)
    resolver = ModuleResolver(module_of(built), parsed, None)
    table = find_go_table(parsed)
    assert table is not None
    own = [index for index in range(len(table)) if table.name(index).startswith("main.")]
    functions = [resolver.resolve(table._starts[index])[0].function for index in own]
    of_main = {f.full_name or f.name: f.name for f in functions}
    assert of_main["main.Sum[go.shape.int_0]"] == "main.Sum[...]"
    assert of_main["main.Sum[go.shape.float64_0]"] == "main.Sum[...]"
    assert of_main["main.main.func1"] == "main.main.func1"


def test_start_of_code_beyond_all_addresses_is_damage() -> None:
    """Found by ``make fuzz-host``: it was an OverflowError, which nobody expects."""
    image = LoadedImage(from_bytes(gotables.program("1.20")))
    addr = next(image.find(struct.pack("<IHBB", MAGIC_1_20, 0, 1, 8)))
    assert len(GoTable(image, addr, gotables.TEXT)) == gotables.FUNCTIONS
    with pytest.raises(IndexError, match="no address"):
        GoTable(image, addr, (1 << 64) - 1)
