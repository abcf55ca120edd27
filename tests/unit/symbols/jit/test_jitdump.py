"""Jitdumps: code by address and time, moved code, source lines, files that are damaged."""

from __future__ import annotations

import os
import random
import struct
from pathlib import Path

import numpy as np
import pytest

from flametap.symbols.jit import jitdump
from flametap.symbols.jit.code_ranges import ANY_TIME_NS, NOT_FOUND
from flametap.symbols.jit.growing_file import AppendedFile, Growth
from flametap.symbols.jit.jitdump import JitDump
from flametap.symbols.jit.lines import SourceLine
from jitdumps import (
    CLOSE,
    DEBUG_INFO,
    ELF_HEADER_BYTES,
    UNWINDING_INFO,
    debug_info,
    header,
    load,
    move,
    record,
)

BASE = 0x7F0000001000


def opened(path: Path) -> JitDump:
    """The dump at a path, read as far as it goes."""
    flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
    owners = frozenset((os.getuid(),))
    dump = JitDump(AppendedFile(str(path), lambda: os.open(path, flags), lambda: owners))
    read(dump)
    return dump


def read(dump: JitDump) -> Growth:
    growth = dump.look()
    while dump.read_more():
        pass
    return growth


def find(dump: JitDump, address: int, seen_ns: int = ANY_TIME_NS) -> tuple[int, int]:
    found = dump.find(np.array([address], np.uint64), np.array([seen_ns], np.int64))
    return int(found.key[0]), int(found.start[0])


def name(dump: JitDump, address: int, seen_ns: int = ANY_TIME_NS) -> str:
    key, start = find(dump, address, seen_ns)
    return "" if key == NOT_FOUND else dump.name(key, start)


def line(dump: JitDump, address: int) -> SourceLine | None:
    key, start = find(dump, address)
    return dump.source_line(key, start, address)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jit-1.dump"


@pytest.mark.parametrize("order", ["<", ">"])
def test_loaded_code_has_its_name(path: Path, order: str) -> None:
    path.write_bytes(
        header(order=order)
        + load(BASE, 16, "py::f:/a.py", order=order)
        + load(BASE + 64, 8, "JS:*g /a.js:1:2", order=order)
    )
    dump = opened(path)
    assert [name(dump, BASE + i) for i in (0, 15, 16, 64)] == [
        *("py::f:/a.py", "py::f:/a.py", "", "JS:*g /a.js:1:2"),
    ]
    assert (dump.problem, dump.has_lines, len(dump)) == ("", False, 2)
    dump.file.close()


def test_code_is_what_was_there_when_it_was_seen(path: Path) -> None:
    path.write_bytes(
        header()
        + load(BASE, 16, "first", at_ns=100)
        + load(BASE + 8, 16, "second", at_ns=200)
        + load(BASE, 16, "third", at_ns=300)
    )
    dump = opened(path)
    assert [name(dump, BASE + 8, at) for at in (99, 100, 199, 200, 299, 300)] == [
        *("", "first", "first", "second", "second", "third"),
    ]
    assert [name(dump, BASE, at) for at in (99, 299, 300)] == ["", "first", "third"]
    dump.file.close()


def test_timestamps_of_another_clock_are_not_believed(path: Path) -> None:
    path.write_bytes(header(flags=1) + load(BASE, 16, "f", at_ns=10**18))
    dump = opened(path)
    assert name(dump, BASE, 5) == "f"
    dump.file.close()


def test_moved_code_keeps_its_name_and_leaves_nothing_behind(path: Path) -> None:
    path.write_bytes(
        header()
        + debug_info(BASE, [(BASE, 7, "/a.js"), (BASE + 8, 8, "")])
        + load(BASE, 16, "f", at_ns=100)
        + move(BASE, BASE + 8, 16, at_ns=200)
        + move(BASE + 8, BASE + 4096, 16, at_ns=300)
    )
    dump = opened(path)
    assert [name(dump, BASE, at) for at in (150, 250)] == ["f", ""]
    assert [name(dump, BASE + 20, at) for at in (150, 250, 350)] == ["", "f", ""]
    assert [name(dump, BASE + 4096, at) for at in (250, 300)] == ["", "f"]
    assert line(dump, BASE + 4096 + 9) == SourceLine("/a.js", 8)
    dump.file.close()


def test_code_that_moved_from_nowhere_has_no_name(path: Path) -> None:
    path.write_bytes(header() + move(BASE, BASE + 64, 16) + move(1 << 63, BASE, 16))
    dump = opened(path)
    assert [name(dump, BASE), name(dump, BASE + 64)] == ["", ""]
    dump.file.close()


