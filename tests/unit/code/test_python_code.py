"""Lines of Python functions: the interpreter itself knows them; the files are read as others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flametap.code import live_code
from flametap.code.code_view import CodeView
from flametap.code.live_code import LiveCode
from flametap.model import Clock, Frame, Function
from flametap.recording.recording import Recording
from flametap.symbols.symbolizer import Symbolizer
from flametap.tree.frame_filter import FrameFilter, Language
from flametap.tree.selection import Selection
from python_profiles import HANDLE, HANDLE_ADDR, HANDLE_ADDR_2, NAMES, named, python_profile


def view_of(
    function: Function, folder: Path, request: pytest.FixtureRequest
) -> tuple[CodeView, int]:
    """A view of ``python_profile`` in which HANDLE is another function, and its id."""
    profile, _ = python_profile()
    places = {HANDLE_ADDR: [Frame(function, 12)], HANDLE_ADDR_2: [Frame(function, 14)]}
    table = named(profile, NAMES | places)
    symbolizer = Symbolizer(table, None, cache_dir=folder / "cache")
    request.addfinalizer(symbolizer.close)
    recording = Recording(profile, table, code=LiveCode(profile, symbolizer))
    return CodeView(recording), table.function_id(function)


def test_lines_have_text_and_the_weight_of_what_is_hidden_below(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    file = tmp_path / "views.py"
    file.write_text("".join(f"line {number}\n" for number in range(1, 41)))
    view, function_id = view_of(replace(HANDLE, file=str(file)), tmp_path, request)
    found = view.lines(function_id, Selection(Clock.CPU))
    heavy = [(each.line, each.text, each.self_ns) for each in found.lines if each.total_ns]
    assert heavy == [(12, "line 12", 3_000), (14, "line 14", 2_000)]
    assert (found.file, found.self_ns, found.total_ns) == (str(file), 5_000, 11_000)
    assert not found.notes
    python = view.lines(function_id, Selection(Clock.CPU, frames=FrameFilter(Language.PYTHON)))
    assert python.self_ns == 6_000  # and what was sorted in C


@pytest.mark.parametrize("file", ["<string>", "<frozen importlib._bootstrap>"])
def test_code_in_no_file_says_so(file: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    view, function_id = view_of(replace(HANDLE, file=file), tmp_path, request)
    found = view.lines(function_id, Selection(Clock.CPU))
    assert found.notes == [live_code.IN_NO_FILE]
    assert [each.line for each in found.lines if each.total_ns] == [12, 14]


def test_python_function_has_no_instructions(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    view, function_id = view_of(HANDLE, tmp_path, request)
    found = view.instructions(function_id, Selection(Clock.CPU))
    assert found.rows == []
    assert "no machine code" in found.notes[0]
