"""Functions are sent to a page once: what it has is left out, and nothing else."""

from __future__ import annotations

from typing import Any

from flask.testing import FlaskClient

from flametap.web.known_functions import MAX_ANSWERS, KnownFunctions
from made_server import MadeServer


def view(client: FlaskClient, **query: object) -> dict[str, Any]:
    response = client.get("/api/view", query_string=query)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.get_json()
    return answer


class Page:
    """What page/names.js does."""

    def __init__(self) -> None:
        self.have = 0
        self.names: dict[int, str] = {}

    def take(self, answer: dict[str, Any]) -> int:
        """Take an answer over. Return how many functions came with it."""
        new = answer["names"]["functions"]
        self.names.update(zip(new["id"], new["name"], strict=True))
        self.have = answer["names"]["answer"]
        table = answer["table"]["rows"]["id"] if answer["table"] else []
        assert set(answer["functions"]["id"]) | set(table) <= set(self.names)
        return len(new["id"])


def test_second_view_sends_no_names_and_a_table_only_new_ones(
    client: FlaskClient, made: MadeServer
) -> None:
    page = Page()
    assert page.take(view(client, have=0)) > 10
    assert page.take(view(client, have=page.have)) == 0
    with_table = page.take(view(client, have=page.have, table="self", table_rows=500))
    assert with_table > 0
    assert page.take(view(client, have=page.have, table="self", table_rows=500)) == 0
    assert page.names == {at: made.recording.functions[at].name for at in page.names}


def test_an_answer_that_never_arrived_costs_nothing_and_loses_nothing(client: FlaskClient) -> None:
    page, other = Page(), Page()
    page.take(view(client, have=0, zoom="0"))
    lost = view(client, have=page.have)  # a request that the page has aborted
    again = view(client, have=page.have)
    assert lost["names"]["functions"] == again["names"]["functions"]
    assert page.take(again) > 0
    assert other.take(view(client, have=0)) == len(other.names)  # pages do not share what they have


def test_a_page_of_another_server_gets_all(client: FlaskClient) -> None:
    page = Page()
    assert page.take(view(client, have=123456)) == len(page.names) > 10


def test_who_keeps_no_functions_gets_them_with_each_view(client: FlaskClient) -> None:
    answer = view(client, table="self")
    assert "names" not in answer
    assert len(answer["functions"]["name"]) == len(answer["functions"]["id"])


def test_origins_that_come_later_are_sent_for_all() -> None:
    known = KnownFunctions()
    columns = {name: ["x"] for name in ("name", "module", "file", "kind", "full_name")}
    answer: dict[str, Any] = {"functions": {"id": [4], **columns}, "table": None}
    known.leave_out(answer, 0)
    later: dict[str, Any] = {
        "functions": {"id": [4], **columns, "origin": ["project"]},
        "table": None,
    }
    known.leave_out(later, answer["names"]["answer"])
    assert later["names"]["functions"]["origin"] == ["project"]


def test_only_the_last_answers_are_remembered() -> None:
    known = KnownFunctions()
    columns = {name: ["x"] for name in ("name", "module", "file", "kind", "full_name")}
    numbers = []
    for _ in range(MAX_ANSWERS + 5):
        answer: dict[str, Any] = {"functions": {"id": [4], **columns}, "table": None}
        known.leave_out(answer, 0)
        numbers.append(answer["names"]["answer"])
    for have, sent in ((numbers[0], 1), (numbers[-1], 0)):
        answer = {"functions": {"id": [4], **columns}, "table": None}
        known.leave_out(answer, have)
        assert len(answer["names"]["functions"]["id"]) == sent


def test_table_is_sent_in_parts(client: FlaskClient) -> None:
    whole = view(client, table="total", table_rows=500)["table"]
    count = len(whole["rows"]["id"])
    assert count == whole["function_count"]
    parts = [
        view(client, table="total", table_first=at, table_rows=20)["table"]
        for at in range(0, count, 20)
    ]
    assert [each for part in parts for each in part["rows"]["id"]] == whole["rows"]["id"]
    assert [part["first"] for part in parts] == list(range(0, count, 20))
    beyond = view(client, table="total", table_first=10**6)["table"]
    assert beyond["rows"]["id"] == []
