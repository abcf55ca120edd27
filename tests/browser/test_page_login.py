"""How a browser logs in: no secret stays in its address bar, and the page works from everywhere."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from flametap.web.server import Server
from made_server import MadeServer

pytestmark = pytest.mark.needs("chromium")

SECRET = "secret-token"


def check(page: Page, made: MadeServer) -> None:
    expect(page.locator("#state-text")).to_have_text("Recording")
    assert SECRET not in page.url
    address = urlsplit(page.url).path
    assert address.count("/") == 2
    cookie = dict(page.context.cookies()[0])
    assert str(cookie["value"]) not in page.url
    assert cookie["path"] == address
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert page.evaluate("document.cookie") == ""
    expect(page.locator("#pause")).to_be_visible()  # the line for events is up
    page.keyboard.press("p")  # a POST
    expect(page.locator("#state-text")).to_have_text("Paused")
    assert made.controls.state == "paused"
    page.keyboard.press("p")
    page.reload()
    expect(page.locator("#state-text")).to_have_text("Recording")
    assert page.evaluate("document.referrer") == ""


def test_file_opens_the_page(
    browser: Browser, server: Server, made: MadeServer, tmp_path: Path
) -> None:
    """The browser comes from a file: of another site than the page."""
    file = tmp_path / "open.html"
    file.write_text(server.form)
    with browser.new_context() as context:
        page = context.new_page()
        requested: list[str] = []
        page.on("request", lambda request: requested.append(request.url))
        page.goto(file.as_uri())
        check(page, made)
        assert not [url for url in requested if SECRET in url]


def test_link_on_another_site_opens_the_page(
    browser: Browser, server: Server, made: MadeServer
) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        body = f'<a href="{server.url}">flametap</a>'
        page.route(
            "http://chat.example/",
            lambda route: route.fulfill(body=body, content_type="text/html"),
        )
        page.goto("http://chat.example/")
        page.get_by_text("flametap").click()
        check(page, made)


def test_url_opens_the_page_through_a_tunnel_and_again(
    browser: Browser, server: Server, made: MadeServer
) -> None:
    """Through a tunnel the host may have another name."""
    url = server.url.replace("127.0.0.1", "localhost")
    for _ in range(2):
        with browser.new_context() as context:
            page = context.new_page()
            for _ in range(2):
                page.goto(url)
                check(page, made)
