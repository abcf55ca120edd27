"""speedscope's files: samples and events, units, what is refused, and files of our own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flametap.foreign.opening import open_file
from flametap.model import Clock, FrameKind
from foreign_files import error_of, exported, opened, random_recording, stacks

FRAMES = [{"name": "main", "file": "a.py", "line": 3}, {"name": "work", "file": "b.py"}]


def file(*profiles: dict[str, Any], **more: Any) -> str:
    head = {"$schema": "https://www.speedscope.app/file-format-schema.json", **more}
    return json.dumps(head | {"shared": {"frames": FRAMES}, "profiles": profiles})


def sampled(samples: Any, weights: Any, unit: Any = "seconds", **more: Any) -> dict[str, Any]:
    found = {"type": "sampled", "name": "t", "unit": unit, "startValue": 0, "endValue": 9}
    return found | {"samples": samples, "weights": weights} | more


def evented(*events: tuple[str, int, float]) -> dict[str, Any]:
    made = [{"type": kind, "frame": frame, "at": at} for kind, frame, at in events]
    head = {"type": "evented", "name": "e", "unit": "milliseconds", "startValue": 0, "endValue": 9}
    return head | {"events": made}


def test_samples_are_stacks_in_order_of_time(tmp_path: Path) -> None:
    data = file(sampled([[0], [0, 1], []], [0.5, 0.25, 1]), exporter="py-spy@0.4.0", name="prog")
    recording = opened(tmp_path, "x", data)
    assert stacks(recording) == {("main",): 500_000_000, ("main", "work"): 250_000_000, (): 10**9}
    status = recording.status()
    assert (status.source, status.weights, status.clocks) == (
        "speedscope, by py-spy",
        "time",
        ["wall"],
    )
    assert (status.program, status.samples, status.duration_ns) == ("prog", 3, 1_750_000_000)
    assert status.has_moments
    assert {each.kind for each in recording.functions if each.file} == {FrameKind.PYTHON}


def test_events_are_the_time_between_them(tmp_path: Path) -> None:
    data = file(
        evented(("O", 0, 1), ("O", 1, 2), ("C", 1, 4), ("C", 0, 5), ("O", 1, 7), ("C", 1, 8))
    )
    assert stacks(opened(tmp_path, "x", data)) == {
        ("main",): 2_000_000,
        ("main", "work"): 2_000_000,
        ("work",): 1_000_000,
    }


def test_profiles_of_another_unit_are_left_out_with_a_note(tmp_path: Path) -> None:
    one, other = sampled([[0]], [7], "none"), sampled([[1]], [9], "bytes")
    recording = opened(tmp_path, "x", file(one, other))
    assert stacks(recording) == {("main",): 7}
    status = recording.status()
    assert (status.weights, status.has_moments) == ("samples", False)
    assert "1 profile in another unit than none are left out" in status.notes[0]
    recording = opened(tmp_path, "x", file(one, other, activeProfileIndex=1))
    assert (stacks(recording), recording.status().weights) == ({("work",): 9}, "bytes")


@pytest.mark.parametrize("seed", range(3))
def test_our_own_file_has_the_same_tree(tmp_path: Path, seed: int) -> None:
    recording = random_recording(seed)
    for clock in Clock:
        path = exported(recording, tmp_path, "x.speedscope.json.gz", "speedscope", clock)
        assert stacks(open_file(str(path))) == stacks(recording, clock)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (file(sampled([[2]], [1])), "makes no sense"),
        (file(sampled([[0]], [-1])), "a weight is negative"),
        (file(sampled([[0]], [1, 2])), "different lengths"),
        (file(sampled([[0]], [2**63], "none")), "makes no sense"),
        (file(sampled([[0]], [2.0**62], "none")), "too large"),
        (file(sampled([[0]], [None])), "makes no sense"),
        (file(evented(("C", 0, 1))), "is not open"),
        (file(evented(("O", 0, 1))), "has no end"),
        (file(evented(("O", 0, 2), ("C", 0, 1))), "run back"),
        (file(), "makes no sense"),
        (file(sampled([[-1]], [1])), "makes no sense"),
        (file(sampled([[0]], [18446744074])), "makes no sense"),
        (file(sampled([[0]], [1], 5)), "makes no sense"),
        (file(sampled([], [])), "no samples"),
        (file(sampled([[0]], [1]))[:-9], "at character"),
        ('{"shared": {}, "profiles": 7}', "makes no sense"),
        ("[1, 2", "at character"),
        ("[1, 2]", "JSON of no format"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, data: str, why: str) -> None:
    assert why in error_of(tmp_path, data)
