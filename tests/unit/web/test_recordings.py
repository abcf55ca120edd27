"""One server with several recordings: each answers for itself, and is opened when asked for."""

from __future__ import annotations

import gc
import json
import re
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from flametap.analysis.views import Views, views_of
from flametap.errors import InputError
from flametap.model import Function
from flametap.web.app import create_app
from flametap.web.recordings import MAX_KEPT, File, Recordings
from foreign_files import opened
from made_programs import program
from served import served

TOKEN = "secret-token"
SHARES: list[dict[str, float]] = [{}, {"match": 9.0}, {"emit": 9.0}, {"sort": 9.0}, {"hash": 9.0}]


class Opened:
    """Files of made-up recordings, which counts how often each is opened."""

    def __init__(self) -> None:
        self.opened: list[int] = []
        self.alive: dict[int, weakref.ref[Any]] = {}
        self.recordings = Recordings(
            [File(f"{number}.flametap", self._opener(number)) for number in range(1, 6)]
        )

    def _opener(self, number: int) -> Callable[[], Views]:
        def open_it() -> Views:
            self.opened.append(number)
            found = views_of(program(SHARES[number - 1], number))
            self.alive[number] = weakref.ref(found.recording)
            return found

        return open_it

    def living(self) -> list[int]:
        gc.collect()
        return sorted(number for number, each in self.alive.items() if each() is not None)


def client_of(recordings: Recordings) -> FlaskClient:
    client = create_app(recordings, TOKEN).test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {TOKEN}"
    return client


@pytest.fixture
def files() -> Opened:
    return Opened()


@pytest.fixture
def client(files: Opened) -> FlaskClient:
    return client_of(files.recordings)


def table(client: FlaskClient, number: int, more: str = "") -> dict[str, Any]:
    response = client.get(f"/{number}/api/view?table=self&table_rows=20{more}")
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.get_json()
    return answer


def heaviest(client: FlaskClient, number: int, more: str = "") -> str:
    name: str = table(client, number, more)["table"]["rows"]["name"][0]
    return name


def test_each_recording_answers_for_itself(client: FlaskClient) -> None:
    for _ in range(2):
        assert [heaviest(client, number) for number in (2, 3, 4, 5)] == [
            *("match", "emit", "sort", "hash")
        ]
    assert table(client, 1)["boxes"] == client.get("/api/view").get_json()["boxes"]


def test_all_requests_are_of_one_recording() -> None:
    client = client_of(served(a=program({}, 1), b=program({"match": 9.0}, 2)))
    alone = create_app(views_of(program({"match": 9.0}, 2)), TOKEN).test_client()
    alone.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {TOKEN}"
    for path in (
        *("view?width=900", "symbols", "locks", "threads", "status", "exports", "elsewhere"),
        *("lines?function=1", "instructions?function=1", "gil?path=0", "heat?kind=cpu&columns=9"),
        *("lanes?from=0&to=40000&bins=90", "export?format=folded"),
    ):
        with client.get(f"/2/api/{path}") as mine, alone.get(f"/api/{path}") as other:
            assert mine.status_code == other.status_code == 200, path
            assert mine.data == other.data, path
    body = {"nodes": [{"path": ""}]}
    rows = [
        each.post(f"{at}/api/tree", json=body).data for each, at in ((client, "/2"), (alone, ""))
    ]
    assert rows[0] == rows[1]
    with client.get("/2/api/export?format=folded") as exported:
        assert b"match" in exported.data


def test_each_is_compared_with_any_other(client: FlaskClient) -> None:
    for own in (1, 2, 5):
        for other in {1, 2, 3, 5} - {own}:
            answer = table(client, own, f"&compare=file{other}")
            rows = answer["table"]["rows"]
            here, there = (
                rows["name"][max(range(len(rows["id"])), key=rows[side].__getitem__)]
                for side in ("self_here", "self_there")
            )
            for number, found in ((own, here), (other, there)):
                assert number == 1 or [found] == list(SHARES[number - 1]), (own, other)


@pytest.mark.parametrize(("own", "first"), [(1, 2), (2, 1), (5, 1)])
def test_file_without_a_number_is_the_first_other_one(
    client: FlaskClient, own: int, first: int
) -> None:
    sides = [
        table(client, own, f"&compare={other}")["table"]["rows"]["self_there"]
        for other in ("file", f"file{first}")
    ]
    assert sides[0] == sides[1]


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/6/api/view", 404, "no recording 6"),
        ("/0/api/view", 404, "no recording 0"),
        ("/6/", 404, "no recording 6"),
        ("/api/view?compare=file6", 400, "no recording 6 to compare with"),
        ("/api/view?compare=file1", 400, "with itself"),
        ("/api/view?compare=file0", 400, "compare must be"),
        ("/api/view?compare=file9999999999", 400, "compare must be"),
    ],
)
def test_unknown_numbers_are_refused(
    client: FlaskClient, path: str, status: int, words: str
) -> None:
    response = client.get(path)
    assert response.status_code == status
    assert words in response.text


