"""The running server: events as they come, many pages at once, a clean end."""

from __future__ import annotations

import http.client
import socket
import time
import urllib.request
from collections.abc import Iterator
from urllib.parse import urlsplit

import orjson
import pytest

from fake_source import FakeSource
from flametap.errors import OutputError
from flametap.web.server import Server, serve

TOKEN = "secret-token"


@pytest.fixture
def source() -> FakeSource:
    source = FakeSource(200)
    source.advance(1.0)
    return source


@pytest.fixture
def server(source: FakeSource) -> Iterator[Server]:
    server = serve(source, "127.0.0.1", 0, TOKEN)
    yield server
    server.close()


class Events:
    """A page's event stream."""

    def __init__(self, server: Server) -> None:
        parts = urlsplit(server.url)
        self.connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=5)
        self.connection.request("GET", f"{parts.path}api/events")
        self.response = self.connection.getresponse()

    def next(self) -> tuple[str, dict[str, object]]:
        name = ""
        while line := self.response.readline().decode().rstrip("\n"):
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                data = line.removeprefix("data: ")
        return (name, orjson.loads(data)) if name else self.next()

    def close(self) -> None:
        self.response.close()
        self.connection.close()


def test_url_opens_the_page(server: Server) -> None:
    assert server.url.startswith("http://127.0.0.1:")
    assert server.url.endswith(f"/{TOKEN}/")
    with urllib.request.urlopen(server.url, timeout=5) as response:
        assert b"<title>flametap" in response.read()


def test_news_arrive_at_once_but_not_more_than_five_times_a_second(
    server: Server, source: FakeSource
) -> None:
    events = Events(server)
    first = events.next()[1]["revision"]
    time.sleep(0.3)
    began = time.monotonic()
    source.advance(0.1)
    name, status = events.next()
    assert name == "status"
    assert status["revision"] == source.revision != first
    assert time.monotonic() - began < 0.5
    for _ in range(20):  # coalesced into one
        source.advance(0.1)
    assert events.next()[1]["revision"] == source.revision
    assert time.monotonic() - began >= 0.18
    events.close()


def test_every_page_gets_its_events_and_others_do_not_wait(
    server: Server, source: FakeSource
) -> None:
    pages = [Events(server) for _ in range(12)]
    assert all(page.next()[0] == "status" for page in pages)
    with urllib.request.urlopen(f"{server.url}api/status", timeout=5) as response:
        assert response.status == 200
    for page in pages:
        page.close()


def test_closing_says_good_bye_to_open_pages_and_frees_the_port(source: FakeSource) -> None:
    server = serve(source, "127.0.0.1", 0, TOKEN)
    page = Events(server)
    idle = socket.create_connection(("127.0.0.1", urlsplit(server.url).port or 0))
    assert page.next()[0] == "status"
    began = time.monotonic()
    server.close()
    server.close()
    assert time.monotonic() - began < 2.0
    assert page.next()[0] == "bye"
    page.close()
    idle.close()
    again = serve(source, "127.0.0.1", urlsplit(server.url).port or 0, TOKEN)
    again.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "not.a.host.invalid"])
def test_address_that_cannot_be_used_is_an_error_with_a_hint(
    host: str, server: Server, source: FakeSource
) -> None:
    port = urlsplit(server.url).port or 0
    with pytest.raises(OutputError, match=f"{host} port {port}") as caught:
        serve(source, host, port, TOKEN)
    assert "--port" in caught.value.hint
