"""Perf maps: what is read of them, what is not, and how they go on."""

from __future__ import annotations

import os
import random
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from flametap.symbols.jit import code_ranges, perfmap
from flametap.symbols.jit.code_ranges import ANY_TIME_NS, NOT_FOUND, CodeRanges, Ranges
from flametap.symbols.jit.growing_file import AppendedFile, Growth
from flametap.symbols.jit.perfmap import PerfMap, parse_lines

ME = os.getuid()


def opened(path: Path, *, owners: Callable[[], frozenset[int]] | None = None) -> PerfMap:
    """The map at a path, read as far as it goes."""
    flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
    file = AppendedFile(
        str(path), lambda: os.open(path, flags), owners or (lambda: frozenset((ME,)))
    )
    found = PerfMap(file)
    read(found)
    return found


def read(perf_map: PerfMap) -> Growth:
    growth = perf_map.look()
    while perf_map.read_more():
        pass
    return growth


def names(perf_map: PerfMap, *addresses: int) -> list[str]:
    found = perf_map.find(
        np.array(addresses, np.uint64), np.full(len(addresses), ANY_TIME_NS, np.int64)
    )
    return [
        perf_map.name(key, start) if key != NOT_FOUND else ""
        for key, start in zip(found.key.tolist(), found.start.tolist(), strict=True)
    ]


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "perf-1.map"


def test_lines_in_the_spellings_of_node_and_java(path: Path) -> None:
    path.write_text(
        "7f0000001000 10 JS:~get foo /a b/x.js:1:2\n"
        "0x00007F0000002000 0x0000000000000020 int a.B.c(int, long)\n"
        "7f0000003000 8 ns::f<int>::operator()(char const*) const\n"
    )
    perf_map = opened(path)
    assert names(perf_map, 0x7F0000001000, 0x7F000000100F) == ["JS:~get foo /a b/x.js:1:2"] * 2
    assert names(perf_map, 0x7F0000000FFF, 0x7F0000001010) == ["", ""]
    assert names(perf_map, 0x7F000000201F) == ["int a.B.c(int, long)"]
    assert names(perf_map, 0x7F0000003004) == ["ns::f<int>::operator()(char const*) const"]
    assert perf_map.garbage == 0
    perf_map.file.close()


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"garbage",
        b"7f00 10",
        b"7f00 10 ",
        b"7f00  10 two spaces",
        b"g 10 f",
        b"7f00 xyz f",
        b"0x 10 f",
        b"7f00 0x f",
        b" 7f00 10 f",
        b"-7f00 10 f",
        b"7f00\t10\tf",
        b"12345678901234567 10 beyond 64 bits",
        b"ffffffffffffffff 10 at the very end",
        b"7f00 40000001 a gigabyte",
        b"\x00\xff\xfe 10 f",
    ],
)
def test_garbage_is_counted_and_leaves_the_rest_alone(path: Path, line: bytes) -> None:
    path.write_bytes(b"7f00 100 before\n" + line + b"\n7e00 10 after\n")
    perf_map = opened(path)
    assert perf_map.garbage == 1
    assert len(perf_map) == 2
    assert names(perf_map, 0x7F00, 0x7E00) == ["before", "after"]
    perf_map.file.close()


def test_piece_without_a_size_is_no_garbage_and_covers_nothing() -> None:
    lines = parse_lines(b"7f00 0 nothing\n")
    assert (len(lines.start), lines.garbage) == (0, 0)


def test_bytes_that_are_no_text_have_a_name(path: Path) -> None:
    path.write_bytes(b"7f00 10 caf\xe9\n")
    perf_map = opened(path)
    assert names(perf_map, 0x7F00) == ["caf\ufffd"]
    perf_map.file.close()


def test_later_line_wins_where_it_overlaps(path: Path) -> None:
    path.write_text("1000 100 old\n1040 40 new\n1000 100 again\n1060 10 newest\n")
    perf_map = opened(path)
    assert names(perf_map, 0x1000, 0x1040, 0x1060, 0x106F, 0x1070, 0x10FF) == [
        *("again", "again", "newest", "newest", "again", "again"),
    ]
    perf_map.file.close()


def test_growth_is_read_from_where_reading_stopped(path: Path) -> None:
    path.write_text("1000 10 one\n")
    perf_map = opened(path)
    assert read(perf_map) is Growth.NONE
    append(path, "2000 10 two\n1000 10 one b\n")
    assert read(perf_map) is Growth.MORE
    assert names(perf_map, 0x1000, 0x2000) == ["one b", "two"]
    assert perf_map.file.position == path.stat().st_size
    perf_map.file.close()


def test_line_counts_when_its_newline_is_there(path: Path) -> None:
    path.write_text("1000 10 one\n2000 10 tw")
    perf_map = opened(path)
    assert names(perf_map, 0x1000, 0x2000) == ["one", ""]
    append(path, "o and a half")
    read(perf_map)
    assert names(perf_map, 0x2000) == [""]
    append(path, "\n")
    read(perf_map)
    assert names(perf_map, 0x2000) == ["two and a half"]
    assert perf_map.garbage == 0
    perf_map.file.close()


