"""The agent's machine code: what it must hold, and when it is not used."""

from __future__ import annotations

import json
import re
import tempfile
import time
from pathlib import Path

import pytest

from flametap import agent
from flametap.agent import build, machine_code


@pytest.fixture
def made() -> machine_code.MachineCode:
    return machine_code.read()  # conftest.py builds it


def replace_sources(monkeypatch: pytest.MonkeyPatch, text: str, assembly: Path) -> None:
    """Have other C code built, with all assembly of a folder; gcc is the compiler."""
    limits = "".join(
        f"#define {name}_STACK_BYTES {900 + build.UNCOUNTED_STACK_BYTES}\n"
        for name in ("CALLEES", "FUNCTION")
    )
    handler = f"void agent_deep(void); void {build.HANDLER}(void) {{ agent_deep(); }}\n"
    apart = f"void {build.ON_OWN_STACK}(void) {{}}\n"
    monkeypatch.setattr(build, "source", lambda: limits + handler + apart + text)
    monkeypatch.setattr(build, "ARCH", assembly)
    monkeypatch.setenv("CC", "gcc")


@pytest.mark.needs("gcc")
def test_functions_are_those_of_the_script_and_the_host(made: machine_code.MachineCode) -> None:
    listed = re.findall(r"^  (agent_\w+): \[", agent.script(), re.MULTILINE)
    functions = {name for name in made.symbols if name.startswith("agent_")}
    # The first is where our thread begins; the others are called by ours alone.
    assert functions - set(listed) == {"agent_main", "agent_prepare", "agent_stop"}
    assert set(listed) < functions
    assert set(made.symbols) - functions == {
        "import_boot",
        *(f"stub_{name}" for name in ("begin", "nap", "data", "end")),
        "host_divert",
    }


@pytest.mark.needs("gcc")
def test_imports_come_first_and_are_empty(made: machine_code.MachineCode) -> None:
    offsets = sorted(at for name, at in made.symbols.items() if name.startswith("import_"))
    assert offsets == list(range(0, 8 * len(offsets), 8))
    assert not any(made.code[: 8 * len(offsets)])
    assert len(made.code) % machine_code.PAGE_BYTES == 0


@pytest.mark.needs("gcc")
def test_code_begins_at_a_page_of_the_file(made: machine_code.MachineCode) -> None:
    """So that it can be mapped from there."""
    assert made.file_offset % 4096 == 0
    content = machine_code.PLACE.read_bytes()
    assert content[made.file_offset :] == made.code
    assert content[: made.file_offset].count(b"\n") == 1


@pytest.mark.needs("gcc")
def test_reading_takes_no_time() -> None:
    """Each attach does it; hashing the sources alone took 6 ms."""
    times_s = []
    for _ in range(20):
        began_s = time.perf_counter()
        machine_code.read()
        times_s.append(time.perf_counter() - began_s)
    assert min(times_s) < 0.001


def padded(head: dict[str, object]) -> bytes:
    text = json.dumps(head).encode()
    return text.ljust(4095) + b"\n"


@pytest.mark.needs("gcc")
@pytest.mark.parametrize(
    "change",
    [{"checksum": 0}, {"symbols": {"agent_main": 0}}, {"symbols": None}, {"padding": 5000 * "a"}],
)
def test_code_is_used_only_as_it_was_built(change: dict[str, object], tmp_path: Path) -> None:
    text, _, code = machine_code.PLACE.read_bytes().partition(b"\n")
    head = json.loads(text)
    path = tmp_path / "machine_code.bin"
    path.write_bytes(padded(head) + code)
    assert machine_code.read(path).code == code
    for damaged in (padded(head | change) + code, padded(head) + code[:-4096]):
        path.write_bytes(damaged)
        with pytest.raises(machine_code.UnusableError, match="is damaged"):
            machine_code.read(path)


