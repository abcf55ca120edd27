"""The page of a Python program whose threads share the GIL."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from flametap.analysis.views import views_of
from flametap.web.server import Server, serve
from gil_profiles import gil_recording
from page_probe import at
from python_server import PythonServer

pytestmark = pytest.mark.needs("chromium")
NAMES = "() => flametap.views.current.functions.name"
WAIT = "[waiting for the GIL]"


@pytest.fixture
def server() -> Iterator[Server]:
    server = serve(views_of(gil_recording()), "127.0.0.1", 0, "secret-token")
    yield server
    server.close()


def test_only_the_time_with_the_gil(page: Page) -> None:
    page.get_by_label("GIL only").check()
    expect(page).to_have_url(re.compile("gil=1"))
    page.keyboard.press("2")
    page.wait_for_function("() => flametap.views.current.total_ns === 95e6")
    page.reload()
    page.wait_for_function("() => globalThis.flametap?.views.current?.total_ns === 95e6")
    expect(page.get_by_label("GIL only")).to_be_checked()
    page.keyboard.press("g")
    page.wait_for_function(f"() => ({NAMES})().includes('{WAIT}')")
    assert "gil" not in page.url


def test_card_of_a_wait_says_who_held_it(open_page: Callable[..., Page]) -> None:
    page = open_page("#clock=wall&language=python")
    page.wait_for_function(f"() => ({NAMES})().includes('{WAIT}')")
    box = at(page, "parse")
    page.mouse.move(box["x"], box["y"])
    card = page.locator("#details")
    expect(card).to_contain_text("parse")
    expect(card).not_to_contain_text("held meanwhile")
    path = page.evaluate(
        "() => { const v = flametap.views.current; for (let i = 1; i < v.boxCount; i++) {"
        f" if (v.functionOf(i).name === '{WAIT}'"
        " && v.functionOf(v.boxes.parent[i]).name === 'read') return v.pathOf(i); } }"
    )
    page.mouse.move(0, 0)
    page.evaluate("(path) => flametap.graph.reveal(path)", path)
    expect(card).to_contain_text("The GIL was held meanwhile by")
    expect(card).to_contain_text("python (101) in parse")
    expect(card).to_contain_text("100 %")


def test_threads_panel_has_the_shares(page: Page) -> None:
    page.keyboard.press("t")
    panel = page.locator("#threads-panel")
    expect(panel).to_contain_text("GIL held")
    expect(panel).to_contain_text("The GIL was held 95.0 % of the time. 3 threads waited for it")
    worker = panel.get_by_role("row").filter(has_text="worker-1")
    expect(worker).to_contain_text("35.0 %")
    expect(worker).to_contain_text("60.0 %")
    name = worker.locator(".thread-name .link")
    assert name.evaluate("(each) => each.scrollWidth <= each.clientWidth"), "the name is cut"
    page.evaluate("() => flametap.change({ range: '50-70' })")
    expect(panel).to_contain_text("The GIL was held 100 % of the time")
    expect(worker).to_contain_text("50.0 %")


def test_page_without_a_gil_does_not_speak_of_it(browser_page_without: Page) -> None:
    page = browser_page_without
    expect(page.locator("#gil-choice")).to_be_hidden()
    page.keyboard.press("g")
    assert "gil" not in page.url
    page.keyboard.press("t")
    expect(page.locator("#threads-panel")).to_contain_text("Now in")
    for part in (*page.locator("#threads-panel .gil").all(), page.locator("#threads-gil")):
        expect(part).to_be_hidden()


@pytest.fixture
def browser_page_without(browser: Browser) -> Iterator[Page]:
    server = serve(PythonServer(100).views, "127.0.0.1", 0, "secret-token")
    page = browser.new_page()
    page.goto(server.url)
    page.wait_for_function("() => globalThis.flametap?.views.current?.total_ns > 0")
    yield page
    page.close()
    server.close()


def test_server_can_open_the_page_with_the_gil_only(browser: Browser, tmp_path: Path) -> None:
    server = serve(views_of(gil_recording()), "127.0.0.1", 0, "secret-token", view="gil=1")
    page = browser.new_page()
    try:
        page.goto(server.url)
        expect(page.get_by_label("GIL only")).to_be_checked()
        file = tmp_path / "open.html"
        file.write_text(server.form)
        page.goto(file.as_uri())
        expect(page.get_by_label("GIL only")).to_be_checked()
    finally:
        page.close()
        server.close()


def test_waits_for_the_gil_are_a_lock_with_its_holders(page: Page) -> None:
    page.keyboard.press("u")
    row = page.locator("#locks .lock-places > li")
    expect(row).to_contain_text("global interpreter lock")
    expect(row.locator(".lock-holders li").first).to_contain_text("parse in python (101)")
