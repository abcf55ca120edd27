"""`flametap symbols`: where names come from, in a table and for programs; names of addresses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import appleshapes
import cli
from flametap.cli.commands.addresses import parse_address
from flametap.cli.main import run
from flametap.errors import UsageError
from objects import compile_object, open_elf, split_debug, symbols
from running import wait_until

SOURCE = """
#include <stdio.h>
#include <unistd.h>
static volatile int sink;
static inline __attribute__((always_inline)) int inner(int x) { sink = x; return x + sink; }
__attribute__((noinline)) int outer(int x) {
  return inner(x) * 2;
}
int main(void) { puts("ready"); fflush(stdout); return outer(pause()); }
"""
OUTER_LINE = 7


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def shapes(tmp_path: Path) -> Path:
    return appleshapes.unpack(tmp_path / "mac")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return compile_object(tmp_path, SOURCE, "-g", "-O1")


@pytest.fixture
def running(program: Path) -> Iterator[int]:
    process = subprocess.Popen([str(program)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process.pid
    process.kill()
    process.wait()
    process.stdout.close()


def out_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    code = run(["symbols", *map(str, arguments)])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return captured.out


def json_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[dict[str, Any]]:
    answer = json.loads(out_of(capsys, *arguments, "--json"))
    assert isinstance(answer, list)
    return answer


@pytest.mark.needs("gcc")
def test_file_with_all_it_needs(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = out_of(capsys, program)
    assert f"build-id   {open_elf(program).build_id}" in text
    assert "lines      yes, with inlined functions" in text
    assert f"symbols    .symtab and DWARF of {program} (as named)" in text
    assert "note" not in text
    [row] = json_of(capsys, program)
    assert row["functions"] >= len(symbols(program))
    assert (row["lines"], row["missing"]) == ("inlines", None)


@pytest.mark.needs("gcc")
def test_stripped_file_and_its_debug_file(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "debug"
    folder.mkdir()
    split_debug(program, folder / "program.debug")
    [row] = json_of(capsys, program)
    assert row["lines"] is None
    assert "stripped" in row["missing"]
    assert row["build_id"] in row["missing"]
    [row] = json_of(capsys, program, "--symbol-dir", folder)
    assert row["lines"] == "inlines"
    assert row["sources"][0]["path"] == str(folder / "program.debug")
    assert row["missing"] is None


@pytest.mark.needs("gcc")
def test_debug_file_of_another_build_is_named_and_not_used(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "debug"
    folder.mkdir()
    other = compile_object(folder, SOURCE.replace("ready", "other"), "-g", name="other")
    split_debug(other, folder / "program.debug")
    split_debug(program, tmp_path / "lost.debug")
    (tmp_path / "lost.debug").unlink()
    [row] = json_of(capsys, program, "--symbol-dir", folder)
    assert row["lines"] is None
    assert any("of another build" in text for text in row["not_used"])
    assert "not used: " in out_of(capsys, program, "--symbol-dir", folder)


@pytest.mark.needs("gcc")
def test_addresses_of_a_file(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start = symbols(program)["outer"][0]
    source = f"{program}.c"
    text = out_of(capsys, program, hex(start), f"program+{start:x}")
    assert text.splitlines() == [
        f"{start:#x}",
        f"    inner at {source}:5 [inlined]",
        f"    outer at {source}:{OUTER_LINE}",
        f"program+{start:#x}",
        f"    inner at {source}:5 [inlined]",
        f"    outer at {source}:{OUTER_LINE}",
    ]
    answer = json.loads(out_of(capsys, program, hex(start), "--json"))
    assert answer["file_address"] == start
    assert [frame["name"] for frame in answer["frames_leaf_first"]] == ["inner", "outer"]


@pytest.mark.needs("gcc")
def test_process_and_its_addresses(
    program: Path, running: int, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = {row["module"]: row for row in json_of(capsys, running)}
    assert rows["program"]["lines"] == "inlines"
    assert rows["program"]["path"] == str(program)
    libc = next(row for name, row in rows.items() if name.startswith("libc.so"))
    assert libc["functions"] > 1000
    table = out_of(capsys, running)
    assert table.splitlines()[0].split() == [
        "MODULE", "FUNCTIONS", "LINES", "BUILD-ID", "SYMBOLS", "FROM",
    ]  # fmt: skip
    maps = Path(f"/proc/{running}/maps").read_text().splitlines()
    start = next(int(line.split("-")[0], 16) for line in maps if line.endswith(str(program)))
    addr = start + symbols(program)["outer"][0]
    names = out_of(capsys, running, hex(addr), "0x10")
    assert f"    outer at {program}.c:{OUTER_LINE}" in names
    assert "0x10  (no known function there)" in names


MAKES_CODE = """
import ctypes, mmap, os
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
addr = ctypes.addressof(ctypes.c_char.from_buffer(page))
with open(f"/tmp/perf-{os.getpid()}.map", "w") as file:
    file.write(f"{addr:x} 40 made_up_function\\n")