@pytest.mark.parametrize("content", [b"", b"\n", b"[]\n", b'{"sources": 1}\n', b"\xff\n"])
def test_damaged_file_is_not_used(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "machine_code.bin"
    with pytest.raises(machine_code.UnusableError, match="is missing"):
        machine_code.read(path)
    path.write_bytes(content)
    with pytest.raises(machine_code.UnusableError, match="is damaged"):
        machine_code.read(path)


def version(number: str) -> str:
    return f"/bin/sh -c 'echo {number}'"


@pytest.mark.parametrize(
    ("compiler", "words"),
    [
        ("/bin/false -x", "^/bin/false failed"),
        ("/absent/cc", r"^there is no /absent/cc \(apt install gcc\)$"),
        ("gcc '", "quotation"),
        (version("9.3.0"), r"is version 9\.3\.0, and 10 or newer is needed \(apt install gcc\)$"),
    ],
)
def test_compiler_that_fails_leaves_no_file(
    compiler: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", compiler)
    with pytest.raises(build.BuildError, match=words):
        build.build(tmp_path / "machine_code.bin")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.needs("gcc")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("int counter; void agent_deep(void) { ++counter; }", "globals cannot be written"),
        (
            'const char *const names[] = {"a", "b"}; void agent_deep(void) {}',
            "depends on where it lies|cannot be written",
        ),
        ("void agent_deep(void) { volatile char bytes[800]; bytes[0] = 0; }", None),
        ("void agent_deep(void) { volatile char bytes[1200]; bytes[0] = 0; }", "bytes of stack"),
    ],
)
def test_unfit_code_is_refused(
    text: str, words: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_sources(monkeypatch, text, tmp_path / "absent")
    path = tmp_path / "machine_code.bin"
    if words is None:
        for _ in ("new", "damaged"):
            build.build(path)
            assert machine_code.read(path).symbols
            path.write_bytes(path.read_bytes()[:-1])
    else:
        with pytest.raises(build.BuildError, match=words):
            build.build(path)


@pytest.mark.nightly  # the code is built twice
@pytest.mark.needs("gcc")
def test_same_compiler_gives_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Built in other folders and at other times."""
    built = []
    for name in ("one", "another"):
        folder = tmp_path / name
        (folder / "tmp").mkdir(parents=True)
        (folder / "arch").mkdir()
        (folder / "arch" / "table.S").write_text(".globl host_table\nhost_table: .long 1\n")
        monkeypatch.setattr(build, "ARCH", folder / "arch")
        monkeypatch.setattr(tempfile, "tempdir", str(folder / "tmp"))
        monkeypatch.chdir(folder)
        monkeypatch.setenv("CC", "gcc")
        build.build(folder / "machine_code.bin")
        built.append((folder / "machine_code.bin").read_bytes())
    assert built[0] == built[1]
    assert str(tmp_path).encode() not in built[0]


@pytest.mark.needs("gcc")
def test_sources_decide_whether_it_is_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "machine_code.bin"
    replace_sources(monkeypatch, "void agent_deep(void) {}", tmp_path)
    build.build(path)
    first = path.stat().st_ino
    build.build(path)
    assert path.stat().st_ino == first
    (tmp_path / "stub.S").write_text("#define ONE 1\n.globl stub_one\nstub_one: .byte ONE\n")
    build.build(path)
    second = path.stat().st_ino
    assert second != first
    assert "stub_one" in machine_code.read(path).symbols
    (tmp_path / "stub.S").write_text(".globl stub_one\nstub_one: .byte 2\n")
    build.build(path)
    assert path.stat().st_ino != second


@pytest.mark.needs("gcc")
def test_assembly_lies_behind_the_c_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'void agent_deep(void) {} const char host_text[] = "in C"; void other(void) {}'
    replace_sources(monkeypatch, text + "static void stub_own(void) {}", tmp_path)
    (tmp_path / "a.S").write_text(
        ".globl stub_start, stub_table, unlisted\n"
        "stub_start: lea stub_table(%rip), %rax\n call agent_deep\n unlisted: ret\n"
        '.section .rodata\nstub_table: .ascii "in assembly"\n'
    )
    (tmp_path / "b.S").write_text(".globl stub_last\nstub_last: ret\n")
    path = tmp_path / "machine_code.bin"
    build.build(path)
    made = machine_code.read(path)
    at = made.symbols
    assert set(at) == {"agent_deep", "host_text", "stub_start", "stub_table", "stub_last"}
    assert max(at["agent_deep"], at["host_text"]) < min(at["stub_start"], at["stub_table"])
    assert at["stub_start"] < at["stub_last"]
    assert made.code[at["stub_table"] :].startswith(b"in assembly")


@pytest.mark.needs("gcc")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (".data\nstub_state: .long 0\n", "cannot be written"),
        ("stub_self: .quad stub_self\n", "depends on where it lies"),
        ('.section .lost, "a"\nstub_lost: .long 1\n', "orphan section"),
        ("stub_wrong: no_such_instruction\n", "no such instruction"),
    ],
)
def test_unfit_assembly_is_refused(
    text: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_sources(monkeypatch, "void agent_deep(void) {}", tmp_path)
    (tmp_path / "stub.S").write_text(text)
    with pytest.raises(build.BuildError, match=words):
        build.build(tmp_path / "machine_code.bin")
