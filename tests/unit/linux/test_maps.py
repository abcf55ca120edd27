"""Lines of /proc/PID/maps."""

from __future__ import annotations

import os
from pathlib import Path

from flametap.linux.maps import Mapping, parse_line, read_maps

LINE = "7f00a000-7f00c000 r-xp 00001000 fd:01 42   "


def test_a_line_is_taken_apart() -> None:
    found = parse_line(f"{LINE}/usr/lib/a b.so (deleted)\n")
    path = "/usr/lib/a b.so"
    assert found == Mapping(0x7F00A000, 0x7F00C000, "r-xp", 0x1000, path, True, 42, "fd:01")
    assert (found.size, found.name, found.is_executable) == (0x2000, "a b.so", True)
    assert parse_line("00400000-00401000 r-xp 0 0:0 1 /a").span == "400000-401000"
    assert found.shown_path == "/usr/lib/a b.so (deleted)"


def test_anonymous_memory_has_no_path() -> None:
    found = parse_line("1000-2000 rw-p 00000000 00:00 0 \n")
    assert (found.path, found.name, found.shown_path, found.is_executable) == ("", "", "", False)


def test_odd_paths_stay_whole(tmp_path: Path) -> None:
    (tmp_path / "maps").write_bytes(f"{LINE}/a\x0bb\u2028".encode() + b"\xff\n1-2 ---p 0 0:0 0\n")
    first, second = read_maps(str(tmp_path))
    assert os.fsencode(first.path) == "/a\x0bb\u2028".encode() + b"\xff"
    assert (second.start, second.end, second.path) == (1, 2, "")
