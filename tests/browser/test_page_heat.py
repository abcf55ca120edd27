"""The heat maps below the timeline: what they show, and the ranges that a drag on them chooses."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from made_server import MadeServer

pytestmark = pytest.mark.needs("chromium")

DRAWN = "() => flametap.timeline.heat.heat && !flametap.timeline.frame"


@pytest.fixture
def made() -> MadeServer:
    made = MadeServer(500)
    made.advance(20.0)
    return made


@pytest.fixture
def page(open_page: Callable[..., Page]) -> Page:
    page = open_page()
    page.locator("#heat-button").click()
    page.wait_for_function(DRAWN)
    return page


def place(page: Page, second: float, share: float) -> tuple[float, float]:
    """Where a second is, and a share of the height from the bottom."""
    box = page.locator("#heat-plot").bounding_box()
    assert box
    x = box["x"] + box["width"] * second / 20
    return x, box["y"] + box["height"] * (1 - share)


def drag(page: Page, start: tuple[float, float], end: tuple[float, float]) -> None:
    page.mouse.move(*place(page, *start))
    page.mouse.down()
    page.mouse.move(*place(page, *end), steps=4)
    page.mouse.up()


def painted(page: Page) -> float:
    share: float = page.evaluate(
        """() => {
          const canvas = document.getElementById('heat-cells');
          const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
          return data.filter((each, at) => at % 4 === 3 && each > 0).length / (data.length / 4);
        }"""
    )
    return share


def test_each_column_is_a_second_and_a_drag_chooses_a_part(page: Page) -> None:
    assert painted(page) > 0.5
    assert page.evaluate("flametap.timeline.heat.heat.columns") == 20
    # From the middle of second 3 to the first quarter of second 5.
    drag(page, (3.5, 0.5), (5.5, 0.24))
    start, end = map(int, page.evaluate("flametap.getState().range").split("-"))
    assert 3450 < start < 3520
    assert 5200 < end < 5300
    page.keyboard.down("Shift")
    drag(page, (11.5, 0.1), (11.5, 0.4))
    page.keyboard.up("Shift")
    start, end = map(int, page.evaluate("flametap.getState().compare").split("-"))
    assert 11_000 < start < 11_150
    assert 11_350 < end < 11_500
    page.mouse.move(*place(page, 0.5, 0.5))
    expect(page.locator("#heat-text")).to_contain_text("CPUs busy")


def test_waits_are_shown_by_cause(page: Page) -> None:
    page.locator("#heat-kind").get_by_text("Waits").click()
    page.wait_for_function(
        "() => flametap.timeline.heat.heat?.rows === 60 && !flametap.timeline.frame"
    )
    causes = page.evaluate("flametap.timeline.heat.heat.planes.map(([name]) => name).sort()")
    assert causes == ["io", "lock", "poll", "queued", "sleep", "work"]
    assert 0.005 < painted(page) < 0.9
    drag(page, (4, 0.2), (8, 0.9))
    start, end = map(int, page.evaluate("flametap.getState().range").split("-"))
    assert (round(start, -2), round(end, -2)) == (4000, 8000)
    # 10 ms: 13.3 doublings of a microsecond, two rows each, of 60.
    page.mouse.move(*place(page, 4.5, 26.3 / 60))
    expect(page.locator("#heat-text")).to_contain_text("waits of ")


def test_heat_map_is_in_the_address_and_follows_time_and_threads(
    open_page: Callable[..., Page], made: MadeServer
) -> None:
    page = open_page("#heat=waits&threads=3")
    page.wait_for_function(DRAWN)
    page.wait_for_function("() => flametap.timeline.heat.heat.rows === 60")
    few = page.evaluate("flametap.timeline.heat.heat.most")
    page.locator("#timeline-names").get_by_role("button", name="worker-2").click()
    page.wait_for_function("(few) => flametap.timeline.heat.heat.most > few", arg=few)
    made.advance(10.0)
    page.wait_for_function("() => flametap.timeline.heat.heat.column(29900) !== null")
    page.locator("#heat-button").click()
    expect(page.locator("#heat")).to_be_hidden()
    assert page.evaluate("location.hash") == ""
