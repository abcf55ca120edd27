"""Several tabs of one browser: one stream of events for all leaves connections for the rest."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from flametap.web.server import Server
from made_server import MadeServer
from page_probe import wait_for_revision

pytestmark = pytest.mark.needs("chromium")

READY = "() => globalThis.flametap?.views.current?.total_ns > 0"
TIMEOUT_MS = 90_000
TABS = 8  # two more than a browser opens connections


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context()
    context.set_default_timeout(TIMEOUT_MS)
    yield context
    context.close()


def tabs(context: BrowserContext, server: Server, count: int) -> list[Page]:
    pages = []
    for _ in range(count):
        page = context.new_page()
        page.goto(server.url)
        page.wait_for_function(READY)
        pages.append(page)
    return pages


def streams(server: Server) -> int:
    return server._service.streams


@pytest.mark.parametrize("seconds", [3.0, pytest.param(60.0, marks=pytest.mark.nightly)])
def test_eight_tabs_stay_live(
    context: BrowserContext, server: Server, made: MadeServer, seconds: float
) -> None:
    pages = tabs(context, server, TABS)
    stop = threading.Event()
    growing = made.running(stop)
    began = time.monotonic()
    try:
        while time.monotonic() < began + seconds:
            wanted = made.revision
            for page in pages:
                wait_for_revision(page, wanted)
                expect(page.locator("#state-text")).to_have_text("Recording")
    finally:
        stop.set()
        growing.join()
    assert streams(server) == 1
    pages[-1].keyboard.press("2")
    pages[-1].wait_for_function("() => flametap.views.current.asked.clock === 'wall'")


def test_the_stream_outlasts_the_tab_that_opened_it(
    context: BrowserContext, server: Server, made: MadeServer
) -> None:
    first, second = tabs(context, server, 2)
    first.close()
    made.advance(1.0)
    wait_for_revision(second, made.revision)
    third = tabs(context, server, 1)[0]  # and is told to one that comes later
    expect(third.locator("#state-text")).to_have_text("Recording")
    made.end("the process exited")
    for page in (second, third):
        expect(page.locator("#banner")).to_contain_text("the process exited")
    late = tabs(context, server, 1)[0]
    expect(late.locator("#state-text")).to_have_text("Ended")


def test_all_tabs_are_told_that_the_server_closes(context: BrowserContext, server: Server) -> None:
    pages = tabs(context, server, 3)
    for page in pages:
        expect(page.locator("#state-text")).to_have_text("Recording")
    server.close()
    for page in pages:
        expect(page.locator("#banner")).to_contain_text("flametap was stopped")


def test_without_shared_workers_a_hidden_tab_closes_its_stream(
    context: BrowserContext, server: Server, made: MadeServer
) -> None:
    context.add_init_script("delete globalThis.SharedWorker")
    page = tabs(context, server, 1)[0]
    expect(page.locator("#state-text")).to_have_text("Recording")
    hide = """(hidden) => {
      Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});
      document.dispatchEvent(new Event('visibilitychange'));
    }"""
    page.evaluate(hide, True)
    deadline = time.monotonic() + 60
    while streams(server) and time.monotonic() < deadline:
        made.advance(0.1)  # a stream notices when it writes that nobody reads
        page.wait_for_timeout(50)
    assert streams(server) == 0
    page.evaluate(hide, False)
    made.advance(1.0)
    wait_for_revision(page, made.revision)
