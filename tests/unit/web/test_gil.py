"""Views of the GIL: only the time with it, and who held it while others waited."""

from __future__ import annotations

import pytest
from flask.testing import FlaskClient

from flametap.analysis.views import views_of
from flametap.web.app import create_app
from flametap.web.login import Key
from gil_profiles import MS, READER, gil_recording
from made_server import TOKEN
from python_server import PythonServer


@pytest.fixture
def client() -> FlaskClient:
    client = create_app(views_of(gil_recording()), TOKEN).test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {TOKEN}"
    return client


def test_only_the_time_with_the_gil(client: FlaskClient) -> None:
    weights = {
        gil: client.get("/api/view", query_string={"clock": "wall", "gil": gil}).get_json()
        for gil in ("0", "1")
    }
    assert [weights[gil]["total_ns"] for gil in ("0", "1")] == [300 * MS, 95 * MS]
    assert "read" not in weights["1"]["functions"]["name"]
    assert weights["0"]["origins"]["own_ns"]["gil"] == 110 * MS
    symbols = client.get("/api/symbols", query_string={"clock": "wall", "gil": "1"}).get_json()
    assert symbols["total_ns"] == 95 * MS


def test_holders_of_one_box(client: FlaskClient) -> None:
    query = {"clock": "wall", "language": "python"}
    view = client.get("/api/view", query_string=query).get_json()
    boxes, functions = view["boxes"], view["functions"]
    (box,) = (
        at
        for at, function in enumerate(boxes["function"])
        if functions["name"][function] == "[waiting for the GIL]"
        and functions["name"][boxes["function"][boxes["parent"][at]]] == "read"
    )
    path = [functions["id"][boxes["function"][at]] for at in (boxes["parent"][box], box)]
    asked = {**query, "path": ".".join(map(str, path))}
    answer = client.get("/api/gil", query_string=asked).get_json()
    assert answer["total_ns"] == 10 * MS
    (holder,) = answer["holders"]
    assert holder.pop("ns") == pytest.approx(10 * MS, abs=1)
    assert holder == {
        "thread": "python",
        "tid": 101,
        "function": "parse",
        "place": "app/parse.py",
    }
    other = client.get("/api/gil", query_string={**asked, "threads": str(READER + 1)}).get_json()
    assert other == {"total_ns": 0, "holders": []}


@pytest.mark.parametrize("path", ["x", "1.-", "1,2"])
def test_paths_that_are_none(client: FlaskClient, path: str) -> None:
    response = client.get("/api/gil", query_string={"path": path})
    assert response.status_code == 400
    assert "path" in response.get_json()["error"]


def test_threads_say_how_long_they_held_it(client: FlaskClient) -> None:
    threads = client.get("/api/threads?sort=tid").get_json()["rows"]
    assert [each["gil_held_ns"] for each in threads] == [60 * MS, 35 * MS, 0]
    assert [each["gil_awaited_ns"] for each in threads] == [40 * MS, 60 * MS, 10 * MS]


@pytest.mark.parametrize("site", ["none", "cross-site"])
def test_page_can_be_opened_in_a_state(site: str) -> None:
    client = create_app(PythonServer(10).views, TOKEN, "gil=1").test_client()
    answer = client.get(f"/?token={TOKEN}", headers={"Sec-Fetch-Site": site})
    place = f"/{Key(TOKEN).address}/#gil=1"
    assert answer.headers.get("Location", place) == place
    assert (answer.status_code == 303) or f'url={place}"' in answer.text
    assert f"Path=/{Key(TOKEN).address}/;" in answer.headers["Set-Cookie"]


def test_places_that_wait_for_locks(client: FlaskClient) -> None:
    answer = client.get("/api/locks").get_json()
    assert (answer["total_ns"], answer["count"]) == (110 * MS, 1)
    (place,) = answer["places"]
    assert (place["function"], place["threads"]) == (None, 3)
    assert "GIL" in place["kind"]
    holders = place["held"]["holders"]
    assert [each["function"] for each in holders] == ["parse", "render"]
    assert client.get("/api/locks", query_string={"threads": 99}).get_json()["places"] == []
