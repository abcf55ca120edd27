"""Where the stub may lie: in executable bytes that belong to nothing."""

from __future__ import annotations

import contextlib
import itertools
import struct
import subprocess
import sys
from collections.abc import Iterator
from typing import cast

import pytest

from flametap.agent import machine_code
from flametap.errors import CannotAttachError
from flametap.inject.direct import slack
from flametap.inject.direct.stub import Stub
from flametap.inject.link.target_memory import TargetMemory
from flametap.linux import procfs
from flametap.linux.maps import Mapping, read_maps
from running import wait_until

CODE = bytes(range(1, 201)) * 2  # no zero in it
NAP = 150
PAGE = 4096
VDSO, PROGRAM, LIBRARY = 0x7FFC_0000_0000, 0x40_0000, 0x7F00_0000_0000
SECTION_BYTES = 64


class FakeMemory:
    """The memory of a process that does not exist."""

    pid = 0x7FFF_FFFF

    def __init__(self, pieces: dict[int, bytes]) -> None:
        self._pieces = pieces

    def read(self, start: int, size_bytes: int) -> bytes:
        for at, piece in self._pieces.items():
            if at <= start < at + len(piece):
                return piece[start - at :][:size_bytes]
        return b""


def image(
    pages: int, *, end: int, offset: int = 0, sections_end: int = 0, text: bytes = b"\xcc"
) -> bytes:
    """An ELF file in memory: one segment with code, up to ``end``; ``text`` fills it.

    Args:
        pages: of the mapping.
        end: of the segment, in bytes from its start.
        offset: of the first address as linked.
        sections_end: where the table of sections ends.
        text: repeated up to the end.
    """
    sections = 4 if sections_end else 0
    sections_at = sections_end - sections * SECTION_BYTES if sections else 0
    tables = struct.pack("<QQIHHHHHH", 64, sections_at, 0, 64, 56, 1, SECTION_BYTES, sections, 0)
    head = b"\x7fELF\2\1".ljust(32, b"\0") + tables
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, offset, offset, end, end, PAGE)
    whole = (head + segment).ljust(200, b"\0") + text * (end // len(text))
    return whole[:end].ljust(pages * PAGE, b"\0")


def find(monkeypatch: pytest.MonkeyPatch, mappings: list[Mapping], pieces: dict[int, bytes]) -> int:
    monkeypatch.setattr(slack, "read_maps", lambda folder: iter(mappings))
    return slack.find(cast(TargetMemory, FakeMemory(pieces)), CODE, NAP)


def vdso(pages: int = 2) -> Mapping:
    return Mapping(VDSO, VDSO + pages * PAGE, "r-xp", 0, "[vdso]")


def library(pages: int = 3, permissions: str = "r-xp", path: str = "/lib/libx.so") -> Mapping:
    return Mapping(LIBRARY, LIBRARY + pages * PAGE, permissions, 0, path)


def last_place(mapping: Mapping) -> int:
    return (mapping.end - len(CODE)) & -16


def test_vdso_is_the_first_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = {VDSO: image(2, end=5000), LIBRARY: image(3, end=9000)}
    assert find(monkeypatch, [library(), vdso()], pieces) == last_place(vdso())


@pytest.mark.parametrize(
    "full",
    [
        image(2, end=2 * PAGE - len(CODE) + 1),  # the image ends too late
        image(2, end=2 * PAGE - len(CODE) + 1, text=b"\0"),  # though with zeros
        image(2, end=5000, sections_end=2 * PAGE - 100),  # its table of sections lies there
        image(2, end=5000)[:-1] + b"x",
        image(2, end=5000)[: -len(CODE) - 40] + b"x" + bytes(len(CODE) + 39),  # right before it
        bytes(2 * PAGE),  # nobody knows where it ends
        b"\x7fELF" + bytes(2 * PAGE - 4),
    ],
    ids=range(7),
)
def test_other_code_serves_where_the_vdso_has_no_room(
    monkeypatch: pytest.MonkeyPatch, full: bytes
) -> None:
    pieces = {VDSO: full, LIBRARY: image(3, end=9000)}
    assert find(monkeypatch, [library(), vdso()], pieces) == last_place(library())


def test_later_part_of_a_file_has_its_headers_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """As linkers lay it out: headers, then code in a mapping of its own."""
    whole = image(3, end=9000, offset=0x10000)
    mappings = [
        Mapping(PROGRAM, PROGRAM + PAGE, "r--p", 0, "/bin/x"),
        Mapping(PROGRAM + PAGE, PROGRAM + 3 * PAGE, "r-xp", PAGE, "/bin/x"),
    ]
    # The code's segment begins with its mapping.
    segment = struct.pack("<IIQQQQQQ", 1, 5, PAGE, 0x11000, 0x11000, 9000 - PAGE, 9000 - PAGE, PAGE)
    first = struct.pack("<IIQQQQQQ", 1, 4, 0, 0x10000, 0x10000, 500, 500, PAGE)
    head = bytearray(whole[:PAGE])
    struct.pack_into("<H", head, 56, 2)
    head[64 : 64 + 112] = first + segment
    pieces = {PROGRAM: bytes(head) + whole[PAGE:]}
    assert find(monkeypatch, mappings, pieces) == last_place(mappings[1])


@pytest.mark.parametrize(
    "mapping",
    [
        library(permissions="rwxp"),  # a program that writes code
        library(permissions="r-xs"),  # others have it, too
        library(permissions="r--p"),
        library(path=""),
        library(path="[vsyscall]"),
    ],
)
def test_other_memory_is_not_touched(monkeypatch: pytest.MonkeyPatch, mapping: Mapping) -> None:
    with pytest.raises(CannotAttachError, match="no 400 unused bytes") as refused:
        find(monkeypatch, [mapping], {LIBRARY: image(3, end=9000)})
    assert refused.value.hint


def left_over(filled: bytes = CODE) -> bytes:
    whole = bytearray(image(2, end=5000))
    at = (2 * PAGE - len(CODE)) & -16
    whole[at : at + len(filled)] = filled
    return bytes(whole)


def test_what_a_host_left_that_was_killed_is_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    filled = CODE[:NAP] + bytes(reversed(CODE[NAP:]))  # with another thread's state
    assert find(monkeypatch, [vdso()], {VDSO: left_over(filled)}) == last_place(vdso())


def test_stub_that_is_in_use_is_not_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slack, "is_in_use", lambda pid, place: len(place) == len(CODE))
    with pytest.raises(CannotAttachError, match="still holds the agent of another"):
        find(monkeypatch, [vdso()], {VDSO: left_over()})


