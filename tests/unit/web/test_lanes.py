"""The lanes of the timeline: what a request may ask for, and the size of the answer."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from typing import Any

import orjson
import pytest
from flask.testing import FlaskClient

from flametap.model import Activity
from flametap.timeline.encode_lanes import FIRST
from flametap.timeline.lanes import FULL, LaneQuery
from made_graph import THREADS
from made_server import MadeServer


def lanes(client: FlaskClient, **query: object) -> dict[str, Any]:
    response = client.get("/api/lanes", query_string=query)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.get_json()
    return answer


def _columns(rows: Iterable[Iterable[Any]]) -> Iterator[tuple[Any, ...]]:
    return zip(*rows, strict=True)


def test_lanes_have_a_character_for_each_bin_and_add_up(
    client: FlaskClient, made: MadeServer
) -> None:
    answer = lanes(client, bins=200, lanes=4, overview=100)
    count = answer["bins"]["count"]
    assert 100 < count <= 201
    assert answer["duration_ns"] == 5 * 10**9
    each = [*answer["lanes"], answer["rest"], answer["all"]]
    for lane in each:
        assert all(len(plane) == count for plane in lane["planes"].values())
        whole = [
            sum(ord(one) - FIRST for one in bin_) for bin_ in _columns(lane["planes"].values())
        ]
        assert max(whole) <= FULL + len(lane["planes"])  # rounding
    sums = _columns(lane["sums_ns"] for lane in (*answer["lanes"], answer["rest"]))
    assert [sum(column) for column in sums] == pytest.approx(answer["all"]["sums_ns"], abs=20)
    assert sum(answer["all"]["sums_ns"]) == len(THREADS) * 5 * 10**9
    assert [lane["name"] for lane in answer["lanes"]] == list(THREADS[:4])
    assert answer["rest"]["threads"] == len(THREADS) - 4
    assert answer["activities"] == [each.name.lower() for each in Activity]
    assert answer["overview_bins"]["count"] <= 101
    assert set(answer["overview"]["planes"]) == {"cpu", "queued"}
    assert lanes(client)["overview"] is None


def test_a_range_and_some_threads(client: FlaskClient) -> None:
    answer = lanes(client, **{"from": 1000, "to": 2000, "threads": "2,3", "lanes": 1, "also": "3"})
    assert [lane["thread_id"] for lane in answer["lanes"]] == [2, 3]
    assert answer["n_threads"] == 2
    start, step = answer["bins"]["start_ns"], answer["bins"]["step_ns"]
    assert start <= 10**9 < start + step
    assert start + step * answer["bins"]["count"] >= 2 * 10**9


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ({"from": "x"}, "from must be a whole number"),
        ({"to": "-1"}, "to must be a whole number"),
        ({"bins": "9" * 400}, "bins must be a whole number"),
        ({"also": "1,b"}, "also must be at most 64 ids of threads"),
        ({"only": ",".join(["1"] * 65)}, "only must be at most 64 ids of threads"),
    ],
)
def test_bad_arguments_are_named(client: FlaskClient, query: dict[str, str], error: str) -> None:
    response = client.get("/api/lanes", query_string=query)
    assert response.status_code == 400
    assert response.get_json() == {"error": error}


def test_numbers_out_of_range_are_clamped(client: FlaskClient) -> None:
    wide = {"from": 10**11, "to": 0, "bins": 10**9, "level": 99, "lanes": 10**6, "skip": 10**9}
    assert lanes(client, **wide)["lanes"] == []
    assert lanes(client, level=0)["bins"]["count"] <= 1441
    assert lanes(client, bins=0)["bins"]["count"] <= 2


def test_answers_are_compressed_and_small(made: MadeServer, client: FlaskClient) -> None:
    made.advance(30.0)
    query = {"bins": 1440, "lanes": 32, "idle": 1, "overview": 720}
    plain = lanes(client, **query)
    response = client.get(
        "/api/lanes", query_string=query, headers={"Accept-Encoding": "gzip, deflate"}
    )
    assert response.headers["Content-Encoding"] == "gzip"
    assert orjson.loads(gzip.decompress(response.data)) == plain
    # 12 of 32 lanes; the bar is 100 kB for all.
    assert len(response.data) < 100_000 * 12 / 32
    made.advance(1.0)
    newer = {**query, "from": 28_000, "level": plain["bins"]["level"]}
    response = client.get("/api/lanes", query_string=newer, headers={"Accept-Encoding": "gzip"})
    assert len(response.data) < 15_000


def test_the_query_has_the_page_s_defaults() -> None:
    assert LaneQuery() == LaneQuery(0, None, 600, None, None, 4)
