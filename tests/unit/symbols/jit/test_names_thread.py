"""Names for code outside any file: when they are given, where they are looked for, what is said."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fakeproc import FakeProc
from flametap.linux import procfs
from flametap.model import FrameKind, Module, RawFrame, SymbolSource
from flametap.recording.names.table import JIT_MODULE, SymbolTable
from flametap.symbols.jit import names_thread
from flametap.symbols.jit.names_thread import JitNames
from flametap.symbols.symbolizer import Symbolizer
from jitdumps import debug_info, header, load
from running import wait_until

PID = 4242
OWN_PID = 7
BASE = 0x7F0000001000
WAIT_S = 120

Make = Callable[..., JitNames]


@pytest.fixture
def table() -> SymbolTable:
    return SymbolTable()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The target's root folder."""
    (tmp_path / "root/tmp").mkdir(parents=True)
    return tmp_path / "root"


@pytest.fixture
def perf_map(root: Path) -> Path:
    """The target's perf map, not written yet."""
    return root / f"tmp/perf-{OWN_PID}.map"


@pytest.fixture
def make(
    table: SymbolTable, tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Make]:
    """Make what is under test, for a process in a pid namespace and with a root of its own."""
    monkeypatch.setattr(names_thread, "RETRY_S", 0.02)
    monkeypatch.setattr(procfs, "read_start_s", lambda pid, proc: time.time())
    fake = FakeProc(tmp_path / "proc")
    folder = fake.process(PID, uid=os.getuid(), NSpid=f"{PID}\t99\t{OWN_PID}")
    (folder / "root").unlink()
    (folder / "root").symlink_to(root)
    made = []

    def factory(**options: bool) -> JitNames:
        made.append(JitNames(table, PID, proc=fake.proc, **options))
        return made[-1]

    yield factory
    for one in made:
        one.close()


def module(path: str, *, module_id: int = 3, start: int = 0x1000, build_id: str = "") -> Module:
    return Module(module_id, path, start, start, start + 0x1000, build_id)


def names(table: SymbolTable, address_id: int) -> list[str]:
    return [frame.function.name for frame in table.frames(address_id)]


def source(worker: JitNames) -> SymbolSource:
    (found,) = worker.sources()
    return found


def test_names_come_from_the_map_under_the_targets_own_pid(
    table: SymbolTable, make: Make, perf_map: Path
) -> None:
    perf_map.write_text(f"{BASE:x} 40 JS:*fib /srv/app.js:6:13\n")
    worker = make()
    assert worker.sources() == []
    worker.submit([(0, BASE + 4), (1, BASE + 8), (2, BASE + 0x40)])
    assert worker.wait_idle(WAIT_S)
    assert worker.pending == 0
    assert [names(table, i) for i in range(3)] == [["fib"], ["fib"], [JIT_MODULE]]
    assert table.frames(0)[0].line == 6
    assert table.frames(2)[0].function.kind is FrameKind.UNKNOWN
    assert (source(worker).module, source(worker).source) == (JIT_MODULE, "perf map")
    assert source(worker).note == "1 of 3 addresses have no name"


def test_all_code_without_a_name_is_one_function(table: SymbolTable, make: Make) -> None:
    make().submit((i, BASE + 4096 * i) for i in range(10))
    wait_until(lambda: all(table.named(i) for i in range(10)), "stand-ins", WAIT_S)
    assert len({frame.function for i in range(10) for frame in table.frames(i)}) == 1


def test_map_written_later_gives_names_to_what_had_none(
    table: SymbolTable, make: Make, perf_map: Path
) -> None:
    """As ``jcmd PID Compiler.perfmap`` does, while nobody asks for anything."""
    worker = make()
    worker.submit([(0, BASE), (1, BASE + 0x100)])
    assert worker.wait_idle(WAIT_S)
    revision = table.revision
    perf_map.write_text(f"{BASE:x} 40 int Busy.fib(int)\n")
    wait_until(lambda: names(table, 0) == ["Busy.fib"], "the name", WAIT_S)
    assert table.revision > revision
    with perf_map.open("a") as file:
        file.write(f"{BASE + 0x100:x} 40 void Busy.run()\n")
    wait_until(lambda: names(table, 1) == ["Busy.run"], "the second name", WAIT_S)
    assert source(worker).note == ""


