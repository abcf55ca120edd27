"""Source files as debug information names them: shown, or a reason why not."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from flametap.symbols.locate import source_text
from flametap.symbols.locate.open_file import OURS, Root
from flametap.symbols.locate.source_text import MAX_LINE_CHARS, read_source


def test_lines_as_an_editor_counts_them(tmp_path: Path) -> None:
    path = tmp_path / "a.c"
    path.write_bytes(b"one\r\n\ttwo\n\nf\xfcnf")
    assert read_source(str(path), [OURS]).lines == ["one", "\ttwo", "", "f\ufffdnf"]


def test_the_processs_root_goes_first(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.c").write_text("inside\n")
    (root / "src" / "link.c").symlink_to("/src/a.c")
    (root / "src" / "out.c").symlink_to("../../../../../../../../src/a.c")
    for name in ("a", "link", "out"):  # links mean what they mean to the process
        assert read_source(f"/src/{name}.c", [Root(str(root)), OURS]).lines == ["inside", ""], name
    found = read_source("/src/gone.c", [Root(str(root)), OURS])
    assert found.lines is None
    assert "no such file in the process's root; no such file on this machine" in found.note


@pytest.mark.parametrize(
    "path", ["/dev/zero", "/dev/stdin", "/proc/kmsg", "/proc/self/maps", "/tmp", "/a\0b", "/"]
)
def test_what_is_no_regular_file_is_not_read(path: str) -> None:
    found = read_source(path, [OURS])
    assert not any(found.lines or ())


def test_fifos_block_nobody(tmp_path: Path) -> None:
    path = tmp_path / "a.c"
    os.mkfifo(path)
    began = time.monotonic()
    assert "not a regular file" in read_source(str(path), [OURS]).note
    assert time.monotonic() - began < 5  # with nobody at its other end it would be for ever


def test_huge_binary_and_relative_ones_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.c"
    path.write_bytes(b"text\0more")
    assert "not a text file" in read_source(str(path), [OURS]).note
    path.write_bytes(b"")
    os.truncate(path, 1 << 40)
    assert "larger than 16 MiB" in read_source(str(path), [OURS]).note
    path.write_text("x" * 10_000)
    (line,) = read_source(str(path), [OURS]).lines or []
    assert len(line) == MAX_LINE_CHARS
    monkeypatch.chdir(tmp_path)
    assert "relative" in read_source("a.c", [OURS]).note
    assert "not known" in read_source("", [OURS]).note
    monkeypatch.setattr(source_text, "MAX_SOURCE_BYTES", 9_999)
    assert read_source(str(path), [OURS]).lines is None


def test_a_file_newer_than_the_program_is_said_so(tmp_path: Path) -> None:
    path = tmp_path / "a.c"
    path.write_text("x\n")
    written_ns = path.stat().st_mtime_ns
    assert "newer" in read_source(str(path), [OURS], written_ns - 1).note
    assert read_source(str(path), [OURS], written_ns + 1).note == ""
