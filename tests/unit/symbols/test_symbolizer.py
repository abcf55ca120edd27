"""The background worker: quick names first, then lines; nothing makes it raise."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flametap.model import FrameKind, Module, RawFrame
from flametap.recording.names.table import SymbolTable
from flametap.symbols.debuginfo.job import Built
from flametap.symbols.debuginfo.worker_client import Worker
from flametap.symbols.locate.packages import Packages
from flametap.symbols.resolver import ModuleResolver
from flametap.symbols.symbolizer import Symbolizer
from objects import compile_object, module_of, open_elf, split_debug, symbols

pytestmark = pytest.mark.needs("gcc")

SOURCE = """
#include <stdio.h>
#include <unistd.h>
static inline __attribute__((always_inline)) int inner(int x) { volatile int y = x; return y + 1; }
__attribute__((noinline)) int outer(int x) { return inner(x) * 2; }
int main(int argc, char **argv) {
    int value = outer(argc);
    puts("ready");
    fflush(stdout);
    pause();
    return value;
}
"""
WAIT_S = 120

Make = Callable[..., Symbolizer]


@pytest.fixture
def table() -> SymbolTable:
    return SymbolTable()


@pytest.fixture
def make(table: SymbolTable, tmp_path: Path) -> Iterator[Make]:
    """Make symbolizers with a cache folder of their own, and closes them."""
    made = []

    def factory(pid: int | None = None, **options: object) -> Symbolizer:
        made.append(Symbolizer(table, pid, cache_dir=tmp_path / "cache", **options))  # type: ignore[arg-type]
        return made[-1]

    yield factory
    for one in made:
        one.close()


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return compile_object(tmp_path, SOURCE, "-O2", "-g")


def names(table: SymbolTable, address_id: int) -> list[str]:
    return [frame.function.name for frame in table.frames(address_id)]


def inlined_addr(program: Path) -> int:
    """An address in outer() that inner() was inlined at: its first store."""
    return symbols(program)["outer"][0]


def test_addresses_get_inlined_functions_and_lines(
    program: Path, table: SymbolTable, make: Make
) -> None:
    worker = make()
    worker.add_module(module_of(program))
    worker.submit_many([(0, RawFrame(1, inlined_addr(program)))])
    worker.submit_many([(1, RawFrame(1, symbols(program)["main"][0])), (2, RawFrame(0, 0x7F00))])
    assert worker.wait_idle(WAIT_S)
    assert worker.pending == 0
    assert names(table, 0) == ["outer", "inner"]
    assert [f.line > 0 for f in table.frames(0)] == [True, True]
    assert names(table, 1)[0] == "main"
    assert table.frames(2)[0].function.kind is FrameKind.UNKNOWN
    source, jit = worker.sources()
    assert (source.source, source.has_lines, source.note) == ("symcache", True, "")
    assert (jit.module, jit.source) == ("[jit]", "none")


def test_without_inlines_there_is_one_frame(program: Path, table: SymbolTable, make: Make) -> None:
    worker = make(inlines=False)
    worker.add_module(module_of(program))
    worker.submit_many([(0, RawFrame(1, inlined_addr(program)))])
    assert worker.wait_idle(WAIT_S)
    assert names(table, 0) == ["outer"]
    assert table.frames(0)[0].line > 0


def test_second_session_reads_the_cache(
    program: Path, table: SymbolTable, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make()
    first.add_module(module_of(program))
    first.submit_many([(0, RawFrame(1, inlined_addr(program)))])
    assert first.wait_idle(WAIT_S)

    def build(worker: Worker, *rest: object) -> None:
        raise AssertionError("the symcache is built again")

    monkeypatch.setattr(Worker, "build", build)
    second = make()
    second.add_module(module_of(program))
    second.submit_many([(1, RawFrame(1, inlined_addr(program)))])
    assert second.wait_idle(WAIT_S)
    assert names(table, 1) == ["outer", "inner"]
    assert second.sources()[0].source == "symcache"


def test_debug_file_from_a_symbol_dir(
    program: Path, table: SymbolTable, make: Make, tmp_path: Path
) -> None:
    file_addr = inlined_addr(program)
    folder = tmp_path / "debug"
    folder.mkdir()
    split_debug(program, folder / "program.debug")
    for options, expected, source in (
        ({}, [f"program+{file_addr:#x}"], "none"),
        ({"symbol_dirs": (str(folder),)}, ["outer", "inner"], "symcache"),
    ):
        worker = make(**options)
        worker.add_module(module_of(program))
        worker.submit_many([(0, RawFrame(1, file_addr))])
        assert worker.wait_idle(WAIT_S)
        assert names(table, 0) == expected
        (found,) = worker.sources()
        assert found.source == source
        assert ("--symbol-dir" in found.note) == (source == "none")


def test_target_that_exits_before_names_are_asked_for_still_has_them(
    program: Path, table: SymbolTable, make: Make
) -> None:
    module = module_of(program)
    file_addr = inlined_addr(program)
    with subprocess.Popen([str(program)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        worker = make(process.pid)
        worker.add_module(module)
        process.kill()
    program.unlink()
    worker.submit_many([(0, RawFrame(1, file_addr))])
    assert worker.wait_idle(WAIT_S)
    assert names(table, 0) == ["outer", "inner"]


def test_names_come_before_debug_information_is_read(
    program: Path, table: SymbolTable, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = Worker.build
    named_before = []

    def slow_build(reader: Worker, *rest: Any) -> Built:
        deadline = time.monotonic() + WAIT_S
        while names(table, 0) != ["outer"] and time.monotonic() < deadline:
            time.sleep(0.005)
        named_before.append(names(table, 0))
        assert not worker.wait_idle(0)
        return build(reader, *rest)

    monkeypatch.setattr(Worker, "build", slow_build)
    worker = make()
    worker.add_module(module_of(program))
    worker.submit_many([(0, RawFrame(1, inlined_addr(program)))])
    assert worker.wait_idle(WAIT_S)
    assert named_before == [["outer"]]
    assert names(table, 0) == ["outer", "inner"]


def test_small_modules_go_first(
    program: Path, table: SymbolTable, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = "\n".join(f"int f{i}(int x) {{ return x + {i}; }}" for i in range(2000))
    large = compile_object(tmp_path, many, "-shared", "-fPIC", name="large")
    order = []

    def loading(module: Module, *rest: object, **options: object) -> object:
        order.append(module.name)
        return ModuleResolver(module, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("flametap.symbols.table_loader.ModuleResolver", loading)
    worker = make()
    # Asked for before they are announced, the large one first: nothing may start in between.
    with worker.modules._changed:
        worker.submit_many([(0, RawFrame(1, 0x1000)), (1, RawFrame(2, inlined_addr(program)))])
        worker.add_module(module_of(large, 1))
        worker.add_module(module_of(program, 2))
    assert worker.wait_idle(WAIT_S)
    assert order == ["program", "large"]


def test_bad_files_become_notes(program: Path, table: SymbolTable, make: Make) -> None:
    data = bytearray(program.read_bytes())
    parsed = open_elf(program)
    file_addr = symbols(program)["outer"][0]
    generator = random.Random(3)
    modules = []
    for number in range(1, 40):
        damaged = bytearray(data)
        for name in generator.sample([s.name for s in parsed.sections if s.size], 3):
            section = parsed.section(name)
            assert section is not None
            for _ in range(20):
                place = section.offset + generator.randrange(section.size)
                if place < len(damaged) and name != ".note.gnu.build-id":
                    damaged[place] = generator.randrange(256)
        if number % 3 == 0:
            del damaged[generator.randrange(len(damaged)) :]
        path = program.with_name(f"damaged{number}")
        path.write_bytes(damaged)
        modules.append(Module(number, str(path), 0, 0, 4096, parsed.build_id))
    modules.append(Module(40, "/nowhere/at/all", 0, 0, 4096, "abcd"))
    modules.append(Module(41, "/dev/null", 0, 0, 4096, "abcd"))
    modules.append(module_of(program, 42, build_id="0123456789"))
    worker = make()
    for module in modules:
        worker.add_module(module)
        worker.submit_many([(module.module_id, RawFrame(module.module_id, file_addr))])
    assert worker.wait_idle(WAIT_S)
    assert len(worker.sources()) == len(modules)
    notes = {source.module_id: source.note for source in worker.sources()}
    assert "not found" in notes[40]
    assert "regular" in notes[41]
    assert "another one" in notes[42]
    assert names(table, 40) == [f"all+{file_addr:#x}"]


def test_unwritable_cache_is_a_note(program: Path, table: SymbolTable, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    worker = Symbolizer(table, None, cache_dir=tmp_path / "file" / "cache")
    worker.add_module(module_of(program))
    worker.submit_many([(0, RawFrame(1, inlined_addr(program)))])
    assert worker.wait_idle(WAIT_S)
    assert names(table, 0) == ["outer", "inner"]
    assert "not kept" in worker.note
    worker.close()


def test_module_announced_after_its_addresses(
    program: Path, table: SymbolTable, make: Make
) -> None:
    worker = make()
    worker.submit_many([(0, RawFrame(1, inlined_addr(program)))])
    assert worker.pending == 1
    assert worker.wait_idle(0.01)  # nothing can be done about it
    worker.add_module(module_of(program))
    worker.add_module(module_of(program))
    assert worker.wait_idle(WAIT_S)
    assert names(table, 0) == ["outer", "inner"]


def test_close_with_work_left_ends_the_threads(
    program: Path, table: SymbolTable, tmp_path: Path
) -> None:
    worker = Symbolizer(table, None, cache_dir=tmp_path / "cache")
    worker.add_module(module_of(program))
    worker.submit_many((i, RawFrame(1, 0x1000 + i)) for i in range(20000))
    started = time.monotonic()
    worker.close()
    worker.close()
    assert time.monotonic() - started < 10  # it does not hang; no_leaks sees the threads' end
    worker.add_module(module_of(program, 2))


def test_note_names_the_package_and_what_was_not_used(
    program: Path, table: SymbolTable, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file_addr = inlined_addr(program)
    split_debug(program, tmp_path / "program.debug")
    (tmp_path / "program.debug").unlink()
    folder = tmp_path / "debug"
    folder.mkdir()
    other = compile_object(folder, "int main(void) { return 7; }", "-g", name="other")
    other.rename(folder / "program.debug")
    asked = []

    def remedy(packages: Packages, path: str, build_id: str) -> str:
        time.sleep(0.3)  # a list of packages on a slow disk
        asked.append((path, build_id))
        return "install program-dbgsym"

    monkeypatch.setattr(Packages, "remedy", remedy)
    worker = make(symbol_dirs=(str(folder),))
    module = module_of(program)
    worker.add_module(module)
    worker.submit_many([(0, RawFrame(1, file_addr))])
    assert worker.wait_idle(WAIT_S)
    (found,) = worker.sources()
    assert "install program-dbgsym, use --debuginfod" in found.note
    assert f"{folder / 'program.debug'} is of another build" in found.note
    assert asked == [(str(program), module.build_id)]
