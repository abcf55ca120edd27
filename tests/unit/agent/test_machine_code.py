"""The agent's machine code: what it must hold, and when it is not used."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from flametap import agent
from flametap.agent import build, machine_code


@pytest.fixture
def made() -> machine_code.MachineCode:
    made = machine_code.installed()
    assert made is not None, "conftest.py builds it"
    return made


@pytest.mark.needs("gcc")
def test_functions_and_imports_are_those_of_the_script(made: machine_code.MachineCode) -> None:
    script = agent.script()
    functions = set(re.findall(r"^  (agent_\w+): \[", script, re.MULTILINE))
    listed = re.search(r"LIBC_FUNCTIONS = \[(.*?)\]", script, re.DOTALL)
    assert listed
    libc = {f"import_libc_{name}" for name in re.findall(r"'(\w+)'", listed[1])}
    imports = {name for name in made.symbols if name.startswith("import_")}
    assert functions <= set(made.symbols)
    assert imports == libc | {"import_agent_cell"}


@pytest.mark.needs("gcc")
def test_imports_come_first_and_are_empty(made: machine_code.MachineCode) -> None:
    offsets = sorted(at for name, at in made.symbols.items() if name.startswith("import_"))
    assert offsets == list(range(0, 8 * len(offsets), 8))
    assert not any(made.code[: 8 * len(offsets)])
    assert len(made.code) % build.PAGE_BYTES == 0


@pytest.mark.needs("gcc")
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"sources": "0"}, "of other sources"),
        ({"code": "0"}, "is damaged"),
        ({"symbols": {"agent_start": 0}}, "is damaged"),
        ({"symbols": None}, "is damaged"),
    ],
)
def test_code_is_used_only_as_it_was_built(
    change: dict[str, object], reason: str, tmp_path: Path
) -> None:
    text, _, code = machine_code.PLACE.read_bytes().partition(b"\n")
    head = json.loads(text)
    path = tmp_path / "machine_code.bin"
    path.write_bytes(json.dumps(head).encode() + b"\n" + code)
    assert machine_code.read(path).code == code
    path.write_bytes(json.dumps(head | change).encode() + b"\n" + code)
    with pytest.raises(machine_code.UnusableError, match=reason):
        machine_code.read(path)
    path.write_bytes(json.dumps(head).encode() + b"\n" + code[:-4096])
    with pytest.raises(machine_code.UnusableError, match="is damaged"):
        machine_code.read(path)


@pytest.mark.parametrize("content", [b"", b"\n", b"[]\n", b'{"sources": 1}\n', b"\xff\n"])
def test_damaged_file_is_not_used(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "machine_code.bin"
    with pytest.raises(machine_code.UnusableError, match="there is no machine code"):
        machine_code.read(path)
    path.write_bytes(content)
    with pytest.raises(machine_code.UnusableError, match="is damaged"):
        machine_code.read(path)


@pytest.mark.parametrize(
    ("compiler", "words"),
    [("/bin/false -x", "false failed"), ("/absent/cc", "no /absent/cc"), ("gcc '", "quotation")],
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
    limit = f"#define CALLEES_STACK_BYTES {900 + build.UNCOUNTED_STACK_BYTES}\n"
    handler = f"void agent_deep(void); void {build.HANDLER}(void) {{ agent_deep(); }}\n"
    for module in (build, machine_code):
        monkeypatch.setattr(module, "source", lambda: limit + handler + text)
    monkeypatch.setenv("CC", "gcc")
    path = tmp_path / "machine_code.bin"
    if words is None:
        for _ in ("new", "damaged"):
            build.build(path)
            assert machine_code.read(path).symbols
            path.write_bytes(path.read_bytes()[:-1])
    else:
        with pytest.raises(build.BuildError, match=words):
            build.build(path)