def test_what_only_begins_like_it_is_others(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CannotAttachError, match="no 400 unused bytes"):
        find(monkeypatch, [vdso()], {VDSO: left_over(CODE[: NAP - 1] + b"\0" + CODE[NAP:])})


def test_process_that_has_gone_has_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CannotAttachError):
        find(monkeypatch, [vdso(), library()], {})


@contextlib.contextmanager
def running(code: str) -> Iterator[int]:
    """A Python that runs this; its number."""
    command = [sys.executable, "-I", "-S", "-c", f"{code}; print('ready', flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            wait_until(lambda: procfs.read_task_state(process.pid, process.pid) == "S", "its wait")
            yield process.pid
        finally:
            process.kill()


@pytest.mark.needs("attach", "gcc")
def test_real_process_has_room_in_its_vdso() -> None:
    stub = Stub.of(machine_code.read())
    with running("pass") as pid:
        with contextlib.closing(TargetMemory(pid)) as memory:
            place = slack.find(memory, stub.code, stub.nap_offset)
            assert not any(memory.read(place, len(stub.code)))
        slack.check(pid)
        found = next(each for each in read_maps(f"/proc/{pid}") if each.start <= place < each.end)
        assert found.path == "[vdso]"
        assert place + len(stub.code) <= found.end
        assert not slack.is_in_use(pid, range(place, place + len(stub.code)))


@pytest.mark.needs("attach")
def test_thread_of_ours_is_known_by_its_name_or_where_it_waits() -> None:
    with running("pass") as pid:
        assert slack.is_in_use(pid, range(1 << 47))
        assert not slack.is_in_use(pid, range(1))
    with running("open('/proc/self/comm', 'w').write('flametap')") as pid:
        assert slack.is_in_use(pid, range(1))
    assert not slack.is_in_use(pid, range(1 << 47))


@pytest.mark.needs("attach")
@pytest.mark.parametrize(("used_ns", "is_in_use"), [(0, True), (100_000, False)])
def test_running_thread_has_left_once_it_has_used_cpu_time(
    monkeypatch: pytest.MonkeyPatch, used_ns: int, is_in_use: bool
) -> None:
    """It cannot be seen where it is, and one that waits for a CPU stays there."""
    monkeypatch.setattr(slack, "LOOK_INTERVAL_S", 0)
    monkeypatch.setattr(slack, "read_call", lambda pid, tid: None)
    cpu_ns = itertools.count(step=used_ns) if used_ns else itertools.repeat(7)
    monkeypatch.setattr(slack, "cpu_ns", lambda pid, tid: next(cpu_ns))
    with running("pass") as pid:
        assert slack.is_in_use(pid, range(1)) == is_in_use


IS_OURS = slack._is_ours


@pytest.mark.needs("attach")
def test_thread_that_was_made_meanwhile_is_looked_at_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with running("pass") as pid, running("open('/proc/self/comm', 'w').write('flametap')") as made:
        found = iter([frozenset({pid}), frozenset({pid, made})])
        monkeypatch.setattr(slack, "tasks", lambda _: next(found))
        monkeypatch.setattr(slack, "_is_ours", lambda _, tid: IS_OURS(tid, tid))
        assert slack.is_in_use(pid, range(1))