@pytest.mark.parametrize("shift", [0, ELF_HEADER_BYTES])
def test_source_lines_by_address(path: Path, shift: int) -> None:
    """V8 and LLVM count from an ELF header that "perf inject" will put before the code."""
    lines = [(BASE + 32 + shift, 5, "/b.js"), (BASE + shift, 3, "/a.js"), (BASE + 8 + shift, 4, "")]
    path.write_bytes(
        header()
        + debug_info(BASE, lines)
        + record(UNWINDING_INFO, bytes(40))
        + load(BASE, 100, "f")
        + load(BASE + 4096, 100, "without")
        + record(CLOSE, b"")
    )
    dump = opened(path)
    assert dump.has_lines
    found = [line(dump, BASE + i) for i in (0, 7, 8, 31, 32, 99)]
    # The second line has the file of the line before it in the record.
    assert found == [
        *(SourceLine("/a.js", 3), SourceLine("/a.js", 3), SourceLine("/a.js", 4)),
        *(SourceLine("/a.js", 4), SourceLine("/b.js", 5), SourceLine("/b.js", 5)),
    ]
    assert line(dump, BASE + 4096) is None
    dump.file.close()


@pytest.mark.parametrize("count", [1, 2, 3, 20])
def test_lines_with_file_names_that_v8_has_freed(path: Path, count: int) -> None:
    """As node 20 writes them: the allocator has put its own into the first 16 bytes."""
    names = b"\xbe)b?\0\0\0\0\x12\x34\x56\x78\0\0\0\0gets/ratio.js\0"
    entries = b"".join(
        struct.pack("<QII", BASE + ELF_HEADER_BYTES + 4 * i, 7 + i, 3) + names for i in range(count)
    )
    payload = struct.pack("<QQ", BASE, count) + entries
    padded = payload + bytes(-len(payload) % 8)
    path.write_bytes(header() + record(DEBUG_INFO, padded) + load(BASE, 100, "f"))
    dump = opened(path)
    assert line(dump, BASE + 4 * count - 1) == SourceLine("", 6 + count)
    dump.file.close()


def test_lines_that_make_no_sense_are_none(path: Path) -> None:
    path.write_bytes(
        header()
        + debug_info(BASE, [(BASE - 8, 3, "/a.js"), (BASE + 8, 4, "/bb.js")])
        + load(BASE, 100, "f")
        + debug_info(BASE + 4096, [(BASE + 4096, 1 << 31, "/a.js")])
        + load(BASE + 4096, 100, "f")
    )
    dump = opened(path)
    assert [line(dump, BASE), line(dump, BASE + 4096)] == [None, None]
    dump.file.close()


def test_record_counts_when_it_is_all_there(path: Path) -> None:
    whole = header() + load(BASE, 16, "one", at_ns=1) + load(BASE + 64, 16, "two", at_ns=2)
    dump = opened(path)
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size]) if size == 0 else append(path, whole[size - 1 : size])
        read(dump)
        assert dump.problem == ""
    assert [name(dump, BASE), name(dump, BASE + 64)] == ["one", "two"]
    assert dump.file.position == len(whole)
    dump.file.close()


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_records_larger_than_a_chunk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jitdump, "CHUNK_BYTES", 256)
    path.write_bytes(
        header() + b"".join(load(BASE + i * 4096, 50 * i, f"f{i}", at_ns=i) for i in range(1, 40))
    )
    dump = opened(path)
    assert [name(dump, BASE + i * 4096) for i in range(1, 40)] == [f"f{i}" for i in range(1, 40)]
    dump.file.close()


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\x7fELF" + bytes(100), "it is not a jitdump"),
        (header(version=2), "its version 2 is unknown"),
        (header() + load(BASE, 16, "f") + struct.pack("<IIQ", 0, 3, 0), "3 bytes"),
        (header() + load(BASE, 16, "f") + struct.pack("<IIQ", 0, 1 << 31, 0), "2147483648 bytes"),
        (header() + load(BASE, 16, "f") + struct.pack("<IIQ", 0, 16, 0), "too short"),
    ],
)
def test_damage_ends_the_reading_and_is_said(path: Path, data: bytes, problem: str) -> None:
    path.write_bytes(data)
    dump = opened(path)
    assert problem in dump.problem
    assert name(dump, BASE) == ("f" if len(dump) else "")
    dump.file.close()


def test_no_damage_makes_it_raise(path: Path) -> None:
    """Bytes changed and cut at random; what is found must be read without a fault."""
    chance = random.Random(1)
    whole = header() + b"".join(
        debug_info(BASE + i * 64, [(BASE + i * 64, i, "/a.js"), (BASE + i * 64 + 4, i, "")])
        + load(BASE + i * 64, 48, f"f{i}", at_ns=i)
        + move(BASE + i * 64, BASE + i * 640, 48, at_ns=i + 1)
        for i in range(1, 12)
    )
    for _ in range(100):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 12)):
            data[chance.randrange(len(data))] = chance.choice((0, 1, 0x7F, 0xFF))
        path.write_bytes(data[: chance.randrange(len(data))])
        dump = opened(path)
        for i in range(12):
            for address in (BASE + i * 64, BASE + i * 640 + 5):
                name(dump, address)
                line(dump, address)
        dump.file.close()


def test_truncated_behind_our_back(path: Path) -> None:
    path.write_bytes(header() + debug_info(BASE, [(BASE, 1, "/a")]) + load(BASE, 16, "f"))
    dump = opened(path)
    key, start = find(dump, BASE)
    os.truncate(path, 50)
    assert dump.name(key, start) == ""
    assert dump.source_line(key, start, BASE) is None
    assert read(dump) is Growth.ANEW
    assert len(dump) == 0
    dump.file.close()
