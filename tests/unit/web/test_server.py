"""The running server: events as they come, many pages at once, a clean end."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import socket
import threading
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import orjson
import pytest

from flametap.errors import OutputError
from flametap.model import Status
from flametap.web import api
from flametap.web.server import Server, serve
from made_server import TOKEN, MadeServer
from visitor import Visitor

BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def made() -> MadeServer:
    made = MadeServer(200)
    made.advance(1.0)
    return made


@pytest.fixture
def server(made: MadeServer) -> Iterator[Server]:
    server = serve(made.views, "127.0.0.1", 0, TOKEN)
    yield server
    server.close()


def connect(server: Server) -> http.client.HTTPConnection:
    parts = urlsplit(server.url)
    return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)


def status_of(server: Server, path: str) -> int:
    """Request a path as a program does, and return the status of the answer."""
    with contextlib.closing(connect(server)) as connection:
        connection.request("GET", path, headers=BEARER)
        response = connection.getresponse()
        response.read()
        return response.status


class Events:
    """A page's event stream."""

    def __init__(self, server: Server) -> None:
        self.connection = connect(server)
        self.connection.request("GET", "/api/events", headers=BEARER)
        self.response = self.connection.getresponse()

    def next(self) -> tuple[str, dict[str, object]]:
        name = ""
        while line := self.read_line():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                data = line.removeprefix("data: ")
        return (name, orjson.loads(data)) if name else self.next()

    def read_line(self) -> str:
        line = self.response.readline()
        assert line, "the stream has ended"
        return line.decode().rstrip("\n")

    def close(self) -> None:
        self.response.close()
        self.connection.close()


def test_url_opens_the_page(server: Server) -> None:
    assert server.url.startswith("http://127.0.0.1:")
    assert server.url.endswith(f"/?token={TOKEN}")
    assert "<title>flametap" in Visitor(server.url).page


def test_news_arrive_but_not_more_than_five_times_a_second(
    server: Server, made: MadeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "HEARTBEAT_S", 60.0)  # what comes has a reason
    events = Events(server)
    assert events.next()[0] == "status"
    began = time.monotonic()
    news = 0
    for _ in range(20):  # at once: most are told together
        made.advance(0.1)
    while True:
        name, status = events.next()
        news += 1
        assert name == "status"
        if status["revision"] == made.revision:
            break
    assert news <= 1 + (time.monotonic() - began) / api.EVENT_GAP_S
    events.close()


def test_every_page_gets_its_events_and_others_do_not_wait(
    server: Server, made: MadeServer
) -> None:
    pages = [Events(server) for _ in range(12)]
    assert all(page.next()[0] == "status" for page in pages)
    assert status_of(server, "/api/status") == 200
    for page in pages:
        page.close()


def test_too_many_streams_are_refused_and_requests_still_answered(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "MAX_STREAMS", 3)
    pages = [Events(server) for _ in range(3)]
    assert all(page.next()[0] == "status" for page in pages)
    assert status_of(server, "/api/events") == 503
    assert status_of(server, "/api/status") == 200
    for page in pages:
        page.close()


def test_address_of_all_machines_is_known_as_exposed(made: MadeServer, server: Server) -> None:
    assert not server.is_exposed
    exposed = serve(made.views, "0.0.0.0", 0, TOKEN)
    assert exposed.is_exposed
    assert exposed.url.startswith("http://127.0.0.1:")
    exposed.close()


def test_closing_says_good_bye_to_open_pages_and_frees_the_port(made: MadeServer) -> None:
    server = serve(made.views, "127.0.0.1", 0, TOKEN)
    page = Events(server)
    idle = socket.create_connection(("127.0.0.1", urlsplit(server.url).port or 0))
    assert page.next()[0] == "status"
    server.close()
    server.close()
    assert page.next()[0] == "bye"
    page.close()
    idle.close()
    again = serve(made.views, "127.0.0.1", urlsplit(server.url).port or 0, TOKEN)
    again.close()


def test_closing_lets_a_stream_end_as_http_demands(
    server: Server, made: MadeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def event_stream(service: api.Service, _: object) -> Iterator[bytes]:
        with service.stream():
            yield b"event: status\ndata: {}\n\n"
            service.closing.wait(10)
            yield b"event: bye\ndata: {}\n\n"
        time.sleep(0.3)  # as on a machine without a CPU for us: the last chunk is still missing

    monkeypatch.setattr(api, "event_stream", event_stream)
    with contextlib.closing(connect(server)) as connection:
        connection.request("GET", "/api/events", headers=BEARER)
        response = connection.getresponse()
        threading.Thread(target=server.close).start()
        assert response.read().endswith(b"event: bye\ndata: {}\n\n")  # cut: IncompleteRead


def test_good_bye_reaches_a_page_whose_stream_is_slow(
    made: MadeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_waiting = threading.Event()

    def wait_newer(revision: int, timeout_s: float) -> int:
        is_waiting.set()
        time.sleep(0.8)  # as on a machine without a CPU for us
        return revision

    monkeypatch.setattr(made.recording, "wait_newer", wait_newer)
    server = serve(made.views, "127.0.0.1", 0, TOKEN)
    page = Events(server)
    assert page.next()[0] == "status"
    assert is_waiting.wait(10)
    server.close()
    assert page.next()[0] == "bye"
    page.close()


def test_stream_goes_on_after_the_end_until_all_names_are_told(
    server: Server, made: MadeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = made.recording.status
    is_final = False

    def status() -> Status:
        return dataclasses.replace(ended(), is_final=is_final)

    monkeypatch.setattr(made.recording, "status", status)
    page = Events(server)
    made.end()
    while page.next()[1]["state"] != "ended":
        pass
    is_final = True
    made.advance(0.1)  # the names
    assert page.next()[1]["revision"] == made.revision
    assert page.next()[0] == "end"
    page.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "not.a.host.invalid"])
def test_address_that_cannot_be_used_is_an_error_with_a_hint(
    host: str, server: Server, made: MadeServer
) -> None:
    port = urlsplit(server.url).port or 0
    with pytest.raises(OutputError, match=f"{host} port {port}") as caught:
        serve(made.views, host, port, TOKEN)
    assert "--port" in caught.value.hint
