"""The table of `flametap ps`: as wide as a terminal, whole in a pipe."""

from __future__ import annotations

import sys

import pytest

from flametap.cli.commands import ps as command
from flametap.cli.main import run

ROWS = [
    command.Row(7, "root", 12, True, "", "java " + "-Dx=y " * 100),
    command.Row(8, "root", 1, False, "it is a 32-bit program", "old " + "z" * 300),
]


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert run(["ps"]) == 0
    return capsys.readouterr().out.splitlines()


def test_lines_are_cut_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "rows_of", lambda _: iter(ROWS))
    assert ROWS[0].command in lines(capsys)[1]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    header, java, old = lines(capsys)
    assert max(map(len, (header, java, old))) == 80
    assert java.endswith("…")
    assert "  (it is a 32-bit program) old" in old


def test_runtime_has_a_column_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    python = command.Row(9, "root", 1, True, "", "python app.py", "CPython 3.12.1")
    monkeypatch.setattr(command, "rows_of", lambda _: iter([*ROWS, python]))
    header, java, _, last = lines(capsys)
    assert header.split()[-2:] == ["RUNTIME", "COMMAND"]
    assert last.split()[4:] == ["CPython", "3.12.1", "python", "app.py"]
    assert java.index("java") == last.index("python")
