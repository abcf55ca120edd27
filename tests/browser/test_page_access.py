"""The page for everyone: what axe-core finds, and everything by keyboard alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from page_probe import found_by_axe, zoom_names

pytestmark = pytest.mark.needs("chromium")

# Each a state of the page: keys to press, and what is then to be seen.
STATES: dict[str, tuple[str, str]] = {
    "graph": ("", "#graph"),
    "card": ("", "#details"),
    "threads": ("t", "#threads-panel"),
    "functions": ("f", "#functions"),
    "quality": ("q", "#quality"),
    "locks": ("u", "#locks .lock-places"),
    "help": ("?", "#help"),
    "save": ("e", "#save-panel"),
    "code": ("s", "#code"),
}
# The same, by a button that Tab reaches.
BUTTONS = {
    "settings": ("#rate", "#settings-panel"),
    "simplify": ("#simplify > button", "#simplify-panel"),
    "heat": ("#heat-button", "#heat-plot"),
}


def tab_to(page: Page, selector: str, *, most: int = 60) -> None:
    """Press Tab until an element has the focus."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("(selector) => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"{selector} is not reached by Tab")


@pytest.mark.parametrize(
    ("scheme", "width"),
    [
        ("light", 1400),
        ("dark", 400),
        pytest.param("dark", 1400, marks=pytest.mark.nightly),
        pytest.param("light", 400, marks=pytest.mark.nightly),
    ],
)
def test_axe_finds_nothing(open_page: Callable[..., Page], scheme: str, width: int) -> None:
    problems = {}
    page = open_page(viewport={"width": width, "height": 850}, color_scheme=scheme)
    for name, (keys, shown) in STATES.items():
        if name in ("card", "code"):
            page.locator("#scroller").focus()
            for key in ("ArrowUp", "ArrowUp", "ArrowRight"):
                page.keyboard.press(key)
        if keys:
            page.keyboard.press(keys)
        expect(page.locator(shown)).to_be_visible()
        page.wait_for_timeout(300)  # its first rows
        if found := found_by_axe(page):
            problems[name] = found
        for _ in range(3):
            page.keyboard.press("Escape")
        if name == "functions":
            page.keyboard.press("f")
    for name, (button, shown) in BUTTONS.items():
        if name == "settings" and width < 1000:
            continue  # a phone does not show the rate
        tab_to(page, button)
        page.keyboard.press("Enter")
        expect(page.locator(shown)).to_be_visible()
        page.wait_for_timeout(300)
        if found := found_by_axe(page):
            problems[name] = found
        if name != "heat":
            page.keyboard.press("Escape")
            expect(page.locator(shown)).to_be_hidden()
            expect(page.locator(button)).to_be_focused()
    assert not problems, json.dumps(problems, indent=1)


def test_filter_of_threads_is_asked_for_whatever_comes_meanwhile(page: Page) -> None:
    """New numbers of the rows, and the list that scrolls because it has fewer."""
    page.locator("#threads-button").click()
    rows = page.locator("#threads-rows .thread-row")
    expect(rows.nth(1)).to_be_visible()
    page.evaluate("() => { document.getElementById('threads-filter').value = 'worker-1'; }")
    page.wait_for_timeout(1_000)  # for a status or two
    page.evaluate(
        """() => {
          document.getElementById('threads-filter').dispatchEvent(new Event('input'));
          document.getElementById('threads-list').dispatchEvent(new Event('scroll'));
        }"""
    )
    expect(rows).to_have_text([re.compile("worker-1")])


def test_everything_is_done_by_keyboard_alone(page: Page) -> None:
    keyboard = page.keyboard
    tab_to(page, "#clock [data-value=wall]")
    keyboard.press("Enter")
    page.wait_for_function("() => flametap.views.current.asked.clock === 'wall'")
    tab_to(page, "#threads-button")
    keyboard.press("Enter")
    expect(page.locator("#threads-filter")).to_be_focused()
    keyboard.type("worker-1")
    expect(page.locator("#threads-rows .thread-row")).to_have_text([re.compile("worker-1")])
    tab_to(page, "#threads-rows .link")
    keyboard.press("Enter")
    expect(page.locator("#threads-label")).to_contain_text("worker-1 (")
    keyboard.press("Escape")
    expect(page.locator("#threads-button")).to_be_focused()
    # The view of this thread is there: the boxes of the one before may not be in it.
    page.wait_for_function("() => flametap.views.current.asked.threads?.length === 1")
    tab_to(page, "#scroller")
    for key in ("ArrowUp", "ArrowUp", "Enter"):
        keyboard.press(key)
    page.wait_for_function("() => flametap.views.current.zoom.path.length === 1")
    assert len(zoom_names(page)) == 1
    keyboard.press("s")
    expect(page.locator("#code-list")).to_be_focused()
    keyboard.press("Escape")
    expect(page.locator("#code")).to_be_hidden()
    keyboard.press("f")
    expect(page.locator("#functions-rows .link").first).to_be_visible()
    tab_to(page, "#functions-list")
    keyboard.press("ArrowDown")
    keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.closest('.function-row').ariaRowIndex") == "3"
    keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()
    keyboard.press("Escape")
    keyboard.press("q")
    expect(page.locator("#quality")).to_be_visible()
    keyboard.press("Escape")
    keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()
