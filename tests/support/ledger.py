"""Whole recordings as sums per thread and stack, by each clock: as the page's API gives them, and
as the exports hold them."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flask.testing import FlaskClient

import packed_report
from export_readers import chrome_sums, json_lines_sums, perf_name, perf_sums
from flametap.analysis.views import views_of
from flametap.capture.live import Capture
from flametap.export import write_file
from flametap.export.request import ExportRequest
from flametap.model import Clock, Split
from flametap.tree.selection import Selection
from flametap.web.app import create_app
from pprof_file import PprofFile
from running import wait_until
from stacks import read_folded

TOKEN = "equation"
QUEUED = "[waiting for a CPU]"
UNATTRIBUTED = "[unattributed]"
SNAPSHOT_S = 60.0

# Name of the thread → stack, root first → nanoseconds.
Sums = dict[str, Counter[tuple[str, ...]]]


@dataclass(frozen=True)
class Ledger:
    """The same time by each clock."""

    by_clock: dict[Clock, Sums]

    def total(self, clock: Clock, thread: str | None = None) -> int:
        """What a thread weighs, or all of them."""
        sums = self.by_clock[clock]
        chosen: Iterable[Counter[tuple[str, ...]]] = sums.values()
        if thread is not None:
            chosen = [sums.get(thread, Counter())]
        return sum(each.total() for each in chosen)

    def causes(self, thread: str) -> Counter[str]:
        """Time off the CPU by its innermost frame: a system call, or ``QUEUED``."""
        found: Counter[str] = Counter()
        for stack, weight in self.by_clock[Clock.OFF_CPU].get(thread, Counter()).items():
            found[stack[-1] if stack else ""] += weight
        return found

    def differences(self, slack_ns: int) -> list[str]:
        """Where CPU and off-CPU time do not add up to wall time: in sum, for a thread, or on a
        stack. None may be off by more than ``slack_ns``."""
        cpu, off, wall = (self.by_clock[each] for each in (Clock.CPU, Clock.OFF_CPU, Clock.WALL))
        parts = {"all": [self.total(each) for each in (Clock.CPU, Clock.OFF_CPU, Clock.WALL)]}
        for thread in {*cpu, *off, *wall}:
            columns = [each.get(thread, Counter()) for each in (cpu, off, wall)]
            parts[thread] = [column.total() for column in columns]
            for stack in {key for column in columns for key in column}:
                parts[";".join((thread, *stack))] = [column[stack] for column in columns]
        return [
            f"{where}: {used_ns} on a CPU + {off_ns} off != {passed_ns}"
            for where, (used_ns, off_ns, passed_ns) in parts.items()
            if abs(used_ns + off_ns - passed_ns) > slack_ns
        ]


# ---- the page's API


class Page:
    """What a page that shows a recording asks for."""

    MAX_ROWS = 500  # of the thread selector, that are asked for

    def __init__(self, capture: Capture) -> None:
        self._client: FlaskClient = create_app(
            views_of(capture.recording), TOKEN, controls=capture
        ).test_client()
        self._client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {TOKEN}"

    def ask(self, what: str, **query: object) -> dict[str, Any]:
        """One answer of the API."""
        response = self._client.get(f"/api/{what}", query_string=query)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.get_json()
        return answer

    def pause(self, paused: bool) -> None:
        """Presses the button."""
        response = self._client.post("/api/pause", json={"paused": paused})
        assert response.status_code == 200, response.text

    def threads(self, **query: object) -> list[dict[str, Any]]:
        """The rows of the thread selector."""
        rows: list[dict[str, Any]] = self.ask("threads", limit=self.MAX_ROWS, **query)["rows"]
        return rows

    def moment(self, thread_id: int | None = None) -> Moment:
        """One thread, or all, by each clock as of one moment: it is asked until nothing came in
        between."""
        query: dict[str, object] = {} if thread_id is None else {"threads": thread_id}
        moments: list[Moment] = []

        def is_of_one_moment() -> bool:
            before = self.ask("status")
            query["revision"] = revision = before["status"]["revision"]
            views = {
                clock: self.ask("view", clock=clock.value, table="self", **query) for clock in Clock
            }
            moments[:] = [Moment(views, self.threads())]
            return bool(self.ask("status")["status"]["revision"] == revision)

        wait_until(is_of_one_moment, "three views of one moment", SNAPSHOT_S)
        return moments[0]


@dataclass(frozen=True)
class Moment:
    """What a page shows: a view by each clock with its table, and the threads."""

    views: dict[Clock, dict[str, Any]]
    threads: list[dict[str, Any]]

    def total(self, clock: Clock) -> int:
        """The weight of the whole view."""
        return int(self.views[clock]["total_ns"])

    def ledger(self) -> Ledger:
        """The functions with their own weights, as if each were a stack."""
        return Ledger({clock: {"": self._functions(clock)} for clock in Clock})

    def _functions(self, clock: Clock) -> Counter[tuple[str, ...]]:
        table = self.views[clock]["table"]
        rows = table["rows"]
        sums: Counter[tuple[str, ...]] = Counter()
        for number, name, weight in zip(rows["id"], rows["name"], rows["self_ns"], strict=True):
            if weight:
                sums[str(number), name] += weight
        if table["function_count"] == len(rows["id"]):  # else the lightest are not listed
            assert sums.total() == self.total(clock), f"{clock}: {table}"
        return sums

    @property
    def lists_all(self) -> bool:
        """True where no function was too light for the tables."""
        tables = [view["table"] for view in self.views.values()]
        return all(table["function_count"] == len(table["rows"]["id"]) for table in tables)


# ---- exports


def _read_speedscope(path: Path) -> Sums:
    document = json.loads(path.read_text("utf-8"))
    names = [frame["name"] for frame in document["shared"]["frames"]]
    sums: Sums = defaultdict(Counter)
    for profile in document["profiles"]:
        assert profile["unit"] == "nanoseconds"
        for stack, weight in zip(profile["samples"], profile["weights"], strict=True):
            sums[profile["name"]][tuple(names[i] for i in stack)] += weight
        assert profile["endValue"] - profile["startValue"] == sum(profile["weights"])
    return dict(sums)


def _read_folded(path: Path) -> Sums:
    sums: Sums = defaultdict(Counter)
    for (thread, *stack), weight_us in read_folded(path).weights.items():
        sums[thread][tuple(stack)] += weight_us * 1000
    return dict(sums)


def _read_html(path: Path) -> Sums:
    report = packed_report.read(path.read_text("utf-8"))
    sums: Sums = defaultdict(Counter)
    for (thread, *stack), weight in report.stacks(report.clock).items():
        sums[thread][tuple(stack)] += weight
    return dict(sums)


@dataclass(frozen=True)
class Reader:
    """How a format is read, and how much its rounding may take from or give to one number."""

    read: Callable[[Path], Sums]
    rounding_ns: int = 0
    spelled: Callable[[str], str] = str  # the name of a thread


# One for each of flametap.export.FORMATS that holds every stack.
def _read_firefox(path: Path) -> Sums:
    file = json.loads(path.read_bytes())
    sums: Sums = defaultdict(Counter)
    stacks = firefox_stacks(file["shared"])
    for thread in file["threads"]:
        own = sums[f"{thread['name']} ({thread['tid']})"]
        samples = thread["samples"]
        for stack, weight_ms in zip(samples["stack"], samples["weight"], strict=True):
            if stack is not None:
                own[stacks[stack]] += round(1e6 * weight_ms)
    return sums


def firefox_stacks(shared: dict[str, Any]) -> list[tuple[str, ...]]:
    """The names of each stack in a file for Firefox Profiler, root first."""
    found: list[tuple[str, ...]] = []
    functions, names = shared["frameTable"]["func"], shared["funcTable"]["name"]
    table = shared["stackTable"]
    for i, (frame, offset) in enumerate(zip(table["frame"], table["prefixOffset"], strict=True)):
        above = found[i - offset] if offset else ()
        found.append((*above, shared["stringArray"][names[functions[frame]]]))
    return found


def _read_pprof(path: Path) -> Sums:
    file = PprofFile(path.read_bytes())
    return file.sums(file.default)


def _read_sqlite(path: Path) -> Sums:
    """By the clock in the file's name: the database has all of them."""
    column = COLUMNS[path.stem]
    sums: Sums = defaultdict(Counter)
    with closing(sqlite3.connect(path)) as database:
        names = dict(database.execute("select function_id, name from functions"))
        frames = dict(database.execute("select frame_id, function_id from frames"))
        stacks: dict[int | None, tuple[str, ...]] = {None: ()}
        for stack, caller, frame in database.execute(
            "select stack_id, caller_id, frame_id from stacks order by depth"
        ):
            stacks[stack] = (*stacks[caller], names[frames[frame]])
        for name, tid, stack, weight in database.execute(
            f"select name, tid, stack_id, {column} from intervals join threads using (thread_id)"
        ):
            if weight:
                sums[f"{name} ({tid})"][stacks[stack]] += weight
    return dict(sums)


