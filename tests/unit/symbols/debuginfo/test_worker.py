"""The process that reads debug information: whatever a file does to it is a note on the module."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import kernel
from flametap.model import RawFrame
from flametap.recording.names.inline_chains import LinesError
from flametap.recording.names.table import SymbolTable
from flametap.symbols.debuginfo import worker_client
from flametap.symbols.debuginfo.job import DebugJob
from flametap.symbols.debuginfo.symcache_table import SymcacheTable
from flametap.symbols.debuginfo.worker_client import Worker
from flametap.symbols.symbolizer import Symbolizer
from harm import HARM, harmful
from objects import compile_object, module_of, open_elf, symbols

pytestmark = pytest.mark.needs("gcc")

SOURCE = """
static inline __attribute__((always_inline)) int inner(int x) { volatile int y = x; return y + 1; }
__attribute__((noinline)) int outer(int x) { return inner(x) * 2; }
int main(int argc, char **argv) { return outer(argc) + !argv; }
"""
WAIT_S = 120


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return compile_object(tmp_path, SOURCE, "-O2", "-g")


def build(worker: Worker, program: Path) -> bytes:
    with open(program, "rb") as file:
        return worker.build(DebugJob(str(program), 0), [file.fileno()], 1000).payload


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def priorities(process: int) -> set[int]:
    return {os.getpriority(os.PRIO_PROCESS, tid) for tid in kernel.task_ids(process)}


def test_what_somebody_waits_for_has_a_normal_priority(
    program: Path, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where nobody may raise the priority of another process."""
    monkeypatch.setattr(os, "setpriority", _denied)
    harmful(
        monkeypatch,
        "import threading; from flametap.symbols.debuginfo.job import Built;"
        "return Built(threading.current_thread().name.encode())",
    )
    assert build(worker, program) != b"MainThread"
    worker.hurry()
    assert build(worker, program) == b"MainThread"


def _denied(*_: int) -> None:
    raise PermissionError


def test_symcache_comes_back_whole_and_one_process_serves_all(
    program: Path, worker: Worker
) -> None:
    before = kernel.children(os.getpid())
    start, _ = symbols(program)["outer"]
    for _ in range(2):
        table = SymcacheTable(build(worker, program), 0)
        assert [frame.symbol for frame in table.lookup(start)] == ["outer", "inner"]
    (process,) = kernel.children(os.getpid()) - before
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert priorities(process) == {own, min(own + 10, 19)}  # what waits, and what reads
    worker.hurry()
    assert priorities(process) == {own}
    assert Path(f"/proc/{process}/oom_score_adj").read_text() == "1000\n"
    assert os.getsid(process) == process  # Ctrl-C in our terminal is not for it
    worker.rest()
    assert kernel.children(os.getpid()) == before


def test_file_that_was_deleted_is_read_by_its_descriptor(program: Path, worker: Worker) -> None:
    with open(program, "rb") as file:
        program.unlink()
        built = worker.build(DebugJob(str(program), 0), [file.fileno()], 1000)
    assert built.payload[:4] == b"SYMC"
    assert not built.note


@pytest.mark.parametrize(
    ("harm", "note"),
    [
        ("ctypes.string_at(0)", "crashed (SIGSEGV)"),
        ("os.abort()", "too much memory, or crashed"),
        ("os._exit(3)", "has ended"),
        ("raise ValueError('line one\\nline two')", "line one"),
        ("bytearray(1 << 46)", "too much memory"),
    ],
)
def test_death_is_a_note_and_the_next_file_is_read(
    program: Path,
    worker: Worker,
    monkeypatch: pytest.MonkeyPatch,
    harm: str,
    note: str,
) -> None:
    with monkeypatch.context() as patch:
        harmful(patch, harm)
        with pytest.raises(LinesError) as caught:
            build(worker, program)
        assert note in str(caught.value)
        assert "\n" not in str(caught.value)
    worker.rest()
    assert build(worker, program)[:4] == b"SYMC"


def test_endless_work_ends_at_its_limit_of_processor_time(
    program: Path, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_client, "MIN_CPU_S", 1)
    harmful(monkeypatch, "while True: pass")
    with pytest.raises(LinesError, match="not read within 1 s"):
        build(worker, program)


def test_endless_sleep_ends_at_its_deadline(
    program: Path, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_client, "MIN_CPU_S", 1)
    monkeypatch.setattr(worker_client, "WALL_FACTOR", 2)
    harmful(monkeypatch, "time.sleep(1000)")
    before = kernel.children(os.getpid())
    with pytest.raises(LinesError, match="not read within 2 s"):
        build(worker, program)
    assert kernel.children(os.getpid()) == before


def test_memory_has_a_limit(program: Path, worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_client, "_memory_bytes", lambda: 1 << 30)
    harmful(monkeypatch, "keep = [bytearray(1 << 26) for _ in range(1000)]")
    with pytest.raises(LinesError, match="too much memory"):
        build(worker, program)


