"""A profile store as Pyroscope's, or a collector: it keeps what it gets, answers as it is told."""

from __future__ import annotations

import email
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

# An answer: a status and headers; or what it does instead.
Answer = tuple[int, Mapping[str, str]] | str
TAKES: Answer = (200, {})


@dataclass
class Store:
    """Attributes: ``answers`` to the next requests, then all are taken; what was taken."""

    url: str = ""
    answers: list[Answer] = field(default_factory=list)
    profiles: list[bytes] = field(default_factory=list)
    queries: list[dict[str, str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    n_requests: int = 0
    says: bytes = b""  # to what it takes


def _in_form(content_type: str, body: bytes) -> bytes:
    """Return the first file of a form."""
    head = f"Content-Type: {content_type}\r\n\r\n".encode()
    parts = email.message_from_bytes(head + body).get_payload()
    assert isinstance(parts, list)
    profile = parts[0].get_payload(decode=True)  # type: ignore[union-attr]
    assert isinstance(profile, bytes)
    return profile


@contextmanager
def profile_store(*answers: Answer) -> Iterator[Store]:
    store = Store(answers=list(answers))
    released = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            store.n_requests += 1
            answer = store.answers.pop(0) if store.answers else TAKES
            if answer == "hangs":
                released.wait(60)
                return
            if answer == "breaks":
                return  # without an answer
            assert not isinstance(answer, str)
            if answer[0] < 300:
                is_form = self.headers["Content-Type"].startswith("multipart/")
                store.profiles.append(
                    _in_form(self.headers["Content-Type"], body) if is_form else body
                )
                store.paths.append(urlsplit(self.path).path)
                query = parse_qs(urlsplit(self.path).query)
                store.queries.append({name: values[0] for name, values in query.items()})
                store.headers.append(dict(self.headers.items()))
            self.send_response(answer[0])
            for name, value in answer[1].items():
                self.send_header(name, value)
            said = store.says if answer[0] < 300 else b""
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    store.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield store
    finally:
        released.set()
        server.shutdown()
        server.server_close()
        time.sleep(0.01)
