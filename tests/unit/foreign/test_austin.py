"""austin's stacks: its modes, threads and frames; real files against austin's own converter."""

from __future__ import annotations

from pathlib import Path

import pytest

from flametap.model import Clock, FrameKind
from foreign_files import error_of, stacks
from foreign_text import clock_of, frames, kept, read

HEAD = "# austin: 4.0.0\n# interval: 10000\n# mode: {}\n"


def test_time_is_in_nanoseconds() -> None:
    text = "P7;T0:9;a.py:<module>:3;b/c.py:C.f:12 250\nP7;T0:0x7f01;a.py:<module>:3 1\n"
    text += "P7;T0:9;a.py:<module>:3;b/c.py:C.f:12 50\n# duration: 301\n"
    for mode, clock in (("wall", "wall"), ("cpu", "cpu")):
        recording = read(HEAD.format(mode) + text)
        status = recording.status()
        assert (status.source, status.clocks, status.weights) == (
            "folded stacks, by austin",
            [clock],
            "",
        )
        assert (status.pid, status.samples, status.has_moments) == (7, 3, False)
        assert stacks(recording, Clock(clock)) == {
            ("<module>", "C.f"): 300_000,
            ("<module>",): 1000,
        }
    infos = recording.profile.thread_infos()
    assert [(each.name, each.tid) for each in infos] == [("", 9), ("0x7f01", 0)]
    first, second = frames(recording)
    assert (second.function.name, second.file, second.line) == ("C.f", "b/c.py", 12)
    assert (first.function.kind, first.line) == (FrameKind.PYTHON, 3)


def test_memory_is_bytes_that_were_taken() -> None:
    recording = read(HEAD.format("memory") + "P7;T9;a.py:f:1 4096\nP7;T9;a.py:f:1 -1024\n")
    assert stacks(recording) == {("f",): 4096}
    status = recording.status()
    assert (status.weights, status.notes) == ("bytes", ["1 release of memory left out"])


def test_idle_time_of_the_full_mode_is_no_cpu_time() -> None:
    recording = read(HEAD.format("full") + "P7;T9;a.py:f:1 40,0,512\nP7;T9;a.py:f:1 60,1,0\n")
    assert recording.status().clocks == ["wall", "cpu"]
    assert stacks(recording) == {("f",): 100_000}
    assert stacks(recording, Clock.CPU) == {("f",): 40_000}


def test_without_a_header_it_is_time() -> None:
    recording = read("P7;T0x7f;f (a.py:3);:GC: 5\nP7;T0x7f;x 2\n")
    assert recording.status().weights == "time"
    assert stacks(recording) == {("f", "GC"): 5000, ("x",): 2000}
    assert frames(recording)[0].line == 3


@pytest.mark.parametrize("name", ["austin", "austin-cpu"])
def test_sums_are_those_of_austins_converter(name: str) -> None:
    """``austin2speedscope`` has made the other file."""
    recording = read(kept(f"{name}.txt"))
    theirs = stacks(read(kept(f"{name}.speedscope.json")))
    assert stacks(recording, clock_of(recording)) == theirs


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("P7;T9;a.py:f:1 x\n", "line 4: it does not end in a weight"),
        (f"P7;T9;a.py:f:1 {1 << 63}\n", "line 4: it does not end in a weight"),
        ("a.py:f:1 5\n", "line 4: it does not begin with P"),
        ("P7;T9;a.py:f:1 999999999999999999\n", "a number makes no sense"),
        ("# count: 0\n", "no samples"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, text: str, why: str) -> None:
    assert why in error_of(tmp_path, HEAD.format("wall") + text)
