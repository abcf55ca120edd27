"""HTML reports: the data in the file equals the profile, and nothing in it can break out."""

from __future__ import annotations

import io
import random
import re
from collections import Counter
from html.parser import HTMLParser

import numpy as np
import pytest

import packed_report
from flametap.code import code_view, live_code
from flametap.export import html
from flametap.export.request import ExportRequest
from flametap.model import Clock, Frame, Function, Status
from flametap.recording.names.table import SymbolTable
from flametap.recording.profile.store import Profile
from flametap.symbols.locate.source_text import SourceText
from flametap.tree.packed_tree import leb128
from flametap.tree.selection import Selection, Span
from profiles import MAIN_ADDR, NAMES, naive_stacks, random_profile, small_profile
from python_server import PythonServer
from recordings import recorded

HOSTILE = "</script><script>alert(1)</script><!-- \u2028 & ]]> \"'\ud800 {{ 7*7 }}"


def written(request: ExportRequest) -> str:
    file = io.BytesIO()
    html.write(request, file)
    return file.getvalue().decode()


def names_of(stacks: dict[tuple[Function, ...], int]) -> Counter[tuple[str, ...]]:
    found: Counter[tuple[str, ...]] = Counter()
    for path, weight in stacks.items():
        found[tuple(function.name for function in path)] += weight
    return found


def test_all_clocks_are_in_the_file_whichever_was_asked_for() -> None:
    profile, table = random_profile(random.Random(3))
    report = packed_report.read(
        written(ExportRequest(recorded(profile, table), Selection(Clock.WALL)))
    )
    assert report.clock == "wall"
    for clock in Clock:
        exact = names_of(naive_stacks(profile, table, clock, by_thread=False))
        assert report.stacks(clock.value) == +exact
        assert report.stacks(clock.value).total() == profile.total_ns(clock)


def test_only_the_chosen_time_and_threads() -> None:
    request = ExportRequest(
        recorded(*small_profile(), Status(7, "prog", "recording")),
        Selection(thread_ids=frozenset({1}), span=Span(2_000, 4_300)),
    )
    report = packed_report.read(written(request))
    assert report.stacks("cpu") == {("main", "work"): 2_300}
    assert report.data["status"]["state"] == "saved"
    said = report.data["status"]["report"]
    assert "2e-06 s to 4.3e-06 s" in said
    assert "only main" in said


def test_empty_profile() -> None:
    report = packed_report.read(written(ExportRequest(recorded(Profile(), SymbolTable()))))
    assert report.stacks("cpu") == {}


@pytest.mark.parametrize("most", [0, 127, 128, 2**31, 2**62])
def test_numbers_are_leb128(most: int) -> None:
    numbers = [0, most // 3, most, 1, 127, 128, most]
    decoded = list(packed_report._numbers(leb128(np.array(numbers))))
    assert decoded == numbers


class _Elements(HTMLParser):
    """Lists elements that run or load something."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "style", "link", "img", "iframe", "object"):
            self.found.append((tag, dict(attrs)))


def elements(text: str) -> list[tuple[str, dict[str, str | None]]]:
    parser = _Elements()
    parser.feed(text)
    parser.close()
    return parser.found


def test_names_of_the_target_cannot_break_out(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = elements(written(ExportRequest(recorded(*small_profile()))))
    hostile = Function(HOSTILE, HOSTILE, HOSTILE, full_name=HOSTILE)
    monkeypatch.setitem(NAMES, MAIN_ADDR, [Frame(hostile, 10, HOSTILE)])
    status = Status(7, HOSTILE, "recording", reason=HOSTILE, notes=[HOSTILE])
    text = written(ExportRequest(recorded(*small_profile(), status)))
    assert elements(text) == plain
    report = packed_report.read(text)
    assert HOSTILE.replace("\ud800", "?") in report.names["functions"]["name"]
    assert "alert(1)</script>" not in text
    (data,) = packed_report.DATA.findall(text)
    assert data.isascii()
    code = report.part("code")
    assert HOSTILE.replace("\ud800", "?") in code["files"]


def test_report_has_the_code_of_the_heaviest_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    text = SourceText([f"line {line}" for line in range(1, 2_000)])
    monkeypatch.setattr(live_code, "read_source", lambda *_: text)
    recording = PythonServer(400).recording
    report = packed_report.read(written(ExportRequest(recording)))
    code = report.part("code")
    assert code["functions"]
    view = code_view.CodeView(recording)
    numbers = {function.name: at for at, function in enumerate(recording.functions)}
    for number, clocks in code["functions"].items():
        function_id = numbers[report.names["functions"]["name"][int(number)]]
        for clock, found in clocks.items():
            exact = view.lines(function_id, Selection(Clock(clock)))
            lines = found["lines"]
            assert found["total_ns"] == exact.total_ns
            assert lines["total_ns"] == [each.total_ns for each in exact.lines]
            assert lines["line"] == [each.line for each in exact.lines]
            for file, line in zip(lines["file"], lines["line"], strict=True):
                assert code["texts"][str(file)].get(str(line)) == (f"line {line}" if line else None)


def test_file_names_nothing_outside_of_itself() -> None:
    text = written(ExportRequest(recorded(*small_profile())))
    for tag, attributes in elements(text):
        for name in ("src", "href"):
            assert (attributes.get(name) or "data:").startswith("data:"), tag
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert text.index("Content-Security-Policy") < text.index("<script")
    assert len(text) < 410_000