print(hex(addr), flush=True)
input()
"""


def test_code_made_while_the_process_runs_has_its_row(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", MAKES_CODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        addr = process.stdout.readline().strip()
        try:
            row = json_of(capsys, process.pid)[-1]
            names = out_of(capsys, process.pid, addr)
        finally:
            Path(f"/tmp/perf-{process.pid}.map").unlink()
            process.communicate("\n")
    assert (row["module"], row["functions"]) == ("[jit]", 1)
    assert row["sources"][0]["what"] == "perf map"
    assert names.splitlines() == [addr, "    made_up_function"]


@pytest.mark.needs("gcc")
def test_program_that_is_in_no_folder_is_a_module(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Shared memory may hold generated code, or a program that was started from there."""
    memory = os.memfd_create("hidden")
    os.write(memory, program.read_bytes())
    with subprocess.Popen(
        [f"/proc/self/fd/{memory}"], pass_fds=[memory], stdout=subprocess.PIPE, text=True
    ) as process:
        os.close(memory)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            row = json_of(capsys, process.pid)[0]
        finally:
            process.kill()
    assert row["module"] == "memfd:hidden"
    assert (row["build_id"], row["lines"]) == (open_elf(program).build_id, "inlines")


@pytest.mark.needs("gcc")
def test_names_need_no_rights_but_to_read(running: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is attached to: the process is under no tracer, and has the threads it had."""
    out_of(capsys, running)
    status = Path(f"/proc/{running}/status").read_text()
    assert "TracerPid:\t0\n" in status
    assert len(os.listdir(f"/proc/{running}/task")) == 1


@pytest.mark.needs("gcc")
def test_stdin_is_answered_line_by_line(program: Path) -> None:
    start = symbols(program)["outer"][0]
    command = [*cli.COMMAND, "symbols", str(program), "-"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(2):
            process.stdin.write(f"{start:#x}\n")
            process.stdin.flush()
            assert process.stdout.readline() == f"{start:#x}\n"
            assert process.stdout.readline().startswith("    inner at ")
            assert process.stdout.readline().startswith("    outer at ")
        process.stdin.close()
        assert process.wait(30) == 0


@pytest.mark.needs("gcc")
def test_line_of_stdin_that_is_no_address_ends_it_after_the_good_ones(program: Path) -> None:
    done = subprocess.run(
        [*cli.COMMAND, "symbols", str(program), "-"],
        input="0x10\n\nnonsense\n0x20\n", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == UsageError.exit_code
    assert "line 3 of stdin: 'nonsense' is not an address" in done.stderr
    assert "0x10" in done.stdout
    assert "0x20" not in done.stdout


def test_apple_file_lists_each_processor(shapes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = json_of(capsys, shapes / "shapes")
    assert {(row["machine"], row["build_id"]) for row in rows} == {
        (arch, appleshapes.expected(arch).uuid) for arch in appleshapes.ARCHES
    }
    for row in rows:
        assert [source["found"] for source in row["sources"]] == ["as named", "dSYM"]
        assert row["lines"] == "inlines"
    addr = appleshapes.expected("arm64").functions["_$s4Demo7CounterV5totalyS2iF"]
    text = out_of(capsys, shapes / "shapes", "--arch", "arm64", hex(addr), "--full")
    assert "Demo.Counter.total(Swift.Int) -> Swift.Int at /src/shapes.cc:" in text


def test_bundle_stands_for_the_file_in_it(shapes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = json_of(capsys, shapes / "shapes.dSYM")
    assert {row["format"] for row in rows} == {"Mach-O"}
    assert all(row["lines"] == "inlines" for row in rows)


def test_stripped_apple_file_says_which_bundle_is_wanted(
    shapes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [row] = json_of(capsys, shapes / "shapes.stripped", "--arch", "arm64")
    assert "only exported names" in row["missing"]
    assert f"UUID {appleshapes.expected('arm64').uuid}" in row["missing"]


@pytest.mark.parametrize(
    ("target", "more", "code", "what"),
    [
        ("", (), 2, "no file and no process"),
        ("none", (), 1, "there is no file"),
        ("folder", (), 1, "is a folder"),
        ("fifo", (), 1, "not a regular file"),
        ("/dev/zero", (), 1, "not a regular file"),
        ("text", (), 1, "not an ELF or Mach-O file"),
        ("empty", (), 1, "an empty file"),
        ("cut", (), 1, "truncated"),
        ("shapes", ("--arch", "mips"), 1, "not for mips: it is for"),
        ("shapes", ("0x10",), 2, "for several processors"),
        ("shapes", ("--arch", "arm64", "xyz"), 2, "'xyz' is not an address"),
        ("shapes", ("--arch", "arm64", "0x" + "1" * 17), 2, "is not an address"),
        ("shapes", ("--arch", "arm64", "other+0x10"), 2, "it has no module other"),
        ("4194305", (), 3, "no process 4194305"),
        ("99999999999", (), 2, "not a process id"),
        ("1", ("--arch", "arm64"), 2, "--arch is for files only"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_a_hint(
    shapes: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    target: str,
    more: tuple[str, ...],
    code: int,
    what: str,
) -> None:
    monkeypatch.chdir(shapes)
    os.mkfifo("fifo")
    Path("folder").mkdir()
    Path("text").write_text("hello\n" * 50)
    Path("empty").write_bytes(b"")
    Path("cut").write_bytes(Path("shapes").read_bytes()[:30000])
    assert run(["symbols", target, *more]) == code
    captured = capsys.readouterr()
    message, hint = captured.err.splitlines()
    assert what in message
    assert hint.startswith("hint: ")
    assert captured.out == ""


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("0x1f", ("", 0x1F)),
        ("1F", ("", 0x1F)),
        ("libc.so.6+0x10", ("libc.so.6", 0x10)),
        ("libstdc++.so.6+10", ("libstdc++.so.6", 0x10)),
        ("+0x10", ("", 0x10)),
    ],
)
def test_addresses_as_people_write_them(text: str, parsed: tuple[str, int]) -> None:
    assert parse_address(text) == parsed


def test_kernel_thread_has_no_modules() -> None:
    if not Path("/proc/2/comm").exists() or Path("/proc/2/comm").read_text() != "kthreadd\n":
        pytest.skip("kernel threads are not seen here")
    cli.run("symbols", 2).assert_refused(1, "no mappings|cannot be read")


def test_process_that_ends_is_said_to_be_gone() -> None:
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait()
    wait_until(lambda: not Path(f"/proc/{process.pid}").exists(), "the process to go", 10)
    cli.run("symbols", process.pid).assert_refused(3, f"no process {process.pid}")
