"""The list of threads below the page: filtered, grouped, sorted and sent in parts."""

from __future__ import annotations

import gzip
from typing import Any

import orjson
import pytest
from flask.testing import FlaskClient

from flametap.model import ThreadInfo
from flametap.web.app import create_app
from flametap.web.encode_threads import ThreadQuery, encode_threads, format_ids
from made_server import TOKEN, MadeServer
from many_threads import COUNT, US, ManyThreads
from spied import spied


@pytest.fixture(scope="module")
def still() -> ManyThreads:
    """Threads of which none gets any older."""
    return ManyThreads()


@pytest.fixture
def client(still: ManyThreads) -> FlaskClient:
    return client_of(still)


def client_of(made: ManyThreads | MadeServer) -> FlaskClient:
    client = create_app(made.views, TOKEN).test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {TOKEN}"
    return client


def threads(client: FlaskClient, **query: object) -> dict[str, Any]:
    response = client.get("/api/threads", query_string=query)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.get_json()
    return answer


def test_status_is_small_with_ten_thousand_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many = ManyThreads()
    client = client_of(many)
    monkeypatch.setattr("flametap.web.api.COUNT_AGE_S", 600.0)  # the machine may be busy
    lists = spied(monkeypatch, many.views, "threads")
    for _ in range(5):
        answer = client.get("/api/status")
        assert answer.get_json()["thread_count"] == 10_000
        assert len(answer.data) < 20_000
        many.advance()
    assert len(lists) == 1


def test_weights_are_those_of_the_range(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many = ManyThreads()
    client = client_of(many)
    lists = spied(monkeypatch, many.views, "threads")
    for _ in range(2):
        answer = threads(client, range="1-3", sort="tid", limit=500, offset=800)
        assert [row["cpu_ns"] for row in answer["rows"]] == [
            max(0, at - 1_000) * US for at in range(800, 1_300)
        ]
        assert answer["most_ns"]["cpu_ns"] == 2_000 * US
    assert len(lists) == 1
    many.advance()
    threads(client, range="1-3")
    assert len(lists) == 2
    assert threads(client)["rows"][0]["cpu_ns"] == 10_000 * US
    assert client.get("/api/threads?range=x").status_code == 400


def test_only_the_rows_asked_for_are_sent_in_their_order(client: FlaskClient) -> None:
    answer = threads(client, sort="cpu", offset=3, limit=20)
    assert [row["cpu_ns"] for row in answer["rows"]] == [at * US for at in range(9996, 9976, -1)]
    assert (answer["count"], answer["matching"], answer["row_count"]) == (10_000, 10_000, 10_000)
    assert answer["most_ns"]["wall_ns"] == 2 * 9999 * US
    by_name = threads(client, sort="name", limit=3)
    assert [row["name"] for row in by_name["rows"]] == ["io-1", "io-2", "io-3"]
    last = threads(client, sort="name", offset=9_999)
    assert [row["name"] for row in last["rows"]] == ["worker-9996"]
    assert len(client.get("/api/threads?limit=100").data) < 30_000


def test_filter_is_a_part_of_the_name_or_an_expression(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flametap.tree.search.DEADLINE_S", 60.0)  # the machine may be busy
    answer = threads(client, filter="worker-999", sort="name")
    assert [row["name"] for row in answer["rows"]] == ["worker-9992", "worker-9996"]
    assert answer["matching_ids"] == "9993,9997"
    assert threads(client, filter="re:^io-[1-3]$", sort="name")["matching"] == 3
    assert threads(client, filter="14321")["rows"][0]["name"] == "io-9321"  # its tid
    bad = threads(client, filter="re:(")
    assert "bad pattern" in bad["error"]
    assert bad["rows"] == []


def test_groups_are_names_that_differ_only_in_numbers(client: FlaskClient) -> None:
    answer = threads(client, group=1, sort="cpu")
    assert [(row["name"], row["count"]) for row in answer["rows"]] == [
        ("io-#", 7500),
        ("worker-#", 2500),
    ]
    assert sum(row["cpu_ns"] for row in answer["rows"]) == sum(range(COUNT)) * US
    assert answer["rows"][1]["thread_ids"].startswith("1,5,9")
    alone = [ThreadInfo(1, 7, "main", 1, 1, 0, False, "")]
    assert encode_threads(alone, ThreadQuery(is_grouped=True))["rows"][0]["name"] == "main"


def test_threads_are_named_by_their_ids(client: FlaskClient) -> None:
    answer = threads(client, ids="3,77,99999", limit=0)
    assert [each["name"] for each in answer["known"]] == ["io-2", "worker-76"]
    assert answer["rows"] == []


@pytest.mark.parametrize(
    ("query", "word"),
    [({"sort": "size"}, "sort"), ({"offset": "-1"}, "offset"), ({"ids": "x"}, "ids")],
)
def test_bad_arguments_are_named(client: FlaskClient, query: dict[str, str], word: str) -> None:
    response = client.get("/api/threads", query_string=query)
    assert response.status_code == 400
    assert word in response.get_json()["error"]


def test_ids_are_written_short() -> None:
    assert format_ids([]) == ""
    assert format_ids([5, 1, 2, 3, 9, 10]) == "1-3,5,9,10"


def test_a_selection_has_ranges_of_threads(client: FlaskClient) -> None:
    made = MadeServer(400)
    made.advance(1.0)
    few = client_of(made)
    both = [few.get(f"/api/view?threads={ids}").get_json() for ids in ("1,2,3,4", "1-4")]
    assert both[0] == both[1]
    assert both[0]["total_ns"] > 0
    for bad in ("4-1", "1-4294967296", "0-4000000000", "1-2-3"):
        assert client.get(f"/api/view?threads={bad}").status_code == 400


def test_long_answers_are_compressed_where_the_browser_can_read_that(client: FlaskClient) -> None:
    path = "/api/threads?limit=100"
    plain = client.get(path)
    packed = client.get(path, headers={"Accept-Encoding": "gzip, br"})
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert packed.headers["Vary"] == "Accept-Encoding"
    assert int(packed.headers["Content-Length"]) == len(packed.data) < len(plain.data) / 3
    assert orjson.loads(gzip.decompress(packed.data)) == plain.get_json()
    short = client.get("/api/threads?limit=0", headers={"Accept-Encoding": "gzip"})
    assert "Content-Encoding" not in short.headers
    with client.get("/static/main.js", headers={"Accept-Encoding": "gzip"}) as script:
        packed_script = script.data
    with client.get("/static/main.js") as script:
        assert gzip.decompress(packed_script) == script.data