def test_names_stay_when_lines_cannot_be_had(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harmful(monkeypatch, "ctypes.string_at(0)")
    table = SymbolTable()
    symbolizer = Symbolizer(table, None, cache_dir=tmp_path / "cache")
    symbolizer.add_module(module_of(program))
    symbolizer.submit_many([(0, RawFrame(1, symbols(program)["outer"][0]))])
    assert symbolizer.wait_idle(WAIT_S)
    assert [frame.function.name for frame in table.frames(0)] == ["outer"]
    (source,) = symbolizer.sources()
    assert source.source == "symtab"
    assert "crashed" in source.note
    symbolizer.close()
    assert not list((tmp_path / "cache").glob("*"))


def test_close_breaks_off_what_is_read(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harmful(monkeypatch, "time.sleep(1000)")
    before = kernel.children(os.getpid())
    table = SymbolTable()
    symbolizer = Symbolizer(table, None, cache_dir=tmp_path / "cache")
    symbolizer.add_module(module_of(program))
    symbolizer.submit_many([(0, RawFrame(1, symbols(program)["outer"][0]))])
    wait_until(lambda: kernel.children(os.getpid()) != before)
    symbolizer.close()
    assert kernel.children(os.getpid()) == before
    assert not any(thread.is_alive() for thread in symbolizer.modules._threads)


@pytest.mark.parametrize("library", ["CDLL", "PyDLL"])  # without and with the interpreter's lock
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_worker_goes_with_its_host_in_the_middle_of_a_file(
    program: Path, end: signal.Signals, library: str
) -> None:
    harm = HARM.format(harm=f"ctypes.{library}(None).pause()")
    host = """
import sys
from flametap.linux import helper_process
from flametap.symbols.debuginfo import worker_client
from flametap.symbols.debuginfo.job import DebugJob
harm = sys.argv[2] + "\\n"
call = "importlib.import_module(module).main(*arguments)"
helper_process.BOOT = helper_process.BOOT.replace(call, harm + call)
with open(sys.argv[1], "rb") as file:
    worker_client.Worker().build(DebugJob(sys.argv[1], 0), [file.fileno()], 1000)
"""
    with subprocess.Popen([sys.executable, "-I", "-c", host, str(program), harm]) as process:
        wait_until(lambda: bool(kernel.children(process.pid)))
        (child,) = kernel.children(process.pid)
        wait_until(lambda: 34 in map(_syscall, kernel.task_ids(child)))  # pause
        process.send_signal(end)
        process.wait(WAIT_S)
    wait_until(lambda: not Path(f"/proc/{child}/stat").exists() or _state(child) == "Z")


def test_no_process_to_be_had_is_a_note(
    program: Path, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(LinesError, match="reads debug information cannot be started"):
        build(worker, program)


def test_nothing_is_imported_once_its_rights_are_gone(program: Path) -> None:
    """It can open nothing then: an import fails, and with it a part of the answer."""
    text = """
import sys
from flametap.symbols.debuginfo import worker
from flametap.symbols.debuginfo.job import CALLS, MINI_SYMBOLS, MISSING_PARTS, SYMCACHE, DebugJob
from flametap.symbols.locate.open_file import OpenFile
from flametap.recording.names.inline_chains import LinesError
worker._import_readers()
before = set(sys.modules)
for wants in (SYMCACHE, CALLS, MINI_SYMBOLS, MISSING_PARTS):
    try:
        worker.build_one(DebugJob(sys.argv[1], 0, wants=wants), OpenFile)
    except LinesError:
        assert wants == MINI_SYMBOLS
assert set(sys.modules) == before, set(sys.modules) - before
"""
    subprocess.run([sys.executable, "-I", "-c", text, str(program)], check=True, timeout=60)


def test_host_reads_symcaches_without_native_code(program: Path, tmp_path: Path) -> None:
    """What a hostile file is made into must not reach the library that reads it in the host."""
    text = """
import sys
from pathlib import Path
from flametap.model import Module, RawFrame
from flametap.recording.names.table import SymbolTable
from flametap.symbols.symbolizer import Symbolizer
table = SymbolTable()
one = Symbolizer(table, None, cache_dir=Path(sys.argv[2]))
one.add_module(Module(1, sys.argv[1], 0, 0, 1 << 40, sys.argv[3]))
one.submit_many([(0, RawFrame(1, int(sys.argv[4])))])
assert one.wait_idle(30)
one.close()
assert len(table.frames(0)) == 2, table.frames(0)
assert not [name for name in sys.modules if name.startswith("symbolic")]
"""
    build_id = open_elf(program).build_id
    start, _ = symbols(program)["outer"]
    arguments = [str(program), str(tmp_path / "cache"), build_id, str(start)]
    subprocess.run([sys.executable, "-I", "-c", text, *arguments], check=True, timeout=60)


def _syscall(tid: int) -> int:
    """The system call that a thread waits in; -1 if it runs."""
    try:
        first = Path(f"/proc/{tid}/syscall").read_text().split()[0]
    except OSError:  # it has ended
        return -1
    return int(first) if first.isdigit() else -1


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"
