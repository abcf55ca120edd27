"""A debuginfod server for tests, which serves what it is told to, and misbehaves on demand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# Answers a request for (build-id, kind); what it does not answer is not found.
Answer = Callable[["Request"], None]


class Request(BaseHTTPRequestHandler):
    """One request, with ways to answer it wrongly."""

    server: Server

    def do_GET(self) -> None:
        """Looks the path up and answers as the server was told."""
        self.server.asked.append(self.path)
        parts = self.path.strip("/").split("/")
        key = (parts[1], parts[2]) if len(parts) == 3 and parts[0] == "buildid" else ("", "")
        answer = self.server.answers.get(key)
        if answer is None:
            self.send_error(404)
        elif isinstance(answer, bytes):
            self.send_file(answer)
        else:
            answer(self)

    def send_file(self, data: bytes, promised_bytes: int | None = None) -> None:
        """Sends a file, of which more may be promised than comes."""
        self.send_response(200)
        size = len(data) if promised_bytes is None else promised_bytes
        self.send_header("Content-Length", str(size))
        self.end_headers()
        self.wfile.write(data)

    def hang(self) -> None:
        """Says nothing until the server ends."""
        self.server.ending.wait(30)

    def drip(self, data: bytes) -> None:
        """Sends byte after byte, each well within any timeout of a socket."""
        for position in range(len(data)):
            if self.server.ending.wait(0.05):
                return
            try:
                self.wfile.write(data[position : position + 1])
            except OSError:
                return

    def log_message(self, format: str, *args: object) -> None:
        """Not on the terminal."""


@dataclass(eq=False)
class Server(ThreadingHTTPServer):
    """Listens on a port of the kernel's choice."""

    answers: dict[tuple[str, str], bytes | Answer] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    ending: threading.Event = field(default_factory=threading.Event)
    daemon_threads = True

    def __post_init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Request)

    @property
    def url(self) -> str:
        """Its address, as in DEBUGINFOD_URLS."""
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def serving() -> Iterator[Server]:
    """A server that answers until the end of the block."""
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.ending.set()
            server.shutdown()
            thread.join()