def test_a_single_recording_has_no_others() -> None:
    client = client_of(served(alone=program({}, 1)))
    assert "no other recording" in client.get("/api/view?compare=file2").get_json()["error"]
    assert client.get("/2/api/view").status_code == 404
    assert "files-button" not in client.get("/").text


def test_those_used_last_are_kept(client: FlaskClient, files: Opened) -> None:
    for number in (1, 2, 3, 1, 4):  # the second was not used for the longest time
        heaviest(client, number)
    assert files.opened == [1, 2, 3, 4]
    assert files.living() == [1, 3, 4]
    heaviest(client, 5)
    heaviest(client, 1)
    assert files.opened == [1, 2, 3, 4, 5]
    heaviest(client, 2)
    assert files.opened == [1, 2, 3, 4, 5, 2]
    assert len(files.living()) == MAX_KEPT


def test_no_comparison_keeps_a_recording(client: FlaskClient, files: Opened) -> None:
    for other in (2, 3, 4, 5):
        table(client, 1, f"&compare=file{other}")
    assert files.living() == [1, 4, 5]
    assert files.opened == [1, 2, 3, 4, 5]


def test_functions_keep_their_ids_when_a_file_is_opened_again(files: Opened) -> None:
    before = files.recordings.get(1)
    added = [before.recording.function_id(Function(name, "other")) for name in ("b", "a")]
    del before
    for number in (2, 3, 4):
        files.recordings.get(number)
    assert files.living() == [2, 3, 4]
    again = files.recordings.get(1).recording
    assert [again.functions[each].name for each in added] == ["b", "a"]
    assert again.function_id(Function("c", "other")) == max(added) + 1


def test_requests_at_a_time_open_a_file_once(files: Opened) -> None:
    found: list[object] = []
    start = threading.Barrier(8)

    def ask(number: int) -> None:
        start.wait()
        found.append(files.recordings.get(number))

    threads = [threading.Thread(target=ask, args=(number,)) for number in (1, 2) * 4]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(set(map(id, found))) == 2
    assert sorted(files.opened) == [1, 2]


def test_file_that_is_damaged_is_told() -> None:
    def damaged() -> Views:
        raise InputError("bad.flametap is damaged: it is empty", "record again")

    views = views_of(program({}, 1))
    client = client_of(Recordings([File("good", lambda: views), File("bad", damaged)]))
    for _ in range(2):
        response = client.get("/2/api/status")
        assert response.status_code == 400
        assert response.get_json()["error"] == "bad.flametap is damaged: it is empty: record again"
    response = client.get("/2/")
    assert response.status_code == 400
    assert response.mimetype == "text/plain"
    assert "bad.flametap is damaged" in response.text
    assert "is damaged" in client.get("/api/view?compare=file2").get_json()["error"]
    assert client.get("/api/view").status_code == 200


def test_page_has_a_link_to_each(client: FlaskClient) -> None:
    for own, path in ((1, "/"), (3, "/3/")):
        page = client.get(path).text
        links = re.findall(
            r'<a class="menu-item" href="([^"]*)" data-number="(\d)"( aria[^>]*)?>', page
        )
        assert [link[0] for link in links] == ["/", "/2/", "/3/", "/4/", "/5/"]
        assert [int(number) for _, number, is_shown in links if is_shown] == [own]
        found = re.search(r'data-others="([^"]*)"', page)
        assert found
        others = json.loads(found[1].replace("&#34;", '"'))
        assert others == [[at, f"{at}.flametap"] for at in range(1, 6) if at != own]


def test_pages_of_all_recordings_need_the_token(files: Opened) -> None:
    client = create_app(files.recordings, TOKEN).test_client()
    for path in ("/2/", "/2/api/view", "/7/"):
        assert client.get(path).status_code == 403
    assert files.opened == []


def test_login_leads_to_the_first(files: Opened) -> None:
    client = create_app(files.recordings, TOKEN).test_client()
    entered = client.get(f"/?token={TOKEN}", headers={"Sec-Fetch-Site": "none"})
    place = entered.headers["Location"]
    assert client.get(place).status_code == 200
    page = client.get(f"{place}4/").text
    assert f'href="{place}2/"' in page
    assert client.get(f"{place}4/api/status").status_code == 200
    assert client.get("/4/api/status").status_code == 403  # the cookie is of the page's address


def test_files_that_count_something_else_are_not_compared(tmp_path: Path) -> None:
    counts = opened(tmp_path, "x", "main;work 5\nmain;idle 7\n")
    client = client_of(
        Recordings(
            [
                File("1.flametap", lambda: views_of(program(SHARES[0], 1))),
                File("2.folded", lambda: views_of(counts)),
            ]
        )
    )
    answer = client.get("/api/view?compare=file2")
    assert answer.status_code >= 400
    assert "samples and cpu time cannot be compared" in answer.get_json()["error"]
