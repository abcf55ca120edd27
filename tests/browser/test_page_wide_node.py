"""A function that calls 20 000 others: each of their boxes can be reached."""

from __future__ import annotations

import numpy as np
import pytest
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import Page, expect

from fake_source import FakeSource
from flametap.model import Function
from flametap.tree.calltree import CallTree
from flametap.tree.selection import Selection
from page_probe import wait_for_revision, zoom_names

pytestmark = pytest.mark.needs("chromium")

CHILDREN = 20_000
STILL = "() => !flametap.graph.animation && !flametap.graph.frame"
# The run of narrow boxes that holds a child, by its number; the child's own box, if there is one.
HOLDER = """(child) => {
  const {view} = flametap.graph;
  const own = view.functions.name.indexOf(`child_${String(child).padStart(5, '0')}`);
  if (own >= 0) return view.boxes.function.indexOf(own);
  const {box, first, last} = view.runs;
  return box[first.findIndex((id, at) => id - 1 <= child && child <= last[at] - 1)];
}"""


class WideSource(FakeSource):
    """main and its children; they get heavier with each revision."""

    def __init__(self, node_count: int = 0) -> None:
        super().__init__(50)
        self.functions = [
            Function("main", "wide"),
            *(Function(f"child_{at:05}", "wide") for at in range(CHILDREN)),
        ]

    def tree(self, selection: Selection) -> CallTree:
        count = CHILDREN + 2
        self_ns = np.full(count, 10**6, np.int64) * (1 + self.revision)
        self_ns[:2] = 0
        total_ns = self_ns.copy()
        total_ns[:2] = self_ns.sum()
        parent = np.ones(count, np.int32)
        parent[:2] = -1, 0
        depth = np.full(count, 2, np.int32)
        depth[:2] = 0, 1
        none = np.zeros(count, np.int32)
        function = np.arange(-1, count - 1, dtype=np.int32)
        return CallTree(
            parent, function, self_ns, total_ns, none, none, depth, self.functions, [""]
        )


@pytest.fixture
def source() -> FakeSource:
    return WideSource()


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
def test_any_child_is_a_few_clicks_away(page: Page, source: FakeSource, child: int) -> None:
    for _ in range(4):
        if not page.evaluate(
            "(box) => flametap.graph.view.isRun(box)", page.evaluate(HOLDER, child)
        ):
            break
        run = "(run) => flametap.getState().run !== run && flametap.views.current.zoom.run"
        click_until(page, child, run, zoomed(page))
    click_until(page, child, "() => flametap.views.current.zoom.path.length === 2", "")
    assert zoom_names(page) == ["main", f"child_{child:05}"]


def test_a_run_is_opened_by_keyboard_and_stays_open(page: Page, source: FakeSource) -> None:
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
        source.advance(1.0)
        wait_for_revision(page, source.revision)
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
