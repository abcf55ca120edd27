"""Formats by name, and files that are whole or not there."""

from __future__ import annotations

import gzip
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from flametap import export
from flametap.errors import OutputError, UsageError
from flametap.export import Format, format_for, write_file
from flametap.export.request import ExportRequest
from flametap.model import Clock, Split
from flametap.tree.selection import EVERYTHING, Selection
from profiles import small_profile
from recordings import recorded


def request_of(selection: Selection = EVERYTHING, **options: Any) -> ExportRequest:
    return ExportRequest(recorded(*small_profile()), selection, **options)


@pytest.mark.parametrize(
    ("path", "explicit", "expected"),
    [
        ("out.folded", None, "folded"),
        ("OUT.COLLAPSED", None, "folded"),
        ("a/b.speedscope.json", None, "speedscope"),
        ("b.speedscope", None, "speedscope"),
        ("-", None, "folded"),
        ("-", "speedscope", "speedscope"),
        ("out.txt", "folded", "folded"),
        ("report.HTML", None, "html"),
        ("profile.txt", "raw", "folded"),
        ("profile.svg", "flamegraph", "svg"),
        ("out.folded.gz", None, "folded"),
        ("OUT.SPEEDSCOPE.JSON.ZST", None, "speedscope"),
        ("out.pb.gz", None, "pprof"),
    ],
)
def test_format_is_told_by_option_or_name(path: str, explicit: str | None, expected: str) -> None:
    assert format_for(path, explicit) == expected


@pytest.mark.parametrize(("path", "explicit"), [("out.txt", None), ("out.folded", "jpeg")])
def test_format_that_cannot_be_told_lists_the_formats(path: str, explicit: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        format_for(path, explicit)
    assert "folded" in caught.value.hint
    assert "speedscope" in caught.value.hint


@pytest.mark.parametrize(
    ("ending", "unpack"),
    [
        (".gz", gzip.decompress),
        (".zst", lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data)),
    ],
)
def test_file_is_compressed_as_its_name_says(
    tmp_path: Path, ending: str, unpack: Callable[[bytes], bytes]
) -> None:
    plain, packed = tmp_path / "out.folded", tmp_path / f"out.folded{ending}"
    for path in (plain, packed):
        write_file(str(path), "folded", request_of())
    assert unpack(packed.read_bytes()) == plain.read_bytes()
    pprof, other = tmp_path / "out.pb.gz", tmp_path / "out.pprof"
    for path in (pprof, other):
        write_file(str(path), "pprof", request_of())
    assert pprof.read_bytes() == other.read_bytes(), "it is not compressed twice"


def test_file_is_not_compressed_in_two_ways() -> None:
    with pytest.raises(UsageError) as caught:
        format_for("out.pprof.zst")
    assert caught.value.hint == "name it out.pprof"
    assert format_for("out.pprof.gz") == "pprof"


def test_file_is_written_and_nothing_else_left(tmp_path: Path) -> None:
    path = tmp_path / "out.folded"
    path.write_text("what was there before")
    write_file(str(path), "folded", request_of(Selection(Clock.WALL, split=Split.THREAD)))
    assert "pool:1 (102);main;epoll_wait;[epoll_wait] 5000" in path.read_text("utf-8")
    assert os.listdir(tmp_path) == ["out.folded"]
    mask = os.umask(0)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask


def test_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "out.folded"
    link.symlink_to(tmp_path / "real" / "file")
    write_file(str(link), "folded", request_of())
    assert link.is_symlink()
    assert (tmp_path / "real" / "file").read_text("utf-8").endswith("\n")


def test_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(request: ExportRequest, file: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(export.FORMATS, "folded", Format((".folded",), fail))
    path = tmp_path / "out.folded"
    path.write_text("old")
    with pytest.raises(OutputError, match="No space left"):
        write_file(str(path), "folded", request_of())
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.folded"]


def test_folder_that_is_not_there_is_an_output_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot write"):
        write_file(str(tmp_path / "no" / "out.folded"), "folded", request_of())


def test_standard_output(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    write_file("-", "speedscope", request_of())
    name = json.loads(capfdbinary.readouterr().out)["name"]
    assert name.startswith("flametap, cpu time of the whole recording; recorded ")


def test_pipe_is_written_to_directly(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text("utf-8")))
    reader.start()
    write_file(str(pipe), "folded", request_of())
    reader.join(10)
    assert "main;work;clamp 11\n" in read[0]
    assert pipe.is_fifo()
