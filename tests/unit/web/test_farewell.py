"""Whether the server stays for pages that want to save."""

from __future__ import annotations

import threading

import pytest
from flask.testing import FlaskClient

from flametap.web import farewell as web_farewell
from flametap.web.farewell import Farewell


def never() -> bool:
    return False


def wait_in_thread(farewell: Farewell, *, has_streams: bool = True) -> threading.Thread:
    thread = threading.Thread(target=farewell.wait, args=(has_streams, never))
    thread.start()
    return thread


def test_nobody_waits_without_a_page() -> None:
    farewell = Farewell()
    farewell.wait(False, never)
    assert farewell.ask("a", False)


def test_it_ends_soon_if_no_page_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_farewell, "FIRST_S", 0.05)
    Farewell().wait(True, never)


def test_it_stays_until_the_last_page_is_done() -> None:
    farewell = Farewell()
    assert not farewell.ask("a", False)
    thread = wait_in_thread(farewell, has_streams=False)  # that page has just asked
    while not farewell.ask("a", True):
        pass
    farewell.ask("b", True)
    farewell.ask("a", False)
    thread.join(0.5)
    assert thread.is_alive()
    farewell.ask("b", False)
    thread.join(20)
    assert not thread.is_alive()


def test_page_that_goes_silent_does_not_hold_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_farewell, "STAY_S", 0.2)
    farewell = Farewell()
    thread = wait_in_thread(farewell)
    farewell.ask("a", True)
    thread.join(20)
    assert not thread.is_alive()


def test_impatience_ends_it() -> None:
    farewell = Farewell()
    farewell.ask("a", True)
    farewell.wait(True, lambda: True)


def test_waiting_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_farewell, "LIMIT_S", 0.2)
    farewell = Farewell()
    thread = wait_in_thread(farewell)
    while thread.is_alive():
        farewell.ask("a", True)


@pytest.mark.parametrize(
    "body", [{}, {"page": 1, "stay": True}, {"page": "x" * 65, "stay": True}, {"page": "x"}]
)
def test_page_must_have_a_name(client: FlaskClient, body: object) -> None:
    assert client.post("/api/leaving", json=body).status_code == 400


def test_page_is_told(client: FlaskClient) -> None:
    given = {"page": "a", "stay": False}
    assert client.post("/api/leaving", json=given).get_json() == {"leaving": False}
