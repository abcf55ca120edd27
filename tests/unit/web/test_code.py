"""The API about modules, lines and instructions, against a made-up server's recording."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient

from flametap.model import Clock
from flametap.tree.selection import Selection
from flametap.web.app import create_app
from made_graph import TAKEN_IN, TAKES_IN_FROM
from made_server import TOKEN, MadeServer


def ask(client: FlaskClient, what: str, status: int = 200, **query: object) -> dict[str, Any]:
    response = client.get(f"/api/{what}", query_string=query)
    assert response.status_code == status, response.text
    answer: dict[str, Any] = response.get_json()
    return answer


def function_id(client: FlaskClient, name: str) -> int:
    functions = ask(client, "view")["functions"]
    found: int = functions["id"][functions["name"].index(name)]
    return found


def test_modules_share_the_whole_weight(client: FlaskClient, made: MadeServer) -> None:
    answer = ask(client, "symbols")
    assert answer["total_ns"] == made.views.tree(Selection(Clock.CPU, None)).total_ns[0]
    modules = answer["modules"]
    assert answer["nowhere_ns"] + sum(m["self_ns"] for m in modules) == answer["total_ns"]
    by_name = {each["module"]: each for each in modules}
    assert "dbgsym" in by_name["libz.so.1"]["note"]
    assert by_name["orderd"]["has_lines"]
    one = ask(client, "symbols", threads="1")
    assert 0 < one["total_ns"] < answer["total_ns"]


def test_lines_have_equal_columns_and_the_weight_of_the_function(client: FlaskClient) -> None:
    answer = ask(client, "lines", function=function_id(client, "Worker::step"))
    assert answer["file"].endswith("/worker.cc")
    assert len({len(column) for column in answer["lines"].values()}) == 1
    assert sum(answer["lines"]["self_ns"]) == answer["self_ns"] > 0
    assert answer["lines"]["line"] == sorted(answer["lines"]["line"])
    assert answer["lines"]["line"][0] == 0
    assert answer["files"] == [answer["file"]]


def test_lines_say_which_file_they_are_in() -> None:
    made = MadeServer(5_000)
    made.advance(5.0)
    client = create_app(made.views, TOKEN).test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {TOKEN}"
    (number,) = (
        at
        for at, function in enumerate(made.recording.functions)
        if function.name == "_PyEval_EvalFrameDefault"
    )
    answer = ask(client, "lines", function=number)
    assert answer["files"] == [answer["file"], TAKEN_IN]
    lines = answer["lines"]
    weighed = {
        line: file
        for line, file, total in zip(lines["line"], lines["file"], lines["total_ns"], strict=True)
        if total
    }
    assert weighed[0] == 0
    assert {file for line, file in weighed.items() if line >= TAKES_IN_FROM} == {1}
    assert lines["text"][0] is None


def test_instructions_name_files_and_inlined_functions_once(
    client: FlaskClient, made: MadeServer
) -> None:
    answer = ask(client, "instructions", function=function_id(client, "PriceLevel::fill"))
    rows = answer["rows"]
    assert len({len(column) for column in rows.values()}) == 1
    assert rows["addr"][0] == f"{made.layout.start('PriceLevel::fill'):x}"
    assert rows["data"][0] == "48 8b 00 24"
    assert answer["names"] == ["Arena::alloc"]
    assert set(rows["inlined"]) == {-1, 0}
    assert {answer["files"][at] for at in rows["file"]} == {
        "/build/orderd-2.4/src/book.cc",
        "/build/orderd-2.4/src/arena.h",
    }


@pytest.mark.parametrize("what", ["lines", "instructions"])
@pytest.mark.parametrize(
    ("function", "status"),
    [
        ("", 400),
        ("1,2", 400),
        ("main", 400),
        ("/etc/passwd", 400),
        ("../../etc/passwd", 400),
        ("1e9", 400),
        ("-1", 404),
        (10**9, 404),
        (10**30, 404),
    ],
)
def test_only_functions_that_were_shown_can_be_asked_for(
    client: FlaskClient, what: str, function: object, status: int
) -> None:
    ask(client, "view")
    assert "error" in ask(client, what, status, function=function)


@pytest.mark.parametrize("query", [{"clock": "cycles"}, {"threads": "x"}, {"threads": "-1"}])
def test_bad_clocks_and_threads_are_refused(client: FlaskClient, query: dict[str, str]) -> None:
    assert "error" in ask(client, "symbols", 400, **query)
    function = function_id(client, "main")
    assert "error" in ask(client, "lines", 400, function=function, **query)
