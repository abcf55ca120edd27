"""Downloads of what a page shows: every format, only the chosen part, bounded."""

from __future__ import annotations

import json
import re
import sqlite3
import threading
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

import packed_report
from export_readers import chrome_sums, cpuprofile_sums, json_lines_sums, perf_sums
from flametap.analysis.views import views_of
from flametap.export import FORMATS
from flametap.model import Clock, Status
from flametap.recording.opened import open_recording
from flametap.tree.selection import Selection, Span
from flametap.web import exports
from flametap.web.app import create_app
from flametap.web.exports import file_name
from made_programs import program
from made_server import TOKEN
from pprof_file import PprofFile
from python_server import PythonServer
from recording_files import write_recording
from stacks import parse_folded


@pytest.fixture(scope="module")
def python() -> PythonServer:
    return PythonServer(400)


@pytest.fixture
def client(python: PythonServer) -> FlaskClient:
    client = create_app(python.views, TOKEN).test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {TOKEN}"
    return client


def totals(client: FlaskClient, folder: Path, **query: object) -> dict[str, int]:
    """The weight of each format, nanoseconds, and of the view."""
    found: dict[str, int] = {}
    for name in FORMATS:
        response = client.get("/api/export", query_string={"format": name, **query}, buffered=True)
        assert response.status_code == 200, response.text
        assert response.content_length == len(response.data)
        assert response.headers["Content-Disposition"].startswith('attachment; filename="flametap-')
        if name == "html":
            report = packed_report.read(response.text)
            found[name] = report.stacks(report.clock).total()
        elif name == "folded":
            found[name] = 1000 * sum(parse_folded(response.text).weights.values())
        elif name == "speedscope":
            profiles = json.loads(response.text)["profiles"]
            found[name] = sum(sum(profile["weights"]) for profile in profiles)
        elif name == "firefox":
            threads = json.loads(response.text)["threads"]
            found[name] = round(1e6 * sum(sum(each["samples"]["weight"]) for each in threads))
        elif name == "sqlite":
            column = f"{str(query.get('clock', 'cpu')).replace('-', '_')}_ns"
            path = folder / "out.sqlite"
            path.write_bytes(response.data)
            with closing(sqlite3.connect(path)) as database:
                ((found[name],),) = database.execute(f"select sum({column}) from intervals")
        elif name == "pprof":
            pprof = PprofFile(response.data)
            found[name] = sum(each.values[pprof.default] for each in pprof.samples)
        elif name in ("chrome", "perf-script"):
            read = {"chrome": chrome_sums, "perf-script": perf_sums}[name]
            found[name] = sum(each.total() for each in read(response.data).values())
        elif name == "jsonl":
            value = f"{str(query.get('clock', 'cpu')).replace('-', '_')}_ns"
            sums = json_lines_sums(response.data, value)
            found[name] = sum(each.total() for each in sums.values())
        elif name == "cpuprofile":
            file = json.loads(response.text)
            thread_ns = 1000 * cpuprofile_sums(file).total()
            found[name] = thread_ns + file["flametap"]["left_out"]["ns"]
    found["view"] = client.get("/api/view", query_string=query).get_json()["total_ns"]
    return found


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"clock": "wall", "threads": "1,3"},
        {"clock": "off-cpu"},
        {"range": "203-1504"},
        {"range": "last500", "clock": "wall", "threads": "2"},
        {"language": "python", "range": "100-900"},
    ],
)
def test_every_format_has_what_the_view_has(
    client: FlaskClient, tmp_path: Path, query: dict[str, str]
) -> None:
    found = totals(client, tmp_path, **query)
    # A picture has what is wide enough, a summary what is heaviest.
    assert found.keys() == FORMATS.keys() - {"svg", "markdown"} | {"view"}
    for name, total_ns in found.items():
        assert total_ns == pytest.approx(found["view"], abs=2_000), name  # folded: whole µs


SHAPES = [
    "hide:malloc@libc.so.6",
    "fold:@libpython3.12.so.1.0",
    "fold:=stdlib;recursion",
    "only:Cart.total@shop/models.py",
    "without:?json",
    "focus:Worker.handle@shop/server.py;hide:=library",
    "callers:malloc@libc.so.6",
    "inverted",
    "fold:=library;focus:?libraries",
    "hide:?.;busy",
]


def exported(client: FlaskClient, name: str, **query: object) -> Any:
    response = client.get("/api/export", query_string={"format": name, **query}, buffered=True)
    assert response.status_code == 200, response.text
    return response


def stacks_of(file: dict[str, Any]) -> Counter[str]:
    """The stacks of a speedscope file as those of a folded one, nanoseconds."""
    frames = file["shared"]["frames"]
    found: Counter[str] = Counter()
    for profile in file["profiles"]:
        assert sum(profile["weights"]) == profile["endValue"] > 0
        for stack, weight in zip(profile["samples"], profile["weights"], strict=True):
            found[";".join(frames[each]["name"] for each in stack) or "all"] += weight
    return found


