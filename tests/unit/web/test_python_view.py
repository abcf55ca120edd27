"""Views of a recording with Python functions: the filter of a request, and whose code it is."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient

from flametap.model import Clock
from flametap.tree.frame_filter import FrameFilter, Language
from flametap.tree.function_sums import WAITS
from flametap.tree.selection import Selection
from flametap.web.app import create_app
from made_server import TOKEN
from python_server import EVAL, PythonServer


@pytest.fixture(scope="module")
def python() -> PythonServer:
    return PythonServer(600)


@pytest.fixture
def client(python: PythonServer) -> FlaskClient:
    client = create_app(python.views, TOKEN).test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {TOKEN}"
    return client


def view(client: FlaskClient, path: str = "view", **query: Any) -> dict[str, Any]:
    response = client.get(f"/api/{path}", query_string=query)
    assert response.status_code == 200, response.get_json()
    found: dict[str, Any] = response.get_json()
    return found


def test_language_and_plumbing_choose_the_functions(client: FlaskClient) -> None:
    all_of, python, native = (
        set(view(client, **query)["functions"]["name"])
        for query in ({}, {"language": "python"}, {"language": "native"})
    )
    assert {"product_list", "list_sort", "_start", "dgemm_kernel"} <= all_of
    assert EVAL not in all_of
    assert {"product_list", "by_price", "[no Python frames]"} <= python
    assert not {"list_sort", "_start"} & python
    assert {EVAL, "list_sort"} <= native
    assert "product_list" not in native
    assert EVAL in view(client, plumbing="1")["functions"]["name"]


def test_view_says_whose_code_the_time_is(client: FlaskClient) -> None:
    answer = view(client, table="self", table_rows=500)
    rows = answer["table"]["rows"]
    own_ns: dict[str, int] = {}
    for kind, origin, ns in zip(rows["kind"], rows["origin"], rows["self_ns"], strict=True):
        if kind != "synthetic" and ns:
            whose = "kernel" if kind == "syscall" else origin.replace("interpreter", "native")
            own_ns[whose] = own_ns.get(whose, 0) + ns
    modules = dict(zip(rows["name"], rows["module"], strict=True))
    of_runtime = [ns for name, ns in zip(rows["name"], rows["self_ns"], strict=True)
                  if modules[name].startswith(("libpython", "python3"))]  # fmt: skip
    own_ns["runtime"] = sum(of_runtime)
    assert own_ns["runtime"] > 0
    wall = view(client, clock="wall", table="self", table_rows=500)
    shown = wall["table"]["rows"]
    weight = dict(zip(shown["name"], shown["self_ns"], strict=True))
    for name, wait in WAITS.items():
        assert wall["origins"]["own_ns"].get(wait, 0) == weight.get(name, 0)
    assert answer["origins"] == {"total_ns": answer["total_ns"], "own_ns": own_ns}
    assert {"project", "library", "stdlib", "native"} <= set(own_ns)
    inverted = view(client, shape="inverted")
    assert inverted["origins"] == answer["origins"]


def test_sums_are_the_same_with_each_filter(client: FlaskClient, python: PythonServer) -> None:
    whole = python.profile.total_ns(Clock.CPU)
    for language in Language:
        answer = view(client, language=language.value, table="self")
        assert answer["total_ns"] == whole
        assert sum(answer["table"]["rows"]["self_ns"]) == whole
        assert view(client, "symbols", language=language.value)["total_ns"] == whole


def test_functions_say_whose_code_they_are(client: FlaskClient) -> None:
    answer = view(client, table="total")
    rows = answer["table"]["rows"]
    for columns in (answer["functions"], rows):
        origins = dict(zip(columns["name"], columns["origin"], strict=True))
        assert origins["product_list"] == "project"
        assert origins["QuerySet._fetch_all"] == "library"
        assert origins["dumps"] == "stdlib"
        assert origins["list_sort"] == origins["sqlite3_step"] == "native"


@pytest.mark.parametrize("query", [{"language": "perl"}, {"plumbing": "yes"}, {"gil": "on"}])
def test_unknown_filter_is_refused(client: FlaskClient, query: dict[str, str]) -> None:
    for path in ("view", "symbols"):
        response = client.get(f"/api/{path}", query_string=query)
        assert response.status_code == 400
        assert next(iter(query)) in response.get_json()["error"]


def test_source_of_a_python_function_has_its_own_lines(
    client: FlaskClient, python: PythonServer
) -> None:
    (number,) = (
        at
        for at, function in enumerate(python.recording.functions)
        if function.name == "product_list"
    )
    found = view(client, "lines", function=number, language="python")
    lines = found["lines"]
    weighed = {
        line: total for line, total in zip(lines["line"], lines["total_ns"], strict=True) if total
    }
    assert set(weighed) == {25, 26, 29}
    tree = python.views.tree(Selection(Clock.CPU, None, FrameFilter(Language.PYTHON)))
    total = int(tree.total_ns[tree.function == number].sum())
    assert found["total_ns"] == sum(weighed.values()) == total
    code = view(client, "instructions", function=number)
    assert "no machine code" in code["notes"][0]


def test_modules_have_one_row_for_all_python_functions(client: FlaskClient) -> None:
    modules = {each["module"]: each for each in view(client, "symbols")["modules"]}
    assert modules["Python"]["source"] == "interpreter"
    assert modules["Python"]["lined_ns"] == modules["Python"]["self_ns"] > 0