def test_last_look_has_ended_when_all_that_is_written_was_looked_at(
    table: SymbolTable, make: Make, perf_map: Path
) -> None:
    worker = make()
    worker.submit([(0, BASE)])
    wait_until(lambda: worker.is_idle, "the first look", WAIT_S)
    perf_map.write_text(f"{BASE:x} 40 int Busy.fib(int)\n")
    worker.look_again()
    wait_until(lambda: worker.is_idle, "the last look", WAIT_S)
    assert names(table, 0) == ["Busy.fib"]


def test_address_keeps_the_name_it_had_when_it_was_seen(
    table: SymbolTable, make: Make, perf_map: Path
) -> None:
    perf_map.write_text(f"{BASE:x} 40 first\n")
    worker = make()
    worker.submit([(0, BASE), (1, BASE + 0x1000)])
    assert worker.wait_idle(WAIT_S)
    with perf_map.open("a") as file:
        file.write(f"{BASE:x} 40 second\n{BASE + 0x1000:x} 8 late\n")
    worker.submit([(2, BASE + 1)])
    assert worker.wait_idle(WAIT_S)
    assert [names(table, i) for i in range(3)] == [["first"], ["late"], ["second"]]


def test_names_of_a_map_written_anew_are_the_new_ones(
    table: SymbolTable, make: Make, perf_map: Path
) -> None:
    perf_map.write_text(f"{BASE:x} 40 one\n")
    worker = make()
    worker.submit([(0, BASE)])
    assert worker.wait_idle(WAIT_S)
    perf_map.write_text(f"{BASE + 4096:x} 40 two\n")
    # Both are of one length, and a file system's clock may be coarse: on kernels before 6.13 both
    # are often written in the same tick.
    os.utime(perf_map, ns=(0, time.time_ns() + 10**9))
    worker.submit([(1, BASE + 4096)])
    assert worker.wait_idle(WAIT_S)
    assert [names(table, 0), names(table, 1)] == [["one"], ["two"]]


def test_jitdump_knows_time_and_line(table: SymbolTable, make: Make, root: Path) -> None:
    (root / "jit-7.dump").write_bytes(
        header()
        + debug_info(BASE, [(BASE, 3, "/a.js"), (BASE + 8, 4, ""), (BASE + 16, 9, "/b.js")])
        + load(BASE, 64, "f", at_ns=100)
        + load(BASE, 64, "JS:^g /c.js:5:1", at_ns=200)
    )
    worker = make()
    worker.see_module(module("/jit-7.dump"))
    worker.submit([(0, BASE), (1, BASE + 8), (2, BASE + 16)], seen_ns=150)
    worker.submit([(3, BASE + 9)], seen_ns=250)
    worker.submit([(4, BASE + 10)], seen_ns=50)
    assert worker.wait_idle(WAIT_S)
    found = [(f.function.name, f.function.file, f.line) for i in range(5) for f in table.frames(i)]
    assert found == [
        *(("f", "/a.js", 3), ("f", "/a.js", 4), ("f", "/a.js", 0)),
        *(("g", "/c.js", 5), (JIT_MODULE, "", 0)),
    ]
    assert (source(worker).source, source(worker).has_lines) == ("jitdump", True)


def test_map_fills_in_what_the_jitdump_lacks(
    table: SymbolTable, make: Make, root: Path, perf_map: Path
) -> None:
    (root / "jit-7.dump").write_bytes(header() + load(BASE, 64, "f"))
    perf_map.write_text(f"{BASE:x} 1000 whole\n")
    worker = make()
    worker.see_module(module("/jit-7.dump"))
    worker.submit([(0, BASE), (1, BASE + 64)])
    assert worker.wait_idle(WAIT_S)
    assert [names(table, 0), names(table, 1)] == [["f"], ["whole"]]
    assert source(worker).source == "jitdump, perf map"


