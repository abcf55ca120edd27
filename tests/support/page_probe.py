"""What the browser tests ask the page: where boxes are, what is zoomed to, what was painted."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

PIXELS = """({isMatch}) => {
  const canvas = document.getElementById('boxes');
  const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  let found = 0;
  for (let at = 0; at < data.length; at += 4) {
    const [r, g, b, a] = data.subarray(at, at + 4);
    if (isMatch ? a === 255 && b > r + 40 && r > g + 30 : a > 0) found++;
  }
  return found / (data.length / 4);
}"""


TWO_FRAMES = "() => new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))"


def at(page: Page, name: str) -> dict[str, float]:
    """Middle and width of the first box of a function, in page coordinates, once all is drawn."""
    # What has just come to the page, a banner say, moves the graph with the next frame only: until
    # then nothing is to be drawn, and boxes are where they were.
    page.evaluate(TWO_FRAMES)
    found: dict[str, Any] = page.wait_for_function(
        "(name) => !flametap.graph.animation && !flametap.graph.frame"
        " && flametap.graph.locate(name)",
        arg=name,
    ).json_value()
    return found


def click_box(page: Page, name: str) -> None:
    box = at(page, name)
    page.mouse.click(box["x"], box["y"])


def painted_share(page: Page, *, only_matches: bool = False) -> float:
    """The share of the canvas that is painted; or painted in the violet of search matches."""
    share: float = page.evaluate(PIXELS, {"isMatch": only_matches})
    return share


def zoom_names(page: Page) -> list[str]:
    """The names from the root to the box that is zoomed to, as the breadcrumb shows them."""
    return page.locator("#crumbs .crumb").all_inner_texts()[1:]


def wait_for_revision(page: Page, revision: int) -> None:
    """Until a view of at least that revision has been painted."""
    page.wait_for_function(
        "(revision) => flametap.views.current?.revision >= revision && !flametap.graph.frame",
        arg=revision,
        polling=10,
    )


def found_by_axe(page: Page) -> list[dict[str, Any]]:
    """What axe-core finds; what it cannot decide, gradients say, does not count."""
    violations = Axe().run(page).response["violations"]
    return [
        {
            "rule": each["id"],
            "help": each["help"],
            "where": [node["html"][:160] for node in each["nodes"]][:4],
            "why": [node["failureSummary"][:300] for node in each["nodes"]][:2],
        }
        for each in violations
    ]