@pytest.mark.parametrize("shape", SHAPES)
def test_every_format_has_the_shape_that_is_shown(client: FlaskClient, shape: str) -> None:
    shown = client.get("/api/view", query_string={"shape": shape}).get_json()["total_ns"]
    folded = parse_folded(exported(client, "folded", shape=shape).text).weights
    assert 1000 * sum(folded.values()) == pytest.approx(shown, abs=1_000)
    # The other way to shape: single stacks, in the order of time.
    file = json.loads(exported(client, "speedscope", shape=shape).text)
    stacks = stacks_of(file)
    assert stacks.total() == shown
    by_name: Counter[str] = Counter()
    for path, weight in folded.items():
        by_name[";".join(each.split(" (")[0] for each in path)] += weight
    assert by_name.keys() == stacks.keys()
    for joined, weight_ns in stacks.items():
        assert 1000 * by_name[joined] == pytest.approx(weight_ns, abs=100_000), joined
    report = packed_report.read(exported(client, "html", shape=shape).text)
    assert report.stacks("cpu").total() == shown


def test_folded_chains_are_one_function(client: FlaskClient) -> None:
    folded = exported(client, "folded", shape="chains").text
    assert "_start … " in folded
    assert "_start … " in exported(client, "svg", shape="chains").text
    view = client.get("/api/view", query_string={"shape": "chains"}).get_json()
    assert 1000 * sum(parse_folded(folded).weights.values()) == pytest.approx(
        view["total_ns"], abs=1_000
    )


def test_name_and_title_say_what_is_in_the_file(client: FlaskClient) -> None:
    query = {"shape": "focus:malloc@libc.so.6;hide:?json", "language": "native"}
    response = exported(client, "svg", **query)
    name = response.headers["Content-Disposition"]
    assert re.search(r"-cpu-native-focus-hide-\d{8}-\d{4}\.svg", name)
    title = "cpu time; only Native functions; only malloc and what it calls; “json” hidden</title>"
    assert title in response.text
    report = packed_report.read(exported(client, "html", **query).text)
    assert (
        "the whole recording; only Native functions; only malloc" in report.data["status"]["report"]
    )


def test_step_that_is_none_is_named(client: FlaskClient) -> None:
    response = client.get("/api/export?format=folded&shape=turn")
    assert response.status_code == 400
    assert response.get_json()["error"].startswith("shape has steps")


def test_menu_lists_every_format(client: FlaskClient) -> None:
    listed = client.get("/api/exports").get_json()["exports"]
    assert [each["name"] for each in listed] == list(FORMATS)
    assert all(each["label"] and each["about"] for each in listed)


@pytest.mark.parametrize(
    ("query", "word"), [("", "format"), ("format=docx", "format"), ("format=html&range=9", "range")]
)
def test_arguments_that_make_no_sense_are_named(client: FlaskClient, query: str, word: str) -> None:
    response = client.get(f"/api/export?{query}")
    assert response.status_code == 400
    assert response.get_json()["error"].startswith(word)


def test_file_that_would_be_too_large_is_refused(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "MAX_BYTES", 1000)
    response = client.get("/api/export?format=folded")
    assert response.status_code == 413
    assert "flametap record -o" in response.get_json()["error"]


def test_few_are_built_at_once(client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    entry, is_building, may_end = FORMATS["folded"], threading.Semaphore(0), threading.Event()

    def wait(*_: Any) -> None:
        is_building.release()
        may_end.wait(60)

    monkeypatch.setitem(FORMATS, "folded", type(entry)(entry.extensions, wait))
    threads = [
        threading.Thread(
            target=client.get, args=("/api/export?format=folded",), kwargs={"buffered": True}
        )
        for _ in range(exports.MAX_AT_ONCE)
    ]
    try:
        for thread in threads:
            thread.start()
        for _ in threads:
            assert is_building.acquire(timeout=60)
        assert client.get("/api/export?format=html").status_code == 503
    finally:
        may_end.set()
        for thread in threads:
            thread.join()
    assert client.get("/api/export?format=html", buffered=True).status_code == 200


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(), "flametap-my_prog-7-cpu.svg"),
        (Selection(Clock.WALL, frozenset({1})), "flametap-my_prog-7-wall-1thread.svg"),
        (
            Selection(span=Span(2 * 10**9, 3_500_000_000)),
            "flametap-my_prog-7-cpu-2-3.5s.svg",
        ),
        (Selection(span=Span(-(10**9))), "flametap-my_prog-7-cpu-last1s.svg"),
    ],
)
def test_file_has_a_good_name(selection: Selection, expected: str) -> None:
    status = Status(7, '/opt/my"prog --x', "recording")
    assert file_name(status, selection, ".svg") == expected


def test_whole_recording_is_saved_as_it_is_kept(tmp_path: Path) -> None:
    path = write_recording(tmp_path / "kept.flametap", program({}, 1))
    client = create_app(views_of(open_recording(str(path))), TOKEN).test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {TOKEN}"
    listed = client.get("/api/exports").get_json()["exports"]
    assert [each["name"] for each in listed] == ["flametap", *FORMATS]
    saved = client.get("/api/export?format=flametap&clock=wall&range=0-10", buffered=True)
    assert saved.data == path.read_bytes()
    assert re.search(r'filename="prog-7-\d+-\d+\.flametap"', saved.headers["Content-Disposition"])


def test_recording_that_is_in_no_file_cannot_be_saved_whole(client: FlaskClient) -> None:
    assert client.get("/api/export?format=flametap").status_code == 400
