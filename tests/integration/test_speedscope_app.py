"""speedscope's own application opens what we export, and shows our names and weights."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

import cli
import registry
from running import Start

# The application comes from a registry.
pytestmark = [pytest.mark.needs("attach", "gcc", "chromium", "npm"), pytest.mark.nightly]

VERSION = "1.25.0"


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture(scope="session")
def speedscope_app(
    require_capability: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The folder with the application's index.html, from npm."""
    npm = require_capability("npm")
    folder = tmp_path_factory.mktemp("speedscope")
    return registry.unpacked(npm, "speedscope", VERSION, folder) / "dist" / "release"


@pytest.fixture
def site(speedscope_app: Path, tmp_path: Path) -> Iterator[str]:
    """The application and the test's files on one origin: /app/ and /out/."""
    root = tmp_path / "site"
    root.mkdir()
    (root / "app").symlink_to(speedscope_app)
    (root / "out").symlink_to(tmp_path)
    handler = functools.partial(_Quiet, directory=str(root))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_speedscope_shows_our_functions(
    start: Start, site: str, tmp_path: Path, browser: Browser
) -> None:
    target = start("inlines")
    out = tmp_path / "out.speedscope.json"
    cli.run("record", "-p", target.pid, "-d", 1, "-o", out).assert_saved()
    target.finish()

    with browser.new_page() as page:
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(f"{site}/app/index.html#profileURL={site}/out/{out.name}&view=sandwich")
        # The sandwich view is a table of all functions: text that can be read without a canvas.
        page.get_by_text("shapes::Mixer<5>::run").first.wait_for(timeout=20_000)
        text = page.inner_text("body")
    assert problems == []
    for name in ("shapes::Mixer<5>::run", "shapes::twist"):
        assert name in text, text
