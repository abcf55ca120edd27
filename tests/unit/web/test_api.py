"""The API below the page: requests in, JSON out, against a made-up server's recording."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from flask.testing import FlaskClient

from flametap.model import Clock
from flametap.tree.selection import Selection
from flametap.web.trees import MAX_TREES, TreeCache
from made_graph import TAKEN_IN
from made_server import MadeServer
from spied import spied


def view(client: FlaskClient, **query: object) -> dict[str, Any]:
    response = client.get("/api/view", query_string=query)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.get_json()
    return answer


def names(answer: dict[str, Any]) -> list[str]:
    """The name of each box; "" for the root and for runs."""
    functions = [*answer["functions"]["name"], ""]
    return [functions[at] for at in answer["boxes"]["function"]]


def path_to(answer: dict[str, Any], name: str) -> list[int]:
    box = names(answer).index(name)
    path = []
    while box:
        path.append(answer["functions"]["id"][answer["boxes"]["function"][box]])
        box = answer["boxes"]["parent"][box]
    return path[::-1]


def test_view_has_equal_columns_and_the_whole_weight(client: FlaskClient, made: MadeServer) -> None:
    answer = view(client)
    assert len({len(column) for column in answer["boxes"].values()}) == 1
    assert len({len(column) for column in answer["functions"].values()}) == 1
    assert answer["total_ns"] == made.views.tree(Selection(Clock.CPU, None)).total_ns[0]
    assert answer["boxes"]["total_ns"][0] == answer["total_ns"]
    assert answer["revision"] == made.revision
    assert {"_start", "main", "worker_main"} <= set(names(answer))
    assert answer["search"] is None
    assert answer["table"] is None


def test_zoom_survives_growth_and_other_clocks(client: FlaskClient, made: MadeServer) -> None:
    path = path_to(view(client), "Worker::step")
    made.advance(3.0)
    zoom = ".".join(map(str, path))
    answer = view(client, zoom=zoom, revision=made.revision)
    assert answer["zoom"] == {"path": path, "box": len(path), "asked": len(path)}
    assert names(answer)[len(path)] == "Worker::step"
    wall = view(client, zoom=zoom, clock="wall")
    assert names(wall)[wall["zoom"]["box"]] == "Worker::step"


def test_zoom_to_what_is_gone_keeps_the_longest_prefix(client: FlaskClient) -> None:
    path = path_to(view(client), "worker_main")
    answer = view(client, zoom=".".join(map(str, [*path, 99999, 1])))
    assert answer["zoom"] == {"path": path, "box": len(path), "asked": len(path) + 2}


def test_clock_and_threads_choose_what_is_counted(client: FlaskClient, made: MadeServer) -> None:
    off_cpu = view(client, clock="off-cpu")
    assert "[futex]" in names(off_cpu)
    assert "syscall" in off_cpu["functions"]["kind"]
    main_only = view(client, threads="1")
    assert "_start" in names(main_only)
    assert "start_thread" not in names(main_only)
    assert main_only["total_ns"] < view(client)["total_ns"]


def test_narrower_canvas_gets_fewer_boxes(client: FlaskClient) -> None:
    assert len(names(view(client, width=100))) < len(names(view(client, width=2000)))


def test_search_marks_functions_and_adds_up(client: FlaskClient) -> None:
    answer = view(client, q="malloc")
    functions = answer["functions"]
    found = {n for n, hit in zip(functions["name"], functions["matches"], strict=True) if hit}
    assert found
    assert all("malloc" in name.lower() for name in found)
    search = answer["search"]
    assert 0 < search["total_ns"] < answer["total_ns"]
    assert search["error"] is None
    weights = [match["total_ns"] for match in search["top"]]
    assert weights == sorted(weights, reverse=True)
    assert sum(weights) <= search["total_ns"]
    heaviest = view(client, zoom=".".join(map(str, search["top"][0]["path"])))
    assert heaviest["boxes"]["total_ns"][heaviest["zoom"]["box"]] == weights[0]


def test_search_for_a_file_finds_functions_that_take_it_in(client: FlaskClient) -> None:
    answer = view(client, q="file:generated_cases")
    matching = zip(answer["functions"]["name"], answer["functions"]["matches"], strict=True)
    assert {name for name, matches in matching if matches} == {"_PyEval_EvalFrameDefault"}
    assert answer["search"]["total_ns"] > 0
    places = zip(names(answer), answer["boxes"]["line_file"], strict=True)
    files = {name: answer["line_files"][file] for name, file in places}
    assert files["_PyEval_EvalFrameDefault"] == TAKEN_IN
    assert files["Worker::step"] == ""


def test_bad_pattern_is_a_message_and_the_boxes_still_come(client: FlaskClient) -> None:
    answer = view(client, q="re:(malloc")
    assert "missing )" in answer["search"]["error"]
    assert len(names(answer)) > 10
    assert "matches" not in answer["functions"]


def test_table_is_sorted_as_asked(client: FlaskClient) -> None:
    for order in ("self", "total"):
        rows = view(client, table=order)["table"]["rows"]
        weights = rows[f"{order}_ns"]
        assert weights == sorted(weights, reverse=True)
        assert "worker_main" in rows["name"]


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ({"clock": "sundial"}, "clock"),
        ({"shape": "spin"}, "hide, fold"),
        ({"shape": "hide"}, "needs a target"),
        ({"shape": "chains:a@b"}, "takes no target"),
        ({"shape": "fold:=cloud"}, "origin"),
        ({"shape": "only:?re:(a"}, "bad pattern"),
        ({"compare": "9"}, "compare"),
        ({"compare": "rest", "scale": "log"}, "scale"),
        ({"compare": "rest", "width_of": "none"}, "width_of"),
        ({"threads": "4294967296"}, "threads"),
        ({"threads": "all"}, "threads"),
        ({"width": "wide"}, "width"),
        ({"width": "nan"}, "width"),
        ({"table": "both"}, "table"),
    ],
)
def test_arguments_that_make_no_sense_are_named(
    client: FlaskClient, query: dict[str, str], word: str
) -> None:
    response = client.get("/api/view", query_string=query)
    assert response.status_code == 400
    assert word in response.get_json()["error"]


@pytest.mark.parametrize(
    "query", [{"width": "inf"}, {"width": "-5"}, {"rows": "1e9"}, {"zoom": "-1"}, {"threads": "77"}]
)
def test_arguments_out_of_range_are_harmless(client: FlaskClient, query: dict[str, str]) -> None:
    assert view(client, **query)["boxes"]["row"][0] == 0


def test_tree_is_built_once_per_revision(
    client: FlaskClient, made: MadeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    trees = spied(monkeypatch, made.views, "tree")
    for _ in range(3):
        first = view(client)
    view(client, zoom=path_to(first, "main")[0], q="main", revision=first["revision"])
    assert len(trees) == 1
    made.advance(1.0)
    assert view(client, revision=first["revision"])["revision"] == first["revision"]
    assert len(trees) == 1
    assert view(client, revision=made.revision)["revision"] == made.revision
    assert len(trees) == 2


def test_only_the_last_few_trees_are_kept(
    made: MadeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    trees = TreeCache(made.views)
    built = spied(monkeypatch, made.views, "tree")
    for thread in [*range(MAX_TREES + 1), 0]:
        trees.get(Selection(thread_ids=frozenset({thread})), 0)
    assert len(built) == MAX_TREES + 2


def test_status_has_everything_the_panels_show(client: FlaskClient) -> None:
    answer = client.get("/api/status").get_json()
    assert answer["status"]["state"] == "recording"
    assert answer["status"]["counters"]["ring_full"] == 0
    assert answer["status"]["symbols"][0]["module"] == "orderd"
    assert answer["thread_count"] > 5
    assert "threads" not in answer


def test_pause_reaches_the_source_and_nothing_else_does(
    client: FlaskClient, made: MadeServer
) -> None:
    url = "/api/pause"
    assert client.post(url, json={"paused": True}).get_json() == {"paused": True}
    assert made.controls.state == "paused"
    assert client.post(url, json={"paused": "yes"}).status_code == 400
    assert client.post(url, data="paused=false").status_code == 415
    assert client.get(url).status_code == 405
    assert made.controls.state == "paused"


def test_events_end_when_nothing_can_change_any_more(client: FlaskClient, made: MadeServer) -> None:
    made.end()
    response = client.get("/api/events")
    assert response.mimetype == "text/event-stream"
    events = response.text.split("\n\n")
    assert events[0].startswith("retry: ")
    name, data = events[1].split("\n")
    assert name == "event: status"
    status = orjson.loads(data.removeprefix("data: "))
    assert (status["state"], status["revision"]) == ("ended", made.revision)
    assert "symbols" not in status
    assert events[2].startswith("event: end")


def test_function_ids_are_those_of_the_source(client: FlaskClient, made: MadeServer) -> None:
    for query in ({}, {"clock": "wall"}, {"threads": "2"}):
        functions = view(client, **query)["functions"]
        assert functions["name"] == [made.recording.functions[at].name for at in functions["id"]]


@pytest.mark.parametrize("text", ["5", "-5", "a-b", "5-5", "9-5", "last", "1-2-3", "1" * 40 + "-2"])
def test_a_range_that_is_none_is_refused(client: FlaskClient, text: str) -> None:
    answer = client.get("/api/view", query_string={"range": text})
    assert answer.status_code == 400
    assert "range" in answer.get_json()["error"]


def test_ranges_of_a_view_add_up(client: FlaskClient, made: MadeServer) -> None:
    whole_ms = made.recording.status().duration_ns // 10**6
    parts = [f"0-{whole_ms // 3}", f"{whole_ms // 3}-{whole_ms}"]
    totals = [view(client, range=each)["total_ns"] for each in parts]
    assert sum(totals) == pytest.approx(view(client)["total_ns"], rel=1e-3)
    assert view(client, range=f"last{whole_ms}")["total_ns"] == view(client)["total_ns"]


def test_settings_reach_the_recording(client: FlaskClient, made: MadeServer) -> None:
    given = {"rate_hz": 250, "budget_percent": 0.5}
    assert client.post("/api/settings", json=given).get_json() == given
    assert (made.controls.rate_hz, made.controls.budget_percent) == (250, 0.5)
    status = client.get("/api/status").get_json()["status"]
    assert (status["asked_rate_hz"], status["budget_ppm"]) == (250, 5000)


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({"rate_hz": 0, "budget_percent": 1}, "between 1 and 10000 Hz"),
        ({"rate_hz": 100, "budget_percent": 1e9}, "is not a budget"),
        ({"rate_hz": 100, "budget_percent": -0.5}, "is not a budget"),
        ({"rate_hz": 100}, "rate_hz and budget_percent"),
        ({"rate_hz": True, "budget_percent": 1}, "rate_hz and budget_percent"),
        ({"rate_hz": "100", "budget_percent": 1}, "rate_hz and budget_percent"),
        ([], "rate_hz and budget_percent"),
    ],
)
def test_settings_out_of_bounds_are_refused(
    client: FlaskClient, made: MadeServer, body: object, word: str
) -> None:
    response = client.post("/api/settings", json=body)
    assert response.status_code == 400
    assert word in response.get_json()["error"]
    assert (made.controls.rate_hz, made.controls.budget_percent) == (100, 1)
