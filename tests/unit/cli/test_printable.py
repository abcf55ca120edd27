"""Text for a terminal: what shows stays, what acts becomes an escape; and all that we print passes
there."""

from __future__ import annotations

import ast
import io
import json
import sys
from pathlib import Path

import pytest

from flametap.cli import streams
from flametap.cli.printable import printable

CLI = Path(__file__).resolve().parents[3] / "profiler"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("worker 7: std::vector<int>::push_back(int const&) …", None),
        ("поток · 糸 · e\u0301 · \\n · 🔥", None),
        ("", None),
        ("\x1b[31m\x1b]0;title\x07", r"\x1b[31m\x1b]0;title\x07"),
        ("a\nflametap: forged\r\tb", r"a\nflametap: forged\r\tb"),
        ("\x9b31m\x7f\x00\x08", r"\x9b31m\x7f\x00\x08"),
        ("\u202eltr\u2066x\u2069\u200f\u061c", r"\u202eltr\u2066x\u2069\u200f\u061c"),
        ("a\u200bb\u200d\ufeff\u2060\u00ad", r"a\u200bb\u200d\ufeff\u2060\xad"),
        ("\u3164\u115f\u034f\ufe0f\U000e0101\u2800", r"\u3164\u115f\u034f\ufe0f\U000e0101\u2800"),
        ("line\u2028paragraph\u2029\x85\xa0", r"line\u2028paragraph\u2029\x85\xa0"),
        ("\udcff\udc80\ud800\U000e0041", r"\xff\x80\ud800\U000e0041"),
    ],
)
def test_text_is_shown(text: str, shown: str | None) -> None:
    assert printable(text) == (text if shown is None else shown)
    assert printable(text).isprintable()
    printable(text).encode()


def test_each_line_stays_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    streams.print_lines(["one\ntwo", "", "three\x1b[K"])
    streams.print_message("four\nfive")
    assert capsys.readouterr() == ("one\\ntwo\n\nthree\\x1b[K\n", "four\\nfive\n")


def test_json_is_ascii_that_shows(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"name": "\x7f\x9b\x1b\n\udcff\u202e"}
    streams.print_json(value)
    printed = capsys.readouterr().out
    assert printed.replace("\n", "").isprintable()
    assert printed.isascii()
    assert json.loads(printed) == value


def test_what_the_encoding_lacks_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, "latin-1"))
    streams.escape_unencodable()
    streams.print_line("名 é")
    assert raw.getvalue() == b"\\u540d \xe9\n"


def writers(text: str) -> list[str]:
    """Return the calls in a source text that write to a standard stream."""
    calls = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    names = {"print", "click.echo", "click.secho", "sys.stdout.write", "sys.stderr.write"}
    return [ast.unparse(call) for call in calls if ast.unparse(call.func) in names]


def test_nothing_else_writes_to_the_standard_streams() -> None:
    assert writers("def f():\n    print(1)") == ["print(1)"]
    found = {
        str(path.relative_to(CLI)): calls
        for path in CLI.rglob("*.py")
        if (calls := writers(path.read_text()))
    }
    assert found.pop("cli/streams.py") == [
        "click.echo(printable(text), err=True)",
        "click.echo(text)",
    ]
    assert found == {"cli/main.py": ["click.echo(ctx.get_help(), err=True)"]}  # text of ours
