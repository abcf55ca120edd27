"""The page in headless Chromium, served from a recording that grows when a test says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from flametap.web.server import Server, serve
from made_server import MadeServer

WIDE = {"width": 1440, "height": 900}
PHONE = {"width": 400, "height": 800}
# The first view may come before the first status and before the line for events is up, without
# which some keys do nothing yet, and before the lanes, which move the graph down.
READY = (
    "() => globalThis.flametap?.views.current?.total_ns > 0"
    " && flametap.feed.status && flametap.feed.line !== 'connecting' && flametap.timeline.lanes"
)
# For what takes milliseconds on a quiet machine: a test waits that long only if it then fails.
TIMEOUT_MS = 90_000
expect.set_options(timeout=TIMEOUT_MS)


@pytest.fixture
def made() -> MadeServer:
    made = MadeServer(5_000)
    made.advance(5.0)
    return made


@pytest.fixture
def server(made: MadeServer) -> Iterator[Server]:
    server = serve(made.views, "127.0.0.1", 0, "secret-token", controls=made.controls)
    yield server
    server.close()


@pytest.fixture
def open_page(browser: Browser, server: Server) -> Iterator[Callable[..., Page]]:
    """Open the page; fails the test if it logs an error or breaks its own security policy."""
    contexts: list[BrowserContext] = []
    problems: list[str] = []

    own = server

    def open_page(
        hash_: str = "", *, ready: str = READY, server: Server = own, **options: object
    ) -> Page:
        context = browser.new_context(**{"viewport": WIDE, **options})  # type: ignore[arg-type]
        contexts.append(context)
        context.set_default_timeout(TIMEOUT_MS)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on(
            "console",
            lambda message: problems.append(message.text) if message.type == "error" else None,
        )
        page.goto(server.url + hash_)
        page.wait_for_function(ready)
        return page

    yield open_page
    for context in contexts:
        context.close()
    # What the browser itself says about a server that went away is no fault of the page.
    assert [each for each in problems if "net::ERR_" not in each] == []


@pytest.fixture
def page(open_page: Callable[..., Page]) -> Page:
    return open_page()
