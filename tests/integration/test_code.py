"""What lines and instructions weigh in programs whose answer is known."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from flametap.analysis.views import views_of
from flametap.capture.live import Capture
from flametap.code.annotation import AnnotatedCode, AnnotatedSource
from flametap.model import Clock, FrameKind
from flametap.tree.selection import Selection
from recording import SYMBOLS_S, capturing
from running import Start

pytestmark = pytest.mark.needs("attach", "gcc")
SOURCE = Path(__file__).parent.parent / "targets" / "lines.c"


def line_of(mark: str) -> int:
    lines = SOURCE.read_text().splitlines()
    return next(at for at, line in enumerate(lines, 1) if f"/* {mark} */" in line)


def own_weights(capture: Capture) -> Counter[int]:
    """Id of a function → weight of the stacks that end in it, from the call tree."""
    tree = views_of(capture.recording).tree(Selection(Clock.CPU))
    found: Counter[int] = Counter()
    for function, self_ns in zip(tree.function.tolist(), tree.self_ns.tolist(), strict=True):
        if function >= 0:
            found[function] += self_ns
    return found


def shares(source: AnnotatedSource) -> dict[int, float]:
    return {each.line: each.self_ns / source.self_ns for each in source.lines if each.self_ns}


def check_sums(found: AnnotatedSource | AnnotatedCode, whole_ns: int) -> None:
    rows = found.lines if isinstance(found, AnnotatedSource) else found.rows
    assert sum(row.self_ns for row in rows) == found.self_ns
    assert all(row.self_ns <= row.total_ns <= found.total_ns for row in rows)
    assert found.total_ns <= found.whole_ns == whole_ns


def test_lines_and_instructions_of_a_known_program(start: Start, seconds: float) -> None:
    target = start("lines", variant="lines")
    with capturing(target.pid) as capture:
        assert not capture.wait(seconds)
        capture.stop()
        assert capture.finish_symbols(SYMBOLS_S)
        whole_ns = capture.profile.total_ns(Clock.CPU)
        own = own_weights(capture)
        by_name = {capture.recording.functions[each].name: each for each in own}

        uneven = views_of(capture.recording).lines(by_name["uneven"], Selection(Clock.CPU))
        check_sums(uneven, whole_ns)
        assert uneven.self_ns == own[by_name["uneven"]]
        assert uneven.file == str(SOURCE)
        heavy, light, call = line_of("HEAVY"), line_of("LIGHT"), line_of("CALL")
        found = shares(uneven)
        assert found[heavy] == pytest.approx(6 / 7, abs=0.1), found
        assert found[light] == pytest.approx(1 / 7, abs=0.1), found
        by_line = {each.line: each for each in uneven.lines}
        assert by_line[heavy].text == SOURCE.read_text().splitlines()[heavy - 1]
        assert {heavy - 20, heavy - 1, call + 5} <= set(by_line)  # what is around it
        # What is inlined there is no weight of the line's own, and all of its total.
        twist = views_of(capture.recording).lines(by_name["twist"], Selection(Clock.CPU))
        check_sums(twist, whole_ns)
        assert capture.recording.functions[by_name["twist"]].kind is FrameKind.INLINED
        assert twist.self_ns == own[by_name["twist"]]
        assert [line for line, share in shares(twist).items() if share > 0.5] == [line_of("TWIST")]
        assert by_line[call].self_ns == 0
        assert by_line[call].total_ns == twist.total_ns > 0.02 * uneven.total_ns

        nested = views_of(capture.recording).lines(by_name["nested"], Selection(Clock.CPU))
        check_sums(nested, whole_ns)
        by_line = {each.line: each for each in nested.lines}
        # Three times on each stack, and counted once.
        assert by_line[line_of("AGAIN")].total_ns == pytest.approx(nested.total_ns, rel=0.01)
        assert by_line[line_of("BOTTOM")].total_ns == pytest.approx(nested.total_ns, rel=0.01)

        code = views_of(capture.recording).instructions(by_name["uneven"], Selection(Clock.CPU))
        check_sums(code, whole_ns)
        assert code.notes == []
        assert code.self_ns == uneven.self_ns + twist.self_ns
        per_line: Counter[tuple[str, int]] = Counter()
        for row in code.rows:
            per_line[row.inlined, row.line] += row.self_ns
        # The same numbers as line by line: nothing is counted beside its place.
        expected = {("", each.line): each.self_ns for each in uneven.lines if each.self_ns}
        expected |= {("twist", each.line): each.self_ns for each in twist.lines if each.self_ns}
        assert {place: ns for place, ns in per_line.items() if ns} == expected

        inner = views_of(capture.recording).instructions(by_name["twist"], Selection(Clock.CPU))
        check_sums(inner, whole_ns)
        assert {row.inlined for row in inner.rows} == {"twist"}
        assert inner.self_ns == twist.self_ns

        calls = [
            row
            for row in views_of(capture.recording)
            .instructions(by_name["nested"], Selection(Clock.CPU))
            .rows
            if row.text.startswith(("callq ", "bl "))
        ]
        # Callers weigh at the call itself, each stack once.
        assert {row.target: row.total_ns for row in calls} == {
            "uneven": by_line[line_of("BOTTOM")].total_ns,
            "nested": by_line[line_of("AGAIN")].total_ns,
        }

        report = views_of(capture.recording).symbols(Selection(Clock.CPU))
        assert report.total_ns == whole_ns
        assert report.nowhere_ns + sum(each.share.self_ns for each in report.modules) == whole_ns
        program = report.modules[0]
        assert program.source.module == "lines-lines"
        assert program.share.self_ns > 0.9 * whole_ns
        assert program.share.named_ns == program.share.self_ns
        assert program.share.lined_ns > 0.99 * program.share.self_ns
    assert target.finish() == ["deepest 2"]


def test_code_outside_of_any_file_is_said_to_be(start: Start, seconds: float) -> None:
    target = start("jitted")
    with capturing(target.pid) as capture:
        assert not capture.wait(seconds)
        capture.stop()
        assert capture.finish_symbols(SYMBOLS_S)
        generated = next(
            each
            for each in own_weights(capture)
            if capture.recording.functions[each].module == "[jit]"
        )
        code = views_of(capture.recording).instructions(generated, Selection(Clock.CPU))
        assert code.rows == []
        assert "in no file" in code.notes[0]
        assert views_of(capture.recording).lines(generated, Selection(Clock.CPU)).notes
        held = {
            each.source.module: each.share
            for each in views_of(capture.recording).symbols(Selection(Clock.CPU)).modules
        }
        assert held["[jit]"].self_ns > 0
    target.finish()
