"""SQLite: sums by each clock, names of any kind, and the questions of the document."""

from __future__ import annotations

import random
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from flametap.export import write_file
from flametap.export.request import ExportRequest
from flametap.export.shaping import shaping_of
from flametap.model import Clock, Frame, Function
from flametap.recording.opened import open_recording
from flametap.tree.selection import Selection, Span
from profiles import random_profile, small_profile
from recordings import recorded

ROOT = Path(__file__).resolve().parents[3]
QUESTIONS = re.findall(
    r"```sql\n(.*?)```", (ROOT / "docs" / "sql.md").read_text("utf-8"), re.DOTALL
)
COLUMNS = {Clock.CPU: "cpu_ns", Clock.WALL: "wall_ns", Clock.OFF_CPU: "off_cpu_ns"}
PATHS = """
with recursive path (leaf_id, stack_id, names) as (
    select distinct stack_id, stack_id, '' from intervals
    union all
    select leaf_id, caller_id, name || char(10) || names from path
        join stacks using (stack_id) join frames using (frame_id) join functions using (function_id)
)
select names, sum({0}) from path join intervals on intervals.stack_id = leaf_id
where path.stack_id is null group by names having sum({0}) > 0
"""


@contextmanager
def exported(request: ExportRequest, folder: Path) -> Iterator[sqlite3.Connection]:
    path = folder / "out.sqlite"
    write_file(str(path), "sqlite", request)
    with closing(sqlite3.connect(path)) as database:
        yield database


def stacks(request: ExportRequest, clock: Clock) -> dict[str, int]:
    """Own weights of the call tree by the names of the stack, a line each."""
    tree = request.tree(clock)
    paths: list[str] = []
    found: dict[str, int] = {}
    for parent, function, own_ns in zip(
        tree.parent.tolist(), tree.function.tolist(), tree.self_ns.tolist(), strict=True
    ):
        paths.append(f"{paths[parent]}{tree.functions[function].name}\n" if parent >= 0 else "")
        if own_ns:
            name = paths[-1] or "[all]\n"
            found[name] = found.get(name, 0) + own_ns
    return found


def check(request: ExportRequest, folder: Path) -> None:
    with exported(request, folder) as database:
        for clock, column in COLUMNS.items():
            sums = dict(database.execute(PATHS.format(column)))
            assert sums == stacks(request, clock), clock


@pytest.mark.parametrize("seed", range(2))
def test_sums_of_all_clocks_are_those_of_the_call_trees(tmp_path: Path, seed: int) -> None:
    recording = recorded(*random_profile(random.Random(seed)))
    check(ExportRequest(recording), tmp_path)
    check(ExportRequest(recording, Selection(thread_ids=frozenset({2, 3}))), tmp_path)
    duration_ns = recording.profile.duration_ns
    span = Span(duration_ns // 3, duration_ns // 2)
    request = ExportRequest(recording, Selection(span=span))
    with exported(request, tmp_path) as database:
        for clock, column in COLUMNS.items():
            ((total,),) = database.execute(f"select sum({column}) from intervals")
            assert total == pytest.approx(int(request.tree(clock).total_ns[0]), abs=2_000)


def test_shaped_stacks_are_those_of_the_shaped_tree(tmp_path: Path) -> None:
    recording = recorded(*random_profile(random.Random(3)))
    whole = stacks(ExportRequest(recording), Clock.CPU)
    name = max(whole, key=lambda each: whole[each]).split("\n")[-2]
    for steps in (f"hide:{name}", "hide:=kernel"):  # only sleeping threads have the latter
        check(ExportRequest(recording, shaping=shaping_of(recording, steps)), tmp_path)


def test_names_are_data_whatever_they_are(tmp_path: Path) -> None:
    profile, table = small_profile()
    name = "'); drop table intervals; --\udcff"
    for address, _ in profile.news().addresses:
        table.set(address, [Frame(Function(name, "=cmd|'/c x'!A1", "a\udc80.c"))])
    with exported(ExportRequest(recorded(profile, table)), tmp_path) as database:
        names = {name for (name,) in database.execute("select name from functions")}
        assert name.replace("\udcff", "?") in names
        assert database.execute("select count(*) from intervals").fetchone()[0] > 0


@pytest.mark.parametrize("question", range(len(QUESTIONS)))
@pytest.mark.parametrize("name", ["python", "c"])
def test_question_of_the_document_has_an_answer(tmp_path: Path, name: str, question: int) -> None:
    recording = open_recording(str(ROOT / "tests" / "data" / "recordings" / f"{name}.flametap"))
    with exported(ExportRequest(recording), tmp_path) as database:
        rows: list[Any] = database.execute(QUESTIONS[question]).fetchall()
    has_none = {"python": ("from locks",), "c": ("from locks", "'held'")}[name]
    assert rows or any(each in QUESTIONS[question] for each in has_none)


def test_there_are_ten_questions() -> None:
    assert len(QUESTIONS) == 10