def test_inlined_methods_are_frames_or_not(table: SymbolTable, make: Make, perf_map: Path) -> None:
    perf_map.write_text(f"{BASE:x} 40 La/B;::outer->La/C;::inner\n")
    make().submit([(0, BASE)])
    make(inlines=False).submit([(1, BASE)])
    wait_until(lambda: table.named(0) and table.named(1), "names", WAIT_S)
    assert [names(table, 0), names(table, 1)] == [["a.B.outer", "a.C.inner"], ["a.B.outer"]]


def test_what_is_wrong_with_a_map_is_said_once(make: Make, perf_map: Path) -> None:
    perf_map.write_text(f"garbage\n{BASE:x} 40 f\nmore\n")
    worker = make()
    worker.submit([(0, BASE)])
    assert worker.wait_idle(WAIT_S)
    worker.submit([(1, BASE + 1)])
    assert worker.wait_idle(WAIT_S)
    assert source(worker).note == f"2 lines of /tmp/perf-{OWN_PID}.map are invalid"


def test_map_that_is_not_used_is_said(make: Make, perf_map: Path) -> None:
    os.mkfifo(perf_map)
    worker = make()
    worker.submit([(0, BASE)])
    assert worker.wait_idle(WAIT_S)
    note = source(worker).note
    assert f"/tmp/perf-{OWN_PID}.map is not used: it is not a regular file" in note
    assert source(worker).source == "none"


def test_link_in_place_of_a_map_is_not_followed(make: Make, root: Path, perf_map: Path) -> None:
    (root / "other").write_text(f"{BASE:x} 40 f\n")
    perf_map.symlink_to("../other")
    worker = make()
    worker.submit([(0, BASE)])
    assert worker.wait_idle(WAIT_S)
    assert "is not used: it is a symbolic link" in source(worker).note


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize(("owner", "is_used"), [(0, True), (1000, True), (1001, False)])
def test_map_must_be_the_targets_or_roots(
    make: Make, perf_map: Path, tmp_path: Path, owner: int, is_used: bool
) -> None:
    status = tmp_path / f"proc/{PID}/status"
    status.write_text(status.read_text().replace("Uid:\t0\t0", "Uid:\t1000\t1000"))
    perf_map.write_text(f"{BASE:x} 40 f\n")
    os.chown(perf_map, owner, -1)
    worker = make()
    worker.submit([(0, BASE)])
    assert worker.wait_idle(WAIT_S)
    assert (source(worker).source == "perf map") == is_used
    assert ("belongs to user 1001" in source(worker).note) != is_used


def test_absolute_link_leads_into_the_targets_root(
    table: SymbolTable, make: Make, root: Path
) -> None:
    (root / "tmp").rmdir()
    (root / "var").mkdir()
    (root / "tmp").symlink_to("/var")
    (root / f"var/perf-{OWN_PID}.map").write_text(f"{BASE:x} 40 f\n")
    worker = make()
    worker.submit([(0, BASE)])
    assert worker.wait_idle(WAIT_S)
    assert names(table, 0) == ["f"]


def test_map_is_read_after_the_target_has_gone(
    table: SymbolTable, make: Make, perf_map: Path, tmp_path: Path
) -> None:
    worker = make()
    (tmp_path / f"proc/{PID}").rename(tmp_path / "gone")
    perf_map.write_text(f"{BASE:x} 40 f\n")
    worker.submit([(0, BASE)])
    assert worker.wait_idle(WAIT_S)
    assert names(table, 0) == ["f"]


