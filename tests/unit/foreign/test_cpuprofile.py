"""V8's CPU profiles: deltas, old and new nodes, and profiles without samples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flametap.model import FrameKind
from foreign_files import cpu_node as node
from foreign_files import error_of, opened, stacks

US = 1_000


NODES = [
    node(1, "(root)", children=[2, 3, 5]),
    node(2, "(program)"),
    node(3, "main", "file:///w/a.js", 4, children=[4]),
    node(4, "", "file:///w/a.js", 9),
    node(5, "(idle)"),
]


def file(samples: Any, deltas: Any, nodes: Any = NODES, **more: Any) -> str:
    found = {"nodes": nodes, "startTime": 1000, "endTime": 2000}
    return json.dumps(found | {"samples": samples, "timeDeltas": deltas} | more)


def test_a_sample_lasts_until_the_next(tmp_path: Path) -> None:
    recording = opened(tmp_path, "x", file([3, 4, 2, 5], [10, 100, 20, 30]))
    assert stacks(recording) == {
        ("main",): 100 * US,
        ("main", "(anonymous) a.js:10"): 20 * US,
        ("(program)",): 30 * US,
        ("(idle)",): 50 * US,  # as they last on average
    }
    status = recording.status()
    assert (status.source, status.weights, status.has_moments) == ("V8 CPU profile", "time", True)
    kinds = {each.name: (each.kind, each.file) for each in recording.functions}
    assert kinds["main"] == (FrameKind.JAVASCRIPT, "/w/a.js")
    assert kinds["(idle)"] == (FrameKind.SYNTHETIC, "")


def test_samples_whose_times_run_back_are_sorted(tmp_path: Path) -> None:
    recording = opened(tmp_path, "x", file([3, 4, 2], [100, 50, -20]))
    assert stacks(recording) == {
        ("main",): 30 * US,
        ("(program)",): 20 * US,
        ("main", "(anonymous) a.js:10"): 25 * US,
    }


def test_parents_instead_of_children(tmp_path: Path) -> None:
    nodes = [node(1, "(root)"), node(7, "f", "a.js", 0, parent=1), node(8, "g", parent=7)]
    assert stacks(opened(tmp_path, "x", file([8, 8], [1, 2], nodes))) == {("f", "g"): 4 * US}


def test_the_old_form(tmp_path: Path) -> None:
    inner = {"functionName": "f", "url": "a.js", "lineNumber": 5, "id": 2, "hitCount": 1}
    head = {"functionName": "(root)", "url": "", "lineNumber": 0, "id": 1, "hitCount": 0}
    data: dict[str, Any] = {"head": head | {"children": [inner | {"children": []}]}}
    data |= {"startTime": 1, "endTime": 2, "samples": [2, 2], "timestamps": [1.5e6, 1.6e6]}
    assert stacks(opened(tmp_path, "x", json.dumps(data))) == {("f",): 200_000 * US}


def test_without_samples_there_are_counts(tmp_path: Path) -> None:
    nodes = [node(1, "(root)", children=[2]), node(2, "f", hitCount=3)]
    recording = opened(tmp_path, "x", file([], [], nodes))
    assert stacks(recording) == {("f",): 3}
    assert (recording.status().weights, recording.status().has_moments) == ("samples", False)


def test_without_times_samples_are_even(tmp_path: Path) -> None:
    recording = opened(tmp_path, "x", file([3, 2], None))
    assert stacks(recording) == {("main",): 500 * US, ("(program)",): 500 * US}


def test_last_sample_has_no_length_where_the_profile_ends_with_it(tmp_path: Path) -> None:
    ended = opened(tmp_path, "x", file([3, 2, 5], [10, 100, 20], endTime=1130))
    assert stacks(ended) == {("main",): 100 * US, ("(program)",): 20 * US}


def test_one_sample_lasts_to_the_end(tmp_path: Path) -> None:
    assert stacks(opened(tmp_path, "x", file([3], [100]))) == {("main",): 900 * US}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (file([9], [1]), "makes no sense"),
        (file([-1], [1]), "not there"),
        (file([3], [1, 2, 3]), "as many times"),
        (file([3, 3], [1, 1e300]), "too large"),
        (file([3, 3], [1, None]), "too large"),
        (file([3], [1], [node(3, "f", parent=3)]), "own caller"),
        (file([3], [1], [node(3, "f", children=[4]), node(4, "g", children=[3])]), "own caller"),
        (file([3], [1], [node(3, "f", parent=8)]), "makes no sense"),
        (file([3], [1], [{"id": 3, "callFrame": [7]}]), "makes no sense"),
        (file(7, [1]), "makes no sense"),
        (file([], [], [node(1, "f")]), "no samples"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, data: str, why: str) -> None:
    assert why in error_of(tmp_path, data)