def _read_json_lines(path: Path) -> Sums:
    """By the clock in the file's name: the file has all of them."""
    return json_lines_sums(path.read_bytes(), COLUMNS[path.stem])


COLUMNS = {"cpu": "cpu_ns", "wall": "wall_ns", "off-cpu": "off_cpu_ns"}
READERS = {
    "chrome": Reader(lambda path: chrome_sums(path.read_bytes())),
    "perf-script": Reader(lambda path: perf_sums(path.read_bytes()), spelled=perf_name),
    "jsonl": Reader(_read_json_lines),
    "sqlite": Reader(_read_sqlite),
    "pprof": Reader(_read_pprof),
    "firefox": Reader(_read_firefox),
    "html": Reader(_read_html),
    "speedscope": Reader(_read_speedscope),
    "folded": Reader(_read_folded, 1000),
}


def of_export(capture: Capture, format_name: str, folder: Path) -> Ledger:
    """A recording as files of one format hold it, a file for each clock."""
    by_clock = {}
    for clock in Clock:
        path = folder / f"{clock.value}.{format_name}"
        request = ExportRequest(capture.recording, Selection(clock, split=Split.THREAD))
        write_file(str(path), format_name, request)
        by_clock[clock] = READERS[format_name].read(path)
    return Ledger(by_clock)