@pytest.mark.parametrize(
    ("modules", "remedy"),
    [
        (["/usr/bin/java", "/usr/lib/jvm/lib/server/libjvm.so"], f"jcmd {PID} Compiler.perfmap"),
        (["/usr/bin/node", "/lib/libc.so.6"], "node with --perf-basic-prof"),
        (["/usr/share/dotnet/libcoreclr.so"], "DOTNET_PerfMapEnabled=1"),
        (["/memfd:doublemapper"], "--enable-perf-map"),
        (["/usr/lib/libpython3.13.so.1.0", "/usr/lib/libjvm.so"], "jcmd"),
        (["/usr/lib/postgresql/15/lib/llvmjit.so"], "jit_profiling_support"),
    ],
)
def test_remedy_of_the_runtime_is_said(make: Make, modules: list[str], remedy: str) -> None:
    worker = make()
    for path in modules:
        worker.see_module(module(path))
    worker.submit([(0, BASE)])
    assert worker.wait_idle(WAIT_S)
    assert source(worker).note.startswith("1 of 1 addresses have no name; ")
    assert remedy in source(worker).note


@pytest.mark.parametrize("path", ["/usr/lib/libpython3.13.so.1.0", "/usr/bin/redis-server"])
def test_where_nothing_helps_no_remedy_is_said(make: Make, path: str) -> None:
    worker = make()
    worker.see_module(module(path))
    worker.submit([(0, BASE)])
    assert worker.wait_idle(WAIT_S)
    assert source(worker).note == "1 of 1 addresses have no name"


def test_precompiled_dotnet_library_has_a_remedy(table: SymbolTable, tmp_path: Path) -> None:
    library = tmp_path / "System.Private.CoreLib.dll"
    library.write_bytes(b"MZ" + bytes(100))
    worker = Symbolizer(table, None, cache_dir=tmp_path)
    worker.add_module(module(str(library)))
    worker.submit_many([(0, RawFrame(3, 0x1000))])
    assert worker.wait_idle(WAIT_S)
    (found,) = worker.sources()
    assert "DOTNET_ReadyToRun=0" in found.note
    worker.close()


def test_recording_of_elsewhere_has_stand_ins(table: SymbolTable) -> None:
    worker = JitNames(table, None)
    worker.see_module(module("/tmp/jit-1.dump"))
    worker.submit([(0, BASE)])
    assert worker.wait_idle(WAIT_S)
    assert names(table, 0) == [JIT_MODULE]
    worker.close()


def test_closing_in_the_middle_of_a_map(make: Make, perf_map: Path) -> None:
    perf_map.write_text(f"{BASE:x} 40 JS:*f /a.js:1:1\n" * 300_000)
    worker = make()
    worker.submit([(0, BASE)])
    started = time.monotonic()
    worker.close()
    assert time.monotonic() - started < WAIT_S
    assert worker.wait_idle(WAIT_S)


def test_code_in_memory_mapped_twice_has_its_name(table: SymbolTable, tmp_path: Path) -> None:
    """.NET writes its code through one mapping of a memfd and runs it through another: to the agent
    that is a file with its own addresses."""
    perf_map = Path(f"/tmp/perf-{os.getpid()}.map")
    assert not perf_map.exists()
    worker = Symbolizer(table, os.getpid(), cache_dir=tmp_path)
    try:
        perf_map.write_text(f"{BASE:x} 40 void [app] Program::Main()[Optimized]\n")
        generated = Module(5, "/memfd:doublemapper", BASE - 0x3000, BASE, BASE + 0x1000, "")
        worker.add_module(generated)
        worker.submit_many([(0, RawFrame(5, 0x3004)), (1, RawFrame(0, BASE))])
        assert worker.wait_idle(WAIT_S)
        assert worker.pending == 0
        assert [names(table, 0), names(table, 1)] == [["Program.Main"]] * 2
        assert {s.module: s.source for s in worker.sources()}[JIT_MODULE] == "perf map"
    finally:
        worker.close()
        perf_map.unlink()
