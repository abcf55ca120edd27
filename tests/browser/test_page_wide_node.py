"""A function that calls 20 000 others: each of their boxes can be reached."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import Page, expect

from flametap.web.server import Server, serve
from made_server import TOKEN
from page_probe import wait_for_revision, zoom_names
from wide_server import CHILDREN, WideServer

pytestmark = pytest.mark.needs("chromium")

STILL = "() => !flametap.graph.animation && !flametap.graph.frame"
# The run of narrow boxes that holds a child, by its number; the child's own box, if there is one.
HOLDER = """(child) => {
  const {view} = flametap.graph;
  const own = view.functions.name.indexOf(`child_${String(child).padStart(5, '0')}`);
  if (own >= 0) return view.boxes.function.indexOf(own);
  const {box, first, last} = view.runs;
  return box[first.findIndex((id, at) => id - 1 <= child && child <= last[at] - 1)];
}"""


@pytest.fixture
def wide() -> WideServer:
    return WideServer()


@pytest.fixture
def server(wide: WideServer) -> Iterator[Server]:
    server = serve(wide.views, "127.0.0.1", 0, TOKEN)
    yield server
    server.close()


def zoomed(page: Page) -> str:
    return str(page.evaluate("flametap.getState().run"))


def click_until(page: Page, child: int, condition: str, before: str) -> None:
    """Click what holds a child, again where the page has moved under the pointer meanwhile."""
    for _ in range(20):
        page.wait_for_function(STILL)
        place = page.evaluate(
            f"(child) => flametap.graph.middleOf(({HOLDER})(child))",
            child,
        )
        page.mouse.click(place["x"], place["y"])
        try:
            page.wait_for_function(condition, arg=before, timeout=5_000)
        except PlaywrightError:
            continue
        return
    raise AssertionError(f"no click reached what holds child {child}")


@pytest.mark.parametrize("child", [0, 7_654, CHILDREN - 1])
def test_any_child_is_a_few_clicks_away(page: Page, child: int) -> None:
    for _ in range(4):
        if not page.evaluate(
            "(box) => flametap.graph.view.isRun(box)", page.evaluate(HOLDER, child)
        ):
            break
        run = "(run) => flametap.getState().run !== run && flametap.views.current.zoom.run"
        click_until(page, child, run, zoomed(page))
    click_until(page, child, "() => flametap.views.current.zoom.path.length === 2", "")
    assert zoom_names(page) == ["main", f"child_{child:05}"]


def test_a_run_is_opened_by_keyboard_and_stays_open(page: Page, wide: WideServer) -> None:
    page.locator("#scroller").focus()
    for key in ("ArrowUp", "ArrowUp", "ArrowUp"):
        page.keyboard.press(key)
    expect(page.locator("#details")).to_contain_text("narrow functions")
    page.keyboard.press("Enter")
    page.wait_for_function("() => flametap.views.current.zoom.run")
    expect(page.locator("#crumbs")).to_contain_text("narrow functions")
    count = page.evaluate("flametap.views.current.zoom.run.count")
    assert 100 < count < CHILDREN / 10
    for _ in range(3):
        wide.advance()
        wait_for_revision(page, wide.revision)
    assert page.evaluate("flametap.views.current.zoom.run.count") == count
    page.reload()
    page.wait_for_function("() => globalThis.flametap?.views.current?.zoom.run")
    page.keyboard.press("Backspace")
    page.wait_for_function("() => !flametap.views.current.zoom.run")
    page.go_back()
    page.wait_for_function("() => flametap.views.current.zoom.run")
    page.get_by_role("button", name="Reset zoom").click()
    page.wait_for_function("() => !flametap.views.current.zoom.run")


def test_a_run_that_is_gone_shows_what_was_around_it(page: Page) -> None:
    page.evaluate("location.hash = '#zoom=0&run=99991-99999'")
    page.wait_for_function("() => flametap.getState().run === ''")
    assert zoom_names(page) == ["main"]