def test_map_that_comes_later_is_found(path: Path) -> None:
    perf_map = opened(path)
    assert not perf_map.file.is_open
    assert perf_map.file.refusal == ""
    path.write_text("1000 10 one\n")
    assert read(perf_map) is Growth.ANEW
    assert names(perf_map, 0x1000) == ["one"]
    perf_map.file.close()


@pytest.mark.parametrize("more", ["", "3000 10 three\n3010 10 four\n"])
def test_map_written_anew_in_place_holds_alone(path: Path, more: str) -> None:
    """As ``jcmd PID Compiler.perfmap`` does: the same file, shorter or longer."""
    path.write_text("1000 10 one\n2000 10 two\n")
    perf_map = opened(path)
    path.write_text("1000 10 uno\n" + more)
    assert read(perf_map) is Growth.ANEW
    assert names(perf_map, 0x1000, 0x2000) == ["uno", ""]
    perf_map.file.close()


def test_map_written_anew_at_the_same_length_holds_alone(path: Path) -> None:
    same = "".join(f"{a:x} 10 f{a}\n" for a in range(0x2000, 0x3000, 0x10))
    path.write_text("1000 10 one\n" + same)
    perf_map = opened(path)
    path.write_text("1000 10 uno\n" + same)
    os.utime(path, ns=(0, time.time_ns() + 10**9))  # a file system's clock may be coarse
    assert read(perf_map) is Growth.ANEW
    assert names(perf_map, 0x1000) == ["uno"]
    perf_map.file.close()


def test_truncation_is_seen_by_the_size_alone(path: Path) -> None:
    """The clock of a file system may stand still for some milliseconds."""
    path.write_text("1000 10 one\n2000 10 two\n")
    perf_map = opened(path)
    status = path.stat()
    os.truncate(path, 12)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert read(perf_map) is Growth.ANEW
    assert names(perf_map, 0x1000, 0x2000) == ["one", ""]
    perf_map.file.close()


def test_map_replaced_by_another_file_holds_alone(path: Path) -> None:
    path.write_text("1000 10 one\n2000 10 two\n")
    perf_map = opened(path)
    other = path.with_name("other")
    other.write_text("1000 10 uno\n2000 10 two\n3000 10 tre\n")
    other.rename(path)
    assert read(perf_map) is Growth.ANEW
    assert names(perf_map, 0x1000, 0x3000) == ["uno", "tre"]
    perf_map.file.close()


def test_name_whose_line_has_gone_is_none(path: Path) -> None:
    path.write_text("1000 10 one\n2000 10 two\n")
    perf_map = opened(path)
    path.write_text("")
    assert names(perf_map, 0x2000) == [""]
    path.write_text("9000 10 xyz\n9000 10 xyz\n")
    assert names(perf_map, 0x2000) == [""]
    perf_map.file.close()


def test_deleted_map_goes_on(path: Path) -> None:
    path.write_text("1000 10 one\n")
    perf_map = opened(path)
    path.unlink()
    assert read(perf_map) is Growth.NONE
    assert names(perf_map, 0x1000) == ["one"]
    perf_map.file.close()


def test_lines_of_megabytes_are_passed_over(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perfmap, "CHUNK_BYTES", 1 << 10)
    long = "9000 10 " + "x" * 5000
    path.write_text(f"1000 10 one\n{long}\n2000 10 two\n{long}")
    perf_map = opened(path)
    assert names(perf_map, 0x1000, 0x2000, 0x9000) == ["one", "two", ""]
    append(path, "y\n3000 10 three\n")
    read(perf_map)
    assert names(perf_map, 0x3000, 0x9000) == ["three", ""]
    assert perf_map.garbage == 2
    perf_map.file.close()


def test_of_an_endless_map_the_end_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perfmap, "MAX_MAP_BYTES", 100)
    path.write_text("".join(f"{i:x}000 10 f{i}\n" for i in range(1, 100)))
    perf_map = opened(path)
    assert perf_map.skipped_bytes == path.stat().st_size - 100
    assert names(perf_map, 0x63000, 0x1000) == ["f99", ""]
    assert perf_map.garbage == 0
    perf_map.file.close()


def test_zeros_without_an_end_are_no_names(path: Path) -> None:
    path.write_text("1000 10 one\n")
    with path.open("r+") as file:
        file.truncate(8 << 20)
    perf_map = opened(path)
    assert names(perf_map, 0x1000) == ["one"]
    assert len(perf_map) == 1
    perf_map.file.close()


def refusal_of(path: Path) -> str:
    perf_map = opened(path)
    assert not perf_map.file.is_open
    assert len(perf_map) == 0
    return perf_map.file.refusal


