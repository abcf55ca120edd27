"""The page of a Python program: languages, the interpreter's own functions, colours by origin."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from flametap.web.server import Server, serve
from made_server import MadeServer
from page_probe import at
from python_server import EVAL, PythonServer

pytestmark = pytest.mark.needs("chromium")
NAMES = "() => flametap.views.current.functions.name"


@pytest.fixture
def server() -> Iterator[Server]:
    server = serve(PythonServer(600).views, "127.0.0.1", 0, "secret-token")
    yield server
    server.close()


def wait_for_names(page: Page, *, shown: str, hidden: str) -> None:
    page.wait_for_function(
        "([shown, hidden]) => { const {name} = flametap.views.current.functions;"
        " return name.includes(shown) && !name.includes(hidden); }",
        arg=[shown, hidden],
    )


def test_language_is_chosen_kept_in_the_url_and_undone(page: Page) -> None:
    expect(page.locator("#language")).to_be_visible()
    wait_for_names(page, shown="list_sort", hidden=EVAL)
    page.get_by_role("button", name="Python", exact=True).click()
    wait_for_names(page, shown="by_price", hidden="list_sort")
    expect(page).to_have_url(re.compile("language=python"))
    expect(page.locator("#plumbing-choice")).to_be_hidden()
    page.reload()
    page.wait_for_function("() => globalThis.flametap?.views.current?.total_ns > 0")
    wait_for_names(page, shown="[no Python frames]", hidden="list_sort")
    expect(page.locator("#language")).to_be_visible()
    page.keyboard.press("l")
    wait_for_names(page, shown=EVAL, hidden="by_price")
    expect(page.get_by_role("button", name="Native", exact=True)).to_have_attribute(
        "aria-pressed", "true"
    )
    page.go_back()
    wait_for_names(page, shown="by_price", hidden=EVAL)


def test_interpreter_internals_on_request(page: Page) -> None:
    page.get_by_label("Interpreter internals").check()
    page.wait_for_function(f"() => ({NAMES})().includes('{EVAL}')")
    expect(page).to_have_url(re.compile("plumbing=1"))
    page.get_by_label("Interpreter internals").uncheck()
    wait_for_names(page, shown="list_sort", hidden=EVAL)
    assert "plumbing" not in page.url


def test_card_has_the_whole_path_and_whose_code_it_is(page: Page) -> None:
    box = at(page, "QuerySet._fetch_all")
    page.mouse.move(box["x"], box["y"])
    card = page.locator("#details")
    expect(card).to_contain_text("library")
    expect(card).to_contain_text(re.compile(r"site-packages/django/db/models/query\.py:188\d"))
    expect(card).not_to_contain_text("assembly")


def test_legend_and_verdict(page: Page) -> None:
    expect(page.locator("#legend")).to_have_text(re.compile("yours.*library.*standard.*C.*kernel"))
    expect(page.locator("#legend")).to_contain_text(re.compile(r"yours ?\d[\d.]* %.*C ?\d[\d.]* %"))
    expect(page.locator("#health")).to_contain_text("exact Python stacks")
    page.keyboard.press("q")
    expect(page.locator("#quality-python")).to_contain_text(
        re.compile(r"99\.\d % of the CPU time in Python")
    )
    expect(page.locator("#quality-python")).to_contain_text("some are missing")
    # With all controls of a Python program, what a search found has room and covers nothing.
    page.locator("#search").fill("e")
    expect(page.locator("#search-result")).to_have_text(re.compile("% in .* matches"))
    result, layout, step = (
        page.locator(selector).bounding_box()
        for selector in ("#search-result", "#layout", "#search-step")
    )
    assert result
    assert layout
    assert step
    assert result["width"] > 100
    is_below = result["y"] >= layout["y"] + layout["height"]
    assert is_below or result["x"] >= layout["x"] + layout["width"]
    assert step["x"] >= result["x"] + result["width"]


def test_source_panel_shows_the_lines_of_a_python_file(page: Page) -> None:
    box = at(page, "product_list")
    page.mouse.move(box["x"], box["y"])
    page.keyboard.press("s")
    expect(page.locator("#code-place")).to_have_text(
        re.compile(r"/tests/support/python_server\.py")
    )


def test_a_small_screen_has_the_tools_in_one_row_and_nothing_cut_in_the_foot(
    open_page: Callable[..., Page],
) -> None:
    page = open_page(viewport={"width": 1280, "height": 800})
    expect(page.locator("#legend")).to_contain_text("kernel")
    tops = page.evaluate(
        """() => [...document.querySelectorAll('.toolbar > *')].filter((each) => each.offsetParent)
            .map((each) => each.getBoundingClientRect())
            .map(({ top, height }) => top + height / 2)"""
    )
    assert max(tops) - min(tops) < 4
    cut = page.evaluate(
        """() => [...document.querySelectorAll('#legend li, #health .fact')].filter((each) => {
            const place = (some) => some.getBoundingClientRect();
            const [one, all] = [each, each.parentElement].map(place);
            const isShown = one.top < all.bottom - 2;
            return isShown && (one.left < all.left || one.right > all.right + 0.5);
        }).map((each) => each.textContent)"""
    )
    assert cut == []
    assert page.locator("#legend li").last.evaluate(
        "(each) => each.getBoundingClientRect().bottom <= innerHeight"
    )


class TestNativeRecording:
    @pytest.fixture
    def server(self) -> Iterator[Server]:
        made = MadeServer(500)
        made.advance(5.0)
        server = serve(made.views, "127.0.0.1", 0, "secret-token")
        yield server
        server.close()

    def test_has_no_control_of_languages(self, open_page: Callable[..., Page]) -> None:
        page = open_page()
        expect(page.locator("#health")).to_contain_text("complete stacks")
        for part in ("#language", "#plumbing-choice"):
            expect(page.locator(part)).to_be_hidden()
        expect(page.locator("#legend")).to_contain_text("libc.so.6")
        page.keyboard.press("l")
        assert "language" not in page.url
