"""What the page shows stays: nothing jumps while somebody types, nothing covers the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from flametap.web.server import Server, serve
from page_probe import TWO_FRAMES
from python_server import PythonServer

pytestmark = pytest.mark.needs("chromium")


@pytest.fixture
def python_server() -> Iterator[Server]:
    """A page with all the controls that there are."""
    server = serve(PythonServer().views, "127.0.0.1", 0, "secret-token")
    yield server
    server.close()


def top_of_graph(page: Page) -> float:
    page.evaluate(TWO_FRAMES)
    box = page.locator("#scroller").bounding_box()
    assert box
    return box["y"]


def test_nothing_moves_while_somebody_types(
    open_page: Callable[..., Page], python_server: Server
) -> None:
    page = open_page(server=python_server)
    for width in (1024, 1408, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        page.locator("#search").fill("")
        expect(page.locator("#search-result")).to_be_hidden()
        before = top_of_graph(page)
        for text in ("e", "no such function", "re:((("):
            page.locator("#search").fill(text)
            expect(page.locator("#search-result")).not_to_be_empty()
            assert top_of_graph(page) == before, f"{text!r} at {width} pixels"


def test_first_hint_is_one_line(page: Page) -> None:
    box = page.locator("#hint").bounding_box()
    assert box
    assert box["height"] < 36


def test_scroll_bar_covers_no_box(page: Page) -> None:
    # Headless Chromium hides scroll bars; a border takes as much from the graph.
    page.evaluate(
        "document.getElementById('scroller').style.borderRight = '15px solid transparent'"
    )
    page.wait_for_function("() => flametap.graph.scene?.width === flametap.graph.width")
    edges = page.evaluate(
        """() => ['boxes', 'marks'].map((id) => {
            const canvas = document.getElementById(id);
            return [canvas.getBoundingClientRect().right, canvas.width];
        })"""
    )
    right = page.evaluate("document.getElementById('scroller').getBoundingClientRect().right")
    assert edges == [[right - 15, page.evaluate("flametap.graph.width")]] * 2


def test_menu_by_key_leaves_its_box_in_sight(page: Page) -> None:
    page.locator("#scroller").focus()
    for _ in range(2):
        page.keyboard.press("ArrowUp")
    page.evaluate(TWO_FRAMES)
    box = page.evaluate("flametap.graph.middleOf(flametap.graph.selected())")
    page.keyboard.press("m")
    menu = page.locator(".menu")
    expect(menu).to_be_visible()
    place = menu.bounding_box()
    assert place
    assert place["x"] < box["x"] < place["x"] + box["width"]  # at its left
