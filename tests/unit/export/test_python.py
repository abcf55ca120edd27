"""Files of Python programs: frames as py-spy writes them, filtered, and with lines on request."""

from __future__ import annotations

import io
import json
from typing import Any

from flametap.export import folded, speedscope
from flametap.export.request import ExportRequest
from flametap.model import Clock, Function
from flametap.tree.frame_filter import ALL_FRAMES, FrameFilter, Language
from flametap.tree.labels import label
from flametap.tree.selection import Selection
from python_profiles import HANDLE, python_profile
from recordings import recorded

PYTHON = FrameFilter(Language.PYTHON)


def request(
    frames: FrameFilter = ALL_FRAMES, clock: Clock = Clock.CPU, **options: Any
) -> ExportRequest:
    return ExportRequest(recorded(*python_profile()), Selection(clock, frames=frames), **options)


def folded_lines(**options: Any) -> list[str]:
    file = io.BytesIO()
    folded.write(request(**options), file)
    return file.getvalue().decode().splitlines()


def frames_of(stack: str) -> list[str]:
    return stack.rpartition(" ")[0].split(";")


def test_folded_has_functions_with_their_short_path() -> None:
    assert folded_lines() == [
        "[truncated];worker 1",
        "[unattributed] 1",
        "main;serve (app/main.py);Handler.get (app/views.py) 5",
        "main;serve (app/main.py);Handler.get (app/views.py);list_sort 1",
        "main;serve (app/main.py);Handler.get (app/views.py);list_sort;"
        "Query.fetch (django/db/models/query.py) 5",
        "main;serve (app/main.py);dumps (json/__init__.py) 1",
        "worker 7",
    ]


def test_folded_with_lines_and_whole_paths() -> None:
    found = folded_lines(frames=PYTHON, by_line=True, full_filenames=True)
    assert any("Handler.get (/srv/app/views.py:14) 2" in line for line in found)
    assert any("Handler.get (/srv/app/views.py:12);Query.fetch (" in line for line in found)


def test_folded_python_only_keeps_the_weight_of_other_stacks() -> None:
    found = folded_lines(frames=PYTHON)
    assert found[:2] == ["[no Python frames] 7", "[no Python frames];[truncated] 2"]
    assert sum(int(line.rpartition(" ")[2]) for line in found) == 21  # 20.6 µs
    native = folded_lines(frames=FrameFilter(Language.NATIVE))
    assert not any(".py" in line for line in native)


def speedscope_file(**options: Any) -> dict[str, Any]:
    file = io.BytesIO()
    speedscope.write(request(**options), file)
    found: dict[str, Any] = json.loads(file.getvalue())
    return found


def test_speedscope_frames_carry_file_and_line() -> None:
    frames = speedscope_file()["shared"]["frames"]
    named = {frame["name"]: frame for frame in frames}
    assert named["Handler.get"] == {"name": "Handler.get", "file": HANDLE.file, "line": 12}
    assert "_PyEval_EvalFrameDefault" not in named
    assert len(frames) == len(named)


def test_speedscope_with_lines_has_a_frame_for_each() -> None:
    frames = speedscope_file(by_line=True)["shared"]["frames"]
    lines = [frame["line"] for frame in frames if frame["name"] == "Handler.get"]
    assert sorted(lines) == [12, 14]


def test_speedscope_python_only() -> None:
    file = speedscope_file(frames=PYTHON, clock=Clock.WALL)
    names = [frame["name"] for frame in file["shared"]["frames"]]
    blas = next(each for each in file["profiles"] if each["name"] == "blas (102)")
    found = {tuple(names[i] for i in sample) for sample in blas["samples"]}
    assert found == {("[no Python frames]",), ("[no Python frames]", "[poll]")}
    assert blas["endValue"] == 97_000


def test_label_of_a_native_function_is_its_name() -> None:
    assert label(Function("main", "prog", "main.c"), 3) == "main"
    assert label(HANDLE, 3) == "Handler.get (app/views.py:3)"
    assert label(HANDLE, full_filenames=True) == "Handler.get (/srv/app/views.py)"
