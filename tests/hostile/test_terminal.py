"""Names that are made to mislead in a terminal: escape sequences, line feeds, direction marks,
bytes that are no UTF-8. Every command shows them, and none lets them act."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shutil
import subprocess
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import cli
from running import Target
from targetbuild import Builder

pytestmark = pytest.mark.needs("attach", "gcc", "setpriv")

PLACEHOLDER = b"spin_under_a_name_of_32_letters_"
SYMBOL = b"s\x1b]0;x\x07\nFAKE\xc2\x9b\xe2\x80\xae\xff\x7f".ljust(len(PLACEHOLDER), b"_")
SOURCE = b"escapes.c"
SOURCE_NAME = b"e\x1b[7m\nFAK"
FILE_NAME = b"prog\x1b[31m\nFAKE\xe2\x80\xae\xe2\x80\x8b\xff"
ARGUMENTS = (b"\x1b]0;owned\x07", b"\nFAKE", b"\xff\xe2\x81\xa6")
ERASE_LINE = "\r\x1b[K"  # our own, before each line of progress
DRAWN_S = 60.0


@dataclass(frozen=True)
class Hostile:
    """The program, and a process of it."""

    path: Path
    target: Target


@pytest.fixture
def hostile(builder: Builder, their_folder: Path, start_theirs: Callable[..., Target]) -> Hostile:
    """A running process of ``nobody``'s, all of whose names are made to mislead."""
    content = builder.program("escapes", "debug").read_bytes()
    assert PLACEHOLDER in content
    assert SOURCE in content
    content = content.replace(PLACEHOLDER, SYMBOL).replace(SOURCE, SOURCE_NAME)
    path = their_folder / os.fsdecode(FILE_NAME)
    path.write_bytes(content)
    path.chmod(0o755)
    return Hostile(path, start_theirs(path, *map(os.fsdecode, ARGUMENTS)))


def assert_harmless(text: str) -> None:
    """Check that a terminal would print all of it, in lines of ours alone."""
    acting = {char for char in text if not char.isprintable()} - {"\n"}
    assert not acting, f"{acting} in {text!r}"
    assert not [line for line in text.splitlines() if line.startswith("FAKE")], text


def run(*arguments: object, exit_code: int = 0) -> str:
    """Run a command, check its exit code and all that it prints, and return the latter."""
    result = cli.run(*arguments)
    assert "Traceback" not in result.stderr, result.stderr
    assert result.exit_code == exit_code, result.stderr
    assert_harmless(result.stdout)
    assert_harmless(result.stderr)
    return result.stdout + result.stderr


def test_lists_and_checks(hostile: Hostile) -> None:
    assert "FAKE" in run("ps")
    assert r"\x1b[2J\nFAKE" in run("doctor", hostile.target.pid)
    assert json.loads(run("doctor", "--json", hostile.target.pid))["attachable"]
    assert json.loads(run("ps", "--json"))


def test_stacks_and_names(hostile: Hostile) -> None:
    pid = hostile.target.pid
    stacks = run("dump", pid)
    assert r"t\x1b[5m\nFAKE" in stacks
    assert r"s\x1b]0;x\x07\nFAKE\x9b\u202e" in stacks
    assert r"e\x1b[7m\nFAK" in stacks
    # The kernel has escaped the line feed.
    assert r"\x1b[31m\012FAKE\u202e\u200b\xff" in run("symbols", pid)
    assert json.loads(run("symbols", "--json", pid))


def test_functions_at_addresses(hostile: Hostile) -> None:
    found = subprocess.run(["nm", hostile.path], capture_output=True, check=True).stdout
    address = next(line for line in found.split(b"\n") if b"T s\x1b]0" in line).split()[0]
    assert r"s\x1b]0;x" in run("symbols", hostile.path, address.decode())
    run("symbols", "--json", hostile.path, address.decode())
    assert r"\x1b[31m" in run("symbols", hostile.path)


def test_recording(hostile: Hostile, tmp_path: Path) -> None:
    out = tmp_path / "out.folded"
    arguments = ("-d", 1, "-v", "--verify-detach", "-t", "-o", out)
    assert r"s\x1b]0;x" in run("record", "-p", hostile.target.pid, *arguments)
    lines = out.read_text().split("\n")
    assert [line for line in lines if "FAKE" in line]
    assert not [line for line in lines if line.startswith("FAKE")]
    result = cli.run("record", "-p", hostile.target.pid, "-d", 1, "-f", "speedscope", "-o", "-")
    assert_harmless(result.stderr)
    names = [frame["name"] for frame in json.loads(result.stdout)["shared"]["frames"]]
    assert SYMBOL.decode("utf-8", "replace") in names
    assert not [char for char in result.stdout if unicodedata.category(char) == "Cc"]


def test_errors(hostile: Hostile, tmp_path: Path, start_theirs: Callable[..., Target]) -> None:
    start_theirs(hostile.path, "\x1b[2K")
    name = os.fsdecode(FILE_NAME)[:6]  # of both, so they are listed
    assert "2 processes match" in run("dump", name, exit_code=2)
    text = tmp_path / "no\x1b[31m\nFAKE program"
    text.write_text("hello")
    assert r"no\x1b[31m\nFAKE" in run("symbols", text, exit_code=1)
    assert r"\x1b[31m\nFAKE" in run("symbols", f"{text} gone", exit_code=1)


def test_terminal_of_another_encoding() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    with subprocess.Popen(["名", "60"], executable=shutil.which("sleep")) as process:
        try:
            done = subprocess.run(
                [*cli.COMMAND, "ps"], capture_output=True, env=environment, check=False
            )
        finally:
            process.kill()
    assert done.returncode == 0, done.stderr
    assert rb"\u540d 60" in done.stdout


def test_progress_on_a_terminal(hostile: Hostile, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", 0) as screen:
        command = [*cli.COMMAND, "record", "-p", str(hostile.target.pid), "-d", "1"]
        with subprocess.Popen(
            [*command, "-o", tmp_path / "out.folded"], stdout=theirs, stderr=theirs
        ) as process:
            os.close(theirs)
            drawn = b""
            with contextlib.suppress(OSError):  # the other end is closed
                while data := screen.read(1 << 16):
                    drawn += data
        assert process.wait(DRAWN_S) == 0
    text = drawn.decode().replace("\r\n", "\n")
    assert ERASE_LINE in text
    assert_harmless(text.replace(ERASE_LINE, "\n"))