def test_what_is_no_file_of_the_target_is_not_read(path: Path, tmp_path: Path) -> None:
    os.mkfifo(path)
    assert refusal_of(path) == "it is not a regular file"
    path.unlink()
    path.mkdir()
    assert refusal_of(path) == "it is not a regular file"
    path.rmdir()
    assert "not a regular file" in refusal_of(Path("/dev/zero"))
    (tmp_path / "real").write_text("1000 10 one\n")
    path.symlink_to(tmp_path / "real")
    assert refusal_of(path) == "it is a symbolic link"


def test_what_belongs_to_another_user_is_not_read(path: Path) -> None:
    path.write_text("1000 10 one\n")
    perf_map = opened(path, owners=lambda: frozenset((ME + 1,)))
    assert f"belongs to user {ME}" in perf_map.file.refusal
    assert names(perf_map, 0x1000) == [""]


def test_map_of_an_earlier_process_is_not_read_until_this_one_writes(path: Path) -> None:
    path.write_text("1000 10 one\n")
    os.utime(path, (1000, 1000))
    flags = os.O_PATH | os.O_NOFOLLOW
    file = AppendedFile(
        str(path), lambda: os.open(path, flags), lambda: frozenset((ME,)), not_before_s=2000
    )
    perf_map = PerfMap(file)
    read(perf_map)
    assert "older than the process" in file.refusal
    os.utime(path, (3000, 3000))
    assert read(perf_map) is Growth.ANEW
    assert file.refusal == ""
    assert names(perf_map, 0x1000) == ["one"]
    file.close()


def brute_force(text: str, address: int) -> str:
    """The name at an address, by looking at every line."""
    name = ""
    for line in text.splitlines():
        start, size, what = line.split(None, 2)
        if int(start, 16) <= address < int(start, 16) + int(size, 16):
            name = what
    return name


@pytest.mark.parametrize("seed", range(4))
def test_names_are_those_of_a_search_through_all_lines(path: Path, seed: int) -> None:
    """Ranges of all sizes that overlap in all ways, in pieces."""
    chance = random.Random(seed)
    sizes = [1, 9, 300, 5000, 1 << 15]
    text = ""
    perf_map = opened(path)
    for piece in range(12):
        lines = [
            f"{chance.randrange(1 << 16):x} {chance.choice(sizes):x} f{piece}_{i}"
            for i in range(chance.randrange(60))
        ]
        new = "".join(f"{line}\n" for line in lines)
        text += new
        append(path, new)
        read(perf_map)
        asked = [chance.randrange(1 << 17) for _ in range(40)]
        assert names(perf_map, *asked) == [brute_force(text, address) for address in asked]
    perf_map.file.close()


def test_many_candidates_are_looked_at_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    ranges = CodeRanges()
    n = 200
    ranges.add(
        Ranges(np.arange(n, dtype=np.uint64), np.full(n, 1000, np.uint64), np.arange(n) * 3, None)
    )
    asked = np.arange(0, 300, dtype=np.uint64)
    whole = ranges.find(asked, np.full(300, ANY_TIME_NS))
    monkeypatch.setattr(code_ranges, "_CANDIDATES", 7)
    parts = ranges.find(asked, np.full(300, ANY_TIME_NS))
    assert whole.key.tolist() == parts.key.tolist() == [3 * min(i, n - 1) for i in range(300)]


def test_oldest_ranges_go_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_ranges, "MAX_RANGES", 1000)
    ranges = CodeRanges()
    for i in range(0, 3000, 100):
        start = np.arange(i, i + 100, dtype=np.uint64) * np.uint64(16)
        ranges.add(Ranges(start, start + np.uint64(16), np.arange(i, i + 100), None))
    assert 700 < len(ranges) <= 1000
    assert len(ranges) + ranges.dropped == 3000
    found = ranges.find(np.array([0, 16 * 2999], np.uint64), np.full(2, ANY_TIME_NS))
    assert found.key.tolist() == [NOT_FOUND, 2999]


def test_code_made_again_and_again_takes_no_more_room(path: Path) -> None:
    perf_map = opened(path)
    for i in range(300):
        append(path, "".join(f"{a:x} 100 f{i}\n" for a in range(0x1000, 0x3000, 0x100)))
        read(perf_map)
    assert len(perf_map) < 200
    assert names(perf_map, 0x1000, 0x2FFF) == ["f299", "f299"]
    perf_map.file.close()


def test_memory_grows_by_little_a_line(path: Path) -> None:
    """How long 10^6 lines take was measured by hand: 1.4 s on a busy core."""
    lines = 200_000
    with path.open("w") as file:
        for i in range(lines):
            file.write(f"{0x7F0000000000 + 64 * i:x} 40 LazyCompile:*function{i} /app/x.js:{i}:1\n")
    tracemalloc.start()
    perf_map = opened(path)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(perf_map) == lines
    assert names(perf_map, 0x7F0000000000 + 64 * 123_456 + 63) == [
        "LazyCompile:*function123456 /app/x.js:123456:1"
    ]
    # 32 bytes a line that stay, and about as much again while runs are put together.
    assert peak_bytes < 250 * lines
    perf_map.file.close()
