"""Ask the page of a recording for all that it shows, in process."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from flametap.analysis.views import Views
from flametap.web.app import create_app

TOKEN = "fuzz-token"
FUNCTIONS = 3
# Each path is asked for; what differs by chance, one of its variants.
ALWAYS = (
    "view?clock=wall&width=800&rows=60&table=self&q=a",
    "symbols?clock=wall",
    "locks?",
    "lanes?idle=1&lanes=9&overview=200",
    "heat?kind=cpu",
    "heat?kind=waits&columns=50",
    "status?",
    "threads?sort=wall",
    "elsewhere?",
    "events?",
)
SOMETIMES = (
    "view?clock=cpu&language=python&shape=only:?m",
    "view?clock=off-cpu&gil=1&table=total",
    "view?clock=wall&range=last100&compare=rest",
    "view?clock=cpu&range=10-90&compare=0-10&scale=time",
    "view?clock=wall&threads=1&plumbing=1",
    "gil?clock=wall",
    "threads?filter=re:a&group=1&sort=name&range=0-100",
    "lanes?from=100&to=200&bins=1000&threads=1,2",
    "heat?from=50&to=51&kind=waits",
    "export?format=folded&clock=wall",
)


def ask(views: Views, chance: int) -> Iterator[tuple[str, int, bytes]]:
    """Ask a page; yield path, status and answer of each request, but for streams and files whole.

    Args:
        views: of a recording.
        chance: chooses some of the requests.
    """
    app = create_app(views, TOKEN).wsgi_app
    functions = range(min(FUNCTIONS, len(views.recording.functions)))
    code = [
        f"{what}?clock=wall&function={i}" for what in ("lines", "instructions") for i in functions
    ]
    paths = (*ALWAYS, *code, SOMETIMES[chance % len(SOMETIMES)])
    for path in paths:
        place, _, query = path.partition("?")
        status, answer = _asked(app, f"/api/{place}", query)
        if place == "events":
            assert answer.endswith(b"event: end\ndata: {}\n\n"), answer[:200]
            continue
        yield f"/api/{path}", status, answer


def _asked(app: Any, path: str, query: str) -> tuple[int, bytes]:
    said: list[str] = []
    environ = {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_HOST": "127.0.0.1",
        "HTTP_AUTHORIZATION": f"Bearer {TOKEN}",
        "wsgi.input": io.BytesIO(),
        "wsgi.url_scheme": "http",
        "wsgi.errors": io.StringIO(),
        "wsgi.version": (1, 0),
    }
    answer = app(environ, lambda status, headers, failure=None: said.append(status))
    parts = b"".join(answer)
    if hasattr(answer, "close"):
        answer.close()
    return int(said[0][:3]), parts
