"""Shapes, rows of the tree table, comparisons and names in requests, of a made-up server."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient

from flametap.web.app import create_app
from made_programs import SAMPLE_NS, SAMPLES, program
from made_server import TOKEN, MadeServer
from served import served


def view(client: FlaskClient, **query: object) -> dict[str, Any]:
    response = client.get("/api/view", query_string={"width": 20_000, "rows": 4096, **query})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.get_json()
    return answer


def rows_of(client: FlaskClient, *paths: str, **query: object) -> list[dict[str, Any]]:
    body: dict[str, Any] = {"nodes": [{"path": path} for path in paths]}
    if "heaviest" in query:
        body["heaviest"] = {"path": query.pop("heaviest")}
    response = client.post("/api/tree", json=body, query_string=query)
    assert response.status_code == 200, response.text
    nodes: list[dict[str, Any]] = response.get_json()["nodes"]
    return nodes


def names(answer: dict[str, Any]) -> list[str]:
    functions = [*answer["functions"]["name"], ""]
    return [functions[at] for at in answer["boxes"]["function"]]


def self_sum(answer: dict[str, Any]) -> int:
    return sum(answer["boxes"]["self_ns"])


def row_names(answer: dict[str, Any], row: int) -> set[str]:
    rows = zip(names(answer), answer["boxes"]["row"], strict=True)
    return {name for name, at in rows if at == row and name}


def calls(answer: dict[str, Any]) -> set[tuple[str, str]]:
    """The names of callers and of what they call."""
    shown, parents = names(answer), answer["boxes"]["parent"]
    return {(shown[parent], name) for name, parent in zip(shown, parents, strict=True)}


MALLOC = "malloc@libc.so.6"


@pytest.mark.parametrize(
    "shape",
    [
        f"hide:{MALLOC}",
        "hide:@orderd",
        "fold:@libpython3.11.so.1.0",
        "fold:=native",
        "recursion",
        "chains",
        "inverted",
        "hide:?json;recursion;chains",
    ],
)
def test_steps_that_only_rearrange_keep_the_whole_weight(client: FlaskClient, shape: str) -> None:
    plain_view, shaped = view(client), view(client, shape=shape)
    assert shaped["total_ns"] == plain_view["total_ns"] == shaped["boxes"]["total_ns"][0]
    assert self_sum(shaped) <= shaped["total_ns"]
    assert set(shaped["steps"]) == {True}


def test_hidden_function_is_gone_and_its_weight_is_its_callers(client: FlaskClient) -> None:
    shaped = view(client, shape=f"hide:{MALLOC}", table="self")
    assert "malloc" not in names(shaped)
    assert "malloc" not in shaped["table"]["rows"]["name"]
    assert "malloc" in names(view(client))


def test_folded_module_is_one_box_of_a_kind_of_its_own(client: FlaskClient) -> None:
    shaped = view(client, shape="fold:@libc.so.6")
    at = shaped["functions"]["name"].index("[libc.so.6]")
    assert shaped["functions"]["kind"][at] == "folded"
    assert shaped["functions"]["module"][at] == "libc.so.6"
    again = view(client, shape="fold:@libc.so.6", zoom="[libc.so.6]@libc.so.6")
    assert again["zoom"]["path"] == [shaped["functions"]["id"][at]]


def test_callers_and_callees_of_a_function_have_its_weight(client: FlaskClient) -> None:
    table = view(client, table="total")["table"]["rows"]
    total = table["total_ns"][table["name"].index("OrderBook::match")]
    target = "OrderBook::match@orderd"
    above, below = view(client, shape=f"callers:{target}"), view(client, shape=f"focus:{target}")
    assert above["total_ns"] == below["total_ns"] == total
    assert row_names(above, 1) == row_names(below, 1) == {"OrderBook::match"}
    assert {"OrderBook::submit", "Worker::step"} <= row_names(above, 2)
    assert "PriceLevel::fill" in row_names(below, 2)
    only = view(client, shape=f"only:{target}")
    without = view(client, shape=f"without:{target}")
    assert only["total_ns"] == total
    assert without["total_ns"] + total == view(client)["total_ns"]


def test_inverted_view_begins_with_the_functions_that_spend_the_time(client: FlaskClient) -> None:
    inverted = view(client, shape="inverted", table="self")
    rows = inverted["table"]["rows"]
    own = dict(zip(rows["name"], rows["self_ns"], strict=True))
    first = [
        (name, total)
        for name, row, total in zip(
            names(inverted), inverted["boxes"]["row"], inverted["boxes"]["total_ns"], strict=True
        )
        if row == 1 and name
    ]
    assert len(first) > 5
    assert all(own[name] == total for name, total in first)
    zoomed = view(client, shape="inverted", zoom=f"{MALLOC};operator new@libstdc++.so.6")
    assert len(zoomed["zoom"]["path"]) == 2


def test_step_without_a_function_of_the_recording_says_so(client: FlaskClient) -> None:
    answer = view(client, shape="focus:nobody@nowhere;recursion")
    assert answer["steps"] == [False, True]
    assert answer["total_ns"] == 0


def test_idle_waits_can_be_left_out_and_others_stay(client: FlaskClient) -> None:
    waits = view(client, clock="off-cpu")
    busy = view(client, clock="off-cpu", shape="busy")
    idle = {("epoll_wait", "[epoll_wait]"), ("pthread_cond_wait", "[futex]")}
    others = {("read", "[read]"), ("pthread_mutex_lock", "[futex]")}
    assert idle | others <= calls(waits)
    assert others <= calls(busy)
    assert not idle & calls(busy)


def test_table_of_the_tree_pages_children_by_weight(client: FlaskClient) -> None:
    (root,) = rows_of(client, "")
    assert root["path"] == []
    assert root["count"] == len(root["rows"]["id"]) == 3
    heavy = root["rows"]["id"][0]
    deep = rows_of(client, f"{heavy}", "77777", heaviest="")
    assert [node["path"] for node in deep[:2]] == [[heavy], []]
    assert all(node["count"] for node in deep[2:-1])
    assert deep[-1]["count"] == 0
    weights = rows_of(client, "worker_main@orderd", clock="wall")
    assert weights == []  # the path begins at the root
    path = "start_thread@libc.so.6;worker_main@orderd;Worker::step@orderd"
    (step,) = rows_of(client, path)
    totals = step["rows"]["total_ns"]
    assert totals == sorted(totals, reverse=True)
    assert sum(totals) <= step["total_ns"]
    part = client.post(
        "/api/tree", json={"nodes": [{"path": path, "offset": 2, "limit": 3}]}
    ).get_json()["nodes"][0]
    assert part["rows"]["name"] == step["rows"]["name"][2:5]
    assert part["count"] == step["count"]


def test_rows_of_an_inverted_tree_open_however_narrow(client: FlaskClient) -> None:
    path: list[str] = []
    for _ in range(4):
        (node,) = rows_of(client, ".".join(path), shape="inverted")
        assert sum(node["rows"]["total_ns"]) <= node["total_ns"]
        if not node["count"]:
            break
        path.append(str(node["rows"]["id"][-1]))  # the lightest
    assert len(path) > 2


@pytest.mark.parametrize(
    "body", [[], {}, {"nodes": 1}, {"nodes": [{}]}, {"nodes": [{"path": "", "limit": -1}]}]
)
def test_bad_request_for_rows_is_refused(client: FlaskClient, body: Any) -> None:
    assert client.post("/api/tree", json=body).status_code == 400


# --- comparisons ---


def test_comparison_has_both_sides_and_their_sums(client: FlaskClient, made: MadeServer) -> None:
    answer = view(client, range="3000-5000", compare="0-3000", table="total")
    here = view(client, range="3000-5000")
    there = view(client, range="0-3000")
    assert answer["total_ns"] == here["total_ns"]
    assert answer["boxes"]["here_ns"][0] == here["total_ns"]
    assert answer["boxes"]["there_ns"][0] == there["total_ns"]
    rows = answer["table"]["rows"]
    assert {"self_here", "self_there", "total_change"} <= set(rows)
    assert max(rows["total_here"]) <= here["total_ns"]
    assert answer["comparison"]["is_share"] is True
    # The made-up server does the same at all times, as far as chance goes.
    assert set(answer["boxes"]["change"]) == {0}


def test_comparison_with_the_rest_adds_up_to_everything(client: FlaskClient) -> None:
    answer = view(client, range="1000-2000", compare="rest", width_of="both", scale="time")
    everything = view(client)["total_ns"]
    assert answer["boxes"]["here_ns"][0] + answer["boxes"]["there_ns"][0] == everything
    assert answer["comparison"]["here_ns"] == 1e9
    assert answer["comparison"]["there_ns"] == 4e9
    shaped = view(client, range="1000-2000", compare="rest", shape="inverted")
    assert shaped["boxes"]["here_ns"][0] == answer["boxes"]["here_ns"][0]
    assert shaped["table"] is None
    (page,) = rows_of(client, "", range="1000-2000", compare="rest")
    assert sum(page["rows"]["here_ns"]) == answer["boxes"]["here_ns"][0]


# --- names ---


def test_path_of_names_is_the_path_of_ids(client: FlaskClient) -> None:
    by_name = view(client, zoom="start_thread@libc.so.6;worker_main@orderd")
    ids = by_name["zoom"]["path"]
    assert len(ids) == 2
    assert view(client, zoom=".".join(map(str, ids)))["zoom"]["path"] == ids
    mixed = view(client, zoom=f"{ids[0]};worker_main@orderd;gone@orderd")
    assert mixed["zoom"] == {**by_name["zoom"], "asked": 3}


def test_threads_are_found_by_name_in_another_process(client: FlaskClient) -> None:
    answer = view(client, threads="worker-2@1,nobody@5")
    chosen = answer["threads"]["chosen"]
    assert [each["name"] for each in chosen] == ["worker-2"]
    assert answer["threads"]["missing"] == ["nobody"]
    assert answer["total_ns"] == view(client, threads=chosen[0]["thread_id"])["total_ns"]
    assert "threads" not in view(client, threads="1")


def test_comparison_with_another_recording() -> None:
    before, after = program({}, 1), program({"match": 1.6}, 2)
    app = create_app(served(after=after, before=before), TOKEN)
    client = app.test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {TOKEN}"
    answer = client.get("/api/view?compare=file&table=self&table_rows=20").get_json()
    whole_ns = SAMPLES * SAMPLE_NS
    assert answer["comparison"]["here_total_ns"] == whole_ns
    assert answer["comparison"]["there_total_ns"] == whole_ns
    rows = answer["table"]["rows"]
    assert rows["name"][0] == "match"
    assert rows["self_change"][0] == 2
    assert sum(rows["self_here"]) == sum(rows["self_there"]) == whole_ns
    both = client.get("/api/view?compare=file&width_of=both&scale=time").get_json()
    assert both["total_ns"] == pytest.approx(2 * whole_ns, rel=0.01)


def test_there_is_no_other_recording(client: FlaskClient) -> None:
    response = client.get("/api/view?compare=file")
    assert response.status_code == 400
    assert "no other recording" in response.get_json()["error"]
