"""Folded stacks: who wrote them, their threads, frames and weights; real files of three tools."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from flametap.errors import InputError
from flametap.export.folded import clean
from flametap.foreign.folded import matches
from flametap.foreign.opening import open_file
from flametap.model import Clock, FrameKind
from foreign_files import error_of, exported, random_recording, stacks
from foreign_text import frames, kept, read, thread_stacks

Row = tuple[str, str, str, int, FrameKind, str]


def rows(text: str) -> list[Row]:
    """Name, module, file, line, kind and tier of each frame."""
    found = []
    for each in frames(read(text)):
        what = each.function
        found.append((what.name, what.module, each.file, each.line, what.kind, each.tier))
    return found


def plain_sums(text: str) -> Counter[str]:
    """What a script of three lines makes of a file."""
    found: Counter[str] = Counter()
    for line in text.splitlines():
        stack, _, weight = line.rpartition(" ")
        found[stack] += int(weight)
    return found


def test_equal_stacks_are_added_up() -> None:
    recording = read("main;work 2\nmain 1\n\nmain;work 3\r\nmain;operator new 4")
    assert stacks(recording) == {("main", "work"): 5, ("main",): 1, ("main", "operator new"): 4}
    status = recording.status()
    assert (status.source, status.weights, status.samples) == ("folded stacks", "samples", 10)
    assert not status.has_moments


def test_frames_of_py_spy() -> None:
    text = (
        'process 7:"python a.py; x";process 9:"python b";thread (0x7F01): Main;f (a/b.py:12) 2\n'
        'process 7:"python a.py; x";thread (12);0x7f12 (libc.so.6);g (c.c:3);<m> (<string>:1) 3\n'
    )
    recording = read(text)
    assert recording.status().source == "folded stacks, by py-spy"
    infos = recording.profile.thread_infos()
    assert [(each.name, each.tid) for each in infos] == [("Main", 0), ("", 12)]
    assert rows(text) == [
        ("f", "", "a/b.py", 12, FrameKind.PYTHON, ""),
        ("0x7f12", "libc.so.6", "", 0, FrameKind.UNKNOWN, ""),
        ("g", "", "c.c", 3, FrameKind.NATIVE, ""),
        ("<m>", "", "<string>", 1, FrameKind.PYTHON, ""),
    ]
    one = read('process 7:"python a.py";thread (12): t;f (a.py:1) 1\n').status()
    assert (one.pid, one.program) == (7, "python a.py")


def test_frames_of_async_profiler() -> None:
    text = (
        "[main x tid=5];start_thread;java/lang/Thread.run_[0];A.f_[1];A.g_[j];a/B.<init>_[i] 1\n"
        "[tid=6];J$$Lambda$14/0x00007f28740a.run_[j];byte[]_[k] 1\nvfs_read_[k] 1\n"
    )
    recording = read(text)
    assert recording.status().source == "folded stacks, by async-profiler"
    infos = recording.profile.thread_infos()
    assert [(each.name, each.tid) for each in infos] == [("main x", 5), ("", 6), ("", 0)]
    java = FrameKind.JAVA
    assert rows(text) == [
        ("start_thread", "", "", 0, FrameKind.NATIVE, ""),
        ("java.lang.Thread.run", "", "", 0, java, "interpreted"),
        ("A.f", "", "", 0, java, "compiled by C1"),
        ("A.g", "", "", 0, java, "compiled"),
        ("a.B.<init>", "", "", 0, java, "inlined"),
        ("J$$Lambda.run", "", "", 0, java, "compiled"),
        ("byte[]", "", "", 0, java, ""),
        ("vfs_read", "[kernel]", "", 0, FrameKind.NATIVE, ""),
    ]


def test_frames_of_stackcollapse() -> None:
    text = (
        "c prog-7/8;main;List::push(int)_[i];do_read_[k] 1\njava-7/9;La/B:::c_[j];stub_[j];[libc] 2"
    )
    recording = read(text)
    assert recording.status().source == "folded stacks"
    infos = recording.profile.thread_infos()
    assert [(each.name, each.tid) for each in infos] == [("c prog", 8), ("java", 9)]
    assert rows(text) == [
        ("main", "", "", 0, FrameKind.NATIVE, ""),
        ("List::push(int)", "", "", 0, FrameKind.INLINED, ""),
        ("do_read", "[kernel]", "", 0, FrameKind.NATIVE, ""),
        ("a.B.c", "", "", 0, FrameKind.JAVA, ""),
        ("stub", "[jit]", "", 0, FrameKind.NATIVE, ""),
        ("[libc]", "", "", 0, FrameKind.UNKNOWN, ""),
    ]


NATIVE = "".join(f"main;f{number} 1\n" for number in range(60))


@pytest.mark.parametrize(
    "frames",
    [
        ("GC (young)", "GC (old)"),
        ("foo(int)", "foo(char)"),
        ("net/http.HandlerFunc.ServeHTTP", "net.http.HandlerFunc.ServeHTTP"),
        ("a (200)", "a (404)"),
        ("x::f(int) const", "x::f(int)"),
    ],
)
def test_different_names_are_different_functions(frames: tuple[str, str]) -> None:
    text = "".join(f"main;{each};x {n}\n" for n, each in enumerate(frames, 5))
    wanted = {("main", each, "x"): n for n, each in enumerate(frames, 5)}
    assert stacks(read(text)) == wanted
    assert set(stacks(read(NATIVE + text)).items()) >= set(wanted.items())


def test_places_are_recognised_in_any_line() -> None:
    text = f"{NATIVE}main;work (app/a.py);g (my b.pyx:3);h (libc.so.6) 1\nmain;work (app/b.py) 1\n"
    assert rows(text)[-4:] == [
        ("work", "", "app/a.py", 0, FrameKind.PYTHON, ""),
        ("g", "", "my b.pyx", 3, FrameKind.PYTHON, ""),
        ("h", "libc.so.6", "", 0, FrameKind.NATIVE, ""),
        ("work", "", "app/b.py", 0, FrameKind.PYTHON, ""),
    ]


def test_packages_of_go_are_no_classes_of_java() -> None:
    go = ["net/http.HandlerFunc.ServeHTTP", "encoding/json.Marshal", "github.com/Org/x.F"]
    java = ["java/lang/Thread.run", "com/sun/A.b", "La/b:::c"]
    text = f"{';'.join(go + java)} 1\n"
    kinds = {name: kind for name, _, _, _, kind, _ in rows(NATIVE + text)[-6:]}
    assert list(kinds.items())[:3] == [(each, FrameKind.NATIVE) for each in go]
    assert list(kinds.values())[3:] == [FrameKind.JAVA] * 3
    marked = rows("io/netty/x/y.z;a_[j] 1\n")
    assert marked[0][0] == "io.netty.x.y.z"


def test_root_with_a_number_is_a_thread_if_all_are() -> None:
    recording = read("GET (200);x 5\nPOST (404);x 1\nmain;x 2\n")
    assert [each.name for each in recording.profile.thread_infos()] == [""]
    assert ("GET (200)", "x") in stacks(recording)


@pytest.mark.parametrize("seed", range(2))
def test_our_own_file_has_the_same_tree(tmp_path: Path, seed: int) -> None:
    recording = random_recording(seed)
    for clock in Clock:
        found = stacks(open_file(str(exported(recording, tmp_path, "x.txt", "folded", clock))))
        wanted: Counter[tuple[str, ...]] = Counter()
        for path, weight in stacks(recording, clock).items():
            wanted[tuple(map(clean, path))] += weight
        assert set(found) == set(wanted)
        assert all(abs(found[path] * 1000 - ns) <= 1000 for path, ns in wanted.items())


def test_frames_may_end_in_a_number() -> None:
    assert stacks(read("a;b 5 7\na;c 3\n")) == {("a", "b 5"): 7, ("a", "c"): 3}


def test_our_own_threads_are_threads() -> None:
    recording = read("worker 1 (77);f (a/b.py);g 3\nMainThread (70);f (a/b.py) 1\n")
    infos = recording.profile.thread_infos()
    assert [(each.name, each.tid) for each in infos] == [("worker 1", 77), ("MainThread", 70)]
    assert frames(recording)[0].function.file == "a/b.py"


def test_fractions_keep_their_digits() -> None:
    recording = read("a 12.5\na;b 1\na 0.25\n")
    assert stacks(recording) == {("a",): 12_750, ("a", "b"): 1000}
    status = recording.status()
    assert status.weights == "thousandths"
    assert status.notes == ["its weights are fractions, and shown in thousandths"]
    assert stacks(read("a;b 0.00000125\n")) == {("a", "b"): 1250}
    assert read("a;b 2.0\n").status().weights == "samples"


@pytest.mark.parametrize("name", ["pyspy.raw", "pyspy-merged.raw", "async-profiler.collapsed"])
def test_sums_of_real_files(name: str) -> None:
    """Threads and all: ours, put together again, are what is in the file."""
    text = kept(name).decode()
    recording = read(text)
    assert sum(stacks(recording).values()) == sum(plain_sums(text).values())
    by_thread: Counter[str] = Counter()
    for path, weight in thread_stacks(recording).items():
        by_thread[path[0]] += weight
    for thread, weight in by_thread.items() if by_thread.keys() != {""} else ():
        lines = [
            line
            for line in text.splitlines()
            if f"[{thread} tid=" in line or f"): {thread};" in line
        ]
        assert weight == sum(plain_sums("\n".join(lines)).values()), thread
    assert len(thread_stacks(recording)) <= len(plain_sums(text))


def test_allocated_classes_are_no_kernel() -> None:
    recording = read(kept("async-profiler-alloc.collapsed"))
    assert {path[-1] for path in stacks(recording)} == {"byte[]", "java.lang.StringBuilder"}
    assert {each.module for each in recording.functions} == {""}


@pytest.mark.parametrize(
    ("text", "is_folded"),
    [
        ("main;f 1", True),
        ("main 1", False),
        ("<module> (t.py:14) 1\nf (a/b.py) 2\n", True),
        ("vfs_read_[k] 1\n", True),
        ("thread (0x7F): main 1\n", True),
        ("[main tid=7];a/B.c 1\n", True),
        ("[truncated] 1\n[a];b 1\n", True),
        ("{closure};f 1\n", True),
        ("# made by hand\nmain;a b 1\n", True),
        ("a;b 1\n" * 60 + "and then a remark\n", True),
        ("a;b 1\n" * 40 + "and then a remark\n", False),
        ("Chapter 1\nIt was a dark night.\n", False),
        ("[1, 2", False),
        ('{"a": ";", "b": 1\n', False),
        ("a,b,1\n", False),
        ("", False),
        ("\0 1\n", False),
        ("root;" + "very_long;" * 10_000, True),
    ],
)
def test_what_is_recognised(text: str, is_folded: bool) -> None:
    assert matches(text.encode()[: 1 << 16]) is is_folded


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a;b 1\n" * 60 + "b c\n", "line 61: it does not end in a weight"),
        ("a;b 1\n" * 60 + "b -5\n", "line 61: it does not end in a weight"),
        ("a;b 1\n" * 60 + "b nan\n", "line 61: it does not end in a weight"),
        ("a;b 1\n" * 60 + f"b {1 << 63}\n", "line 61: its weight is too large"),
        ("a;b 1\n" * 60 + "b;" * 600_000 + " 1\n", "line 61: longer than 1,048,576 bytes"),
        (f"a;b {1 << 59}\nb {1 << 59}\n", "its weights are too large"),
        ("a;b 0\n", "no samples"),
        ("a;b 5 7\na 0 3\n" * 60, "the weights of two profiles"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, text: str, why: str) -> None:
    assert why in error_of(tmp_path, text)


def test_deep_stacks_and_bytes_that_are_no_text() -> None:
    recording = read(b"f;" * 100_000 + b"\xff\xfe 3\n")
    assert "left out" in recording.status().notes[0]
    assert stacks(read(b"a\xff;\x1b[0m 1\n")) == {("a\ufffd", "\x1b[0m"): 1}


def test_many_lines_need_memory_for_different_stacks_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The texts that are known are forgotten when they become too many; the sums stay."""
    monkeypatch.setattr("flametap.foreign.stack_sums._MAX_CHARACTERS", 40)
    lines = [f"main;f{number} 1" for number in range(30)] * 20
    random.Random(1).shuffle(lines)
    assert set(stacks(read("\n".join(lines))).values()) == {20}
    monkeypatch.setattr("flametap.foreign.stack_sums._MAX_SUMS", 20)
    with pytest.raises(InputError, match="more stacks of threads than fit"):
        read("\n".join(lines))
