"""The list of threads below the page: filtered, grouped, sorted and sent in parts."""

from __future__ import annotations

import gzip
from dataclasses import replace
from typing import Any

import orjson
import pytest
from flask.testing import FlaskClient

from fake_source import TOKEN, FakeSource
from flametap.model import ThreadInfo
from flametap.tree.selection import Span
from flametap.web.app import create_app
from flametap.web.encode_threads import ThreadQuery, encode_threads, format_ids

MANY = [
    ThreadInfo(
        at + 1, 5000 + at, f"{'io' if at % 4 else 'worker'}-{at}", at, 2 * at, at, at < 8, "futex"
    )
    for at in range(10_000)
]


class ManyThreads(FakeSource):
    """Ten thousand threads, summed up as often as ``calls`` tells."""

    calls = 0

    def threads(self, span: Span | None = None) -> list[ThreadInfo]:
        self.calls += 1
        return MANY if span is None else [replace(each, cpu_ns=7) for each in MANY[:3]]


@pytest.fixture
def source() -> FakeSource:
    return ManyThreads(50)


def threads(client: FlaskClient, **query: object) -> dict[str, Any]:
    response = client.get("/api/threads", query_string=query)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.get_json()
    return answer


def test_status_is_small_with_ten_thousand_threads(
    client: FlaskClient, source: ManyThreads
) -> None:
    for _ in range(5):
        answer = client.get("/api/status")
        assert answer.get_json()["thread_count"] == 10_000
        assert len(answer.data) < 20_000
        source.advance(0.1)
    assert source.calls == 1  # the number may be two seconds old


def test_weights_are_those_of_the_range(client: FlaskClient, source: ManyThreads) -> None:
    for _ in range(2):
        answer = threads(client, range="100-200")
        assert [row["cpu_ns"] for row in answer["rows"]] == [7, 7, 7]
    assert source.calls == 1
    source.advance(0.1)
    threads(client, range="100-200")
    assert source.calls == 2
    assert threads(client)["rows"][0]["cpu_ns"] == 9999
    assert client.get("/api/threads?range=x").status_code == 400


def test_only_the_rows_asked_for_are_sent_in_their_order(client: FlaskClient) -> None:
    answer = threads(client, sort="cpu", offset=3, limit=20)
    assert [row["cpu_ns"] for row in answer["rows"]] == list(range(9996, 9976, -1))
    assert (answer["count"], answer["matching"], answer["row_count"]) == (10_000, 10_000, 10_000)
    assert answer["most_ns"]["wall_ns"] == 2 * 9999
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
    assert sum(row["cpu_ns"] for row in answer["rows"]) == sum(each.cpu_ns for each in MANY)
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
    source_client = create_app(FakeSource(400), TOKEN).test_client()
    source_client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {TOKEN}"
    both = [source_client.get(f"/api/view?threads={ids}").get_json() for ids in ("1,2,3,4", "1-4")]
    assert both[0] == both[1]
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
