"""What a live page must not take from its user: focus, selected text, scrolling, a click."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from made_server import MadeServer
from page_probe import at, wait_for_revision

pytestmark = pytest.mark.needs("chromium")

UPDATES = 100
FOCUSED = """() => {
  const {activeElement: element} = document;
  return [element.tagName, element.className, element.textContent].join('|');
}"""
SELECT = """(selector) => {
  const node = document.querySelector(selector).firstChild;
  document.getSelection().setBaseAndExtent(node, 0, node, node.data.length);
}"""


def update(page: Page, made: MadeServer, count: int = UPDATES) -> None:
    """Update the page so often that each of its views comes to another result."""
    for _ in range(count):
        made.advance(0.05)
        wait_for_revision(page, made.revision)


@pytest.fixture
def fast(page: Page) -> Page:
    """The page, without the pause between two views."""
    page.evaluate("flametap.views.pacer.gapMs = 0")
    return page


def test_focus_in_the_table_of_functions(fast: Page, made: MadeServer) -> None:
    fast.keyboard.press("f")
    row = fast.locator("#functions-rows .function-row").filter(has_text="Queue::pop")
    row.get_by_role("button", name="Queue::pop", exact=True).focus()
    before = fast.evaluate(FOCUSED)
    total = row.inner_text()
    update(fast, made)
    assert fast.evaluate(FOCUSED) == before
    assert row.inner_text() != total  # its numbers go on
    fast.keyboard.press("Enter")
    expect(fast.locator("#search")).to_have_value("re:^Queue::pop$")


def test_selected_text_and_scroll_position(fast: Page, made: MadeServer) -> None:
    fast.keyboard.press("f")
    fast.locator("#functions-list").evaluate("(list) => (list.scrollTop = 400)")
    fast.wait_for_function("() => document.querySelectorAll('#functions-rows .link').length > 20")
    fast.evaluate(SELECT, "#functions-rows .function-row:nth-child(8) .link")
    chosen = fast.evaluate("String(document.getSelection())")
    update(fast, made)
    assert chosen
    assert fast.evaluate("String(document.getSelection())") == chosen
    assert fast.locator("#functions-list").evaluate("(list) => list.scrollTop") == 400


def test_selected_text_in_the_code(fast: Page, made: MadeServer) -> None:
    box = at(fast, "PriceLevel::fill")
    fast.mouse.move(box["x"], box["y"])
    fast.keyboard.press("s")
    expect(fast.locator("#code-rows .is-current")).to_be_visible()
    fast.evaluate(SELECT, "#code-rows .is-current .code-text")
    chosen = fast.evaluate("String(document.getSelection())")
    fast.evaluate("flametap.code.askedAt = -Infinity")
    for _ in range(5):
        with fast.expect_response("**/api/lines?*"):
            made.advance(1.0)
            fast.evaluate("flametap.code.news({isOther: true})")
        fast.evaluate(
            "() => new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))"
        )
    assert "price" in chosen
    assert fast.evaluate("String(document.getSelection())") == chosen


def test_every_click_on_the_card_hits(fast: Page, made: MadeServer) -> None:
    fast.locator("#scroller").focus()
    for key in ("ArrowUp", "ArrowUp", "ArrowRight"):
        fast.keyboard.press(key)
    button = fast.locator("#details").get_by_role("button", name="Source")
    expect(button).to_be_visible()
    hits = 0
    for _ in range(12):
        box: Any = button.bounding_box()
        fast.mouse.move(box["x"] + 8, box["y"] + 8)
        fast.mouse.down()
        update(fast, made, 2)  # between the press and the release
        fast.mouse.up()
        expect(fast.locator("#code")).to_be_visible()
        hits += 1
        fast.locator("#code-close").click()
        expect(button).to_be_visible()
    assert hits == 12


def test_focus_on_the_card(fast: Page, made: MadeServer) -> None:
    fast.locator("#scroller").focus()
    for key in ("ArrowUp", "ArrowUp", "ArrowRight"):
        fast.keyboard.press(key)
    fast.locator("#details").get_by_role("button", name="Assembly").focus()
    text = fast.locator("#details tbody").inner_text()
    update(fast, made, 30)
    assert fast.evaluate(FOCUSED).endswith("|Assembly")
    assert fast.locator("#details tbody").inner_text() != text


def test_screen_readers_are_told_of_a_box_once(fast: Page, made: MadeServer) -> None:
    fast.evaluate(
        """() => {
          globalThis.said = [];
          for (const element of document.querySelectorAll(
            '[aria-live]:not([aria-live=off]), [role=status], [role=alert],'
              + ' output:not([aria-live])',
          )) {
            new MutationObserver(() => said.push(element.textContent))
              .observe(element, {childList: true, characterData: true, subtree: true});
          }
        }"""
    )
    fast.locator("#scroller").focus()
    fast.keyboard.press("ArrowUp")
    fast.keyboard.press("ArrowUp")
    update(fast, made, 30)
    said = fast.evaluate("said")
    assert len(said) == 2, said
