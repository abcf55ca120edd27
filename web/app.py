"""The Flask app: the page, its files and the API; for browsers below ``/ADDRESS/`` (login.py)."""

from __future__ import annotations

import functools
import gzip
import json
import re
from collections.abc import Callable, Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

from flask import Flask, Response, render_template, request

from flametap.analysis.views import Views
from flametap.errors import FlametapError
from flametap.export.bundle import MAIN, SCRIPT, STYLE, bundle, joined, style

from .api import Service, blueprint
from .control_types import Controls
from .gate import MAX_BODY_BYTES
from .guard import protect
from .login import Key
from .recordings import NUMBER, Recordings

MIN_COMPRESSED_BYTES = 1024
COMPRESSION_LEVEL = 1  # a fifth of the time of the usual level
COMPRESSED = {
    "application/json",
    "image/svg+xml",
    "text/css",
    "text/html",
    "text/javascript",
}

_OF_RECORDING = re.compile(r"/(\d{1,9})(?=/)", re.ASCII)


def create_app(
    shown: Views | Recordings,
    token: str,
    view: str = "",
    controls: Controls | None = None,
) -> Flask:
    """Create an app that serves recordings to clients that know the token.

    ``app.extensions["flametap"]`` is its ``Service``; setting its ``closing`` ends event streams.

    Args:
        shown: the views of a recording, or several recordings.
        token: opens the page.
        view: the state in which the page opens, as its own URL has it after ``#``.
        controls: of the recorder; None if nothing is being recorded.
    """
    key = Key(token)
    recordings = shown if isinstance(shown, Recordings) else Recordings.of(shown)
    service = Service(recordings, controls)
    app = Flask(__name__)
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES
    app.extensions["flametap"] = service
    app.wsgi_app = _mounted(app.wsgi_app, f"/{key.address}")  # type: ignore[method-assign]
    protect(app, key, view)
    app.register_blueprint(blueprint(service), url_prefix="/api")
    app.after_request(_compress)

    @app.get("/")
    def page() -> str:
        asked = recordings.asked()
        asked.trees.begin()
        status = asked.recording.status()
        return joined(render_template("index.html", status=status, **_files(recordings)))

    @app.errorhandler(FlametapError)
    def refused(error: FlametapError) -> Response:
        return Response(f"flametap: {error.message}: {error.hint}\n", 400, mimetype="text/plain")

    @app.get(f"/{SCRIPT}")
    def script() -> Response:
        return Response(_script(_newest_ns()), mimetype="text/javascript")

    @app.get(f"/{STYLE}")
    def sheet() -> Response:
        return Response(_style(_newest_ns()), mimetype="text/css")

    return app


def _files(recordings: Recordings) -> dict[str, Any]:
    """Return what the page's template says of several recordings; nothing of a single one."""
    own, names = recordings.asked_number, list(enumerate(recordings.names, 1))
    if len(names) == 1:
        return {}
    files = [
        (number, name, f"{request.script_root}/" + (f"{number}/" if number > 1 else ""))
        for number, name in names
    ]
    others = json.dumps([each for each in names if each[0] != own])
    return {"files": files, "number": own, "others": others}


def _newest_ns() -> int:
    """Return when a file of the page was changed last: who works on it has only to reload."""
    folder = Path(str(files("flametap.web")))
    return max(path.stat().st_mtime_ns for path in folder.glob("[st]*/**/*"))


@functools.lru_cache(1)
def _script(_newest_ns: int) -> str:
    return bundle(MAIN)


@functools.lru_cache(1)
def _style(_newest_ns: int) -> str:
    template = files("flametap.web").joinpath("templates/index.html")
    return style(template.read_text("utf-8"))


def _compress(response: Response) -> Response:
    """Compress a long text, if the browser can read that."""
    if (
        (response.is_streamed and not response.direct_passthrough)
        or response.status_code != 200
        or response.mimetype not in COMPRESSED
        or not request.accept_encodings.quality("gzip")
        or "Content-Encoding" in response.headers
    ):
        return response
    response.direct_passthrough = False  # a file
    data = response.get_data()
    if len(data) > MIN_COMPRESSED_BYTES:
        response.set_data(gzip.compress(data, COMPRESSION_LEVEL, mtime=0))
        response.headers["Content-Encoding"] = "gzip"
    response.vary.add("Accept-Encoding")
    return response


def _mounted(app: Callable[..., Iterable[bytes]], root: str) -> Callable[..., Iterable[bytes]]:
    """Return a WSGI app that also serves all paths below ``root``, and those of each recording.

    ``/2/`` below either is the page of the second recording.
    """

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path: str = environ.get("PATH_INFO", "")
        if path.startswith(f"{root}/"):
            environ["SCRIPT_NAME"] = root
            path = environ["PATH_INFO"] = path[len(root) :]
        found = _OF_RECORDING.match(path)
        if found:
            environ[NUMBER] = int(found[1])
            environ["PATH_INFO"] = path[found.end() :]
        return app(environ, start_response)

    return serve
