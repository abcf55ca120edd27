"""The timeline: choosing a range by pointer and keyboard, what follows it, and what it says."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Request, expect

from flametap.tree.selection import Selection, Span
from made_server import MadeServer
from page_probe import TWO_FRAMES, wait_for_revision

pytestmark = pytest.mark.needs("chromium")

DRAWN = "() => flametap.timeline.lanes && !flametap.timeline.frame && !flametap.timeline.isStale"


def drawn(page: Page) -> None:
    page.wait_for_function(DRAWN)
    page.evaluate(TWO_FRAMES)


def drag(page: Page, start: float, end: float, *, y: float = 70, with_shift: bool = False) -> None:
    """Drag between two shares of the plot's width."""
    drawn(page)
    box = page.locator("#timeline-plot").bounding_box()
    assert box
    if with_shift:
        page.keyboard.down("Shift")
    page.mouse.move(box["x"] + start * box["width"], box["y"] + y)
    page.mouse.down()
    page.mouse.move(box["x"] + end * box["width"], box["y"] + y, steps=4)
    page.mouse.up()
    if with_shift:
        page.keyboard.up("Shift")


def state(page: Page, name: str) -> str:
    value: str = page.evaluate("(name) => flametap.getState()[name]", name)
    return value


def range_ms(page: Page, name: str = "range") -> tuple[int, int]:
    start, end = state(page, name).split("-")
    return int(start), int(end)


def shown_total_ns(page: Page) -> int:
    """The weight of the shown view, once it is that of the present range."""
    page.wait_for_function("() => flametap.views.current.asked.range === flametap.getState().range")
    total: int = page.evaluate("flametap.views.current.total_ns")
    return total


def test_drag_chooses_a_range_that_all_views_obey(page: Page, made: MadeServer) -> None:
    asked: list[str] = []

    def note(request: Request) -> None:
        if "/api/" in request.url and "range=" in request.url:
            asked.append(request.url.split("/api/")[1].partition("?")[0])

    whole_ns = shown_total_ns(page)
    page.keyboard.press("q")
    page.on("request", note)
    drag(page, 0.2, 0.4)
    start, end = range_ms(page)
    assert 900 < start < 1100
    assert 1900 < end < 2100
    counted = Selection(span=Span(start * 10**6, end * 10**6))
    assert shown_total_ns(page) == made.views.tree(counted).total_ns[0]
    assert shown_total_ns(page) < whole_ns / 2
    expect(page.locator("#timeline-live")).to_be_visible()
    page.wait_for_function("() => !location.hash.includes('undefined')")
    assert {"view", "symbols"} <= set(asked)
    # A pinned range stays while the recording goes on; its weight does not grow much.
    made.advance(5.0)
    wait_for_revision(page, made.revision)
    assert range_ms(page) == (start, end)
    page.mouse.move(0, 0)
    expect(page.locator("#timeline-text")).to_contain_text("0:01.0")
    page.locator("#timeline-live").click()
    assert state(page, "range") == ""
    expect(page.locator("#timeline-live")).to_be_hidden()
    page.go_back()
    assert range_ms(page) == (start, end)


def test_second_drag_with_shift_compares(page: Page) -> None:
    drag(page, 0.1, 0.3)
    drag(page, 0.9, 0.6, with_shift=True)
    assert range_ms(page)[1] < range_ms(page, "compare")[0]
    expect(page.locator("#timeline-text")).to_contain_text("0:0")
    page.locator("#timeline-plot").focus()
    page.keyboard.press("Escape")
    assert state(page, "compare") == ""
    assert range_ms(page)[0] > 0


def test_last_seconds_roll_with_the_recording(page: Page, made: MadeServer) -> None:
    made.advance(20.0)
    page.locator("#timeline-range").get_by_text("10 s").click()
    assert state(page, "range") == "last10000"
    before = shown_total_ns(page)
    made.advance(10.0)
    wait_for_revision(page, made.revision)
    after = page.evaluate("flametap.views.current.total_ns")
    assert after == pytest.approx(before, rel=0.2)
    page.wait_for_function("() => flametap.timeline.lanes.durationMs === 35000")
    ranges = page.evaluate("flametap.timeline.ranges()")
    assert (ranges[0]["from"], ranges[0]["to"]) == (25_000, 35_000)
    # A range that is pinned meanwhile returns to it.
    drag(page, 0.2, 0.4)
    page.locator("#timeline-live").click()
    assert state(page, "range") == "last10000"


def test_keyboard_chooses_moves_widens_and_clears(page: Page) -> None:
    plot = page.locator("#timeline-plot")
    drawn(page)
    plot.focus()
    page.keyboard.press("ArrowLeft")
    assert range_ms(page) == (4500, 5000)
    page.keyboard.press("ArrowLeft")
    assert range_ms(page) == (4400, 4900)
    page.keyboard.press("Shift+ArrowRight")
    assert range_ms(page) == (4400, 5000)
    expect(page.locator("#announcement")).to_contain_text("Range 0:04.40")
    page.keyboard.press("c")
    assert range_ms(page, "compare") == (3800, 4400)
    page.keyboard.press("Escape")
    assert state(page, "compare") == ""
    page.keyboard.press("Escape")
    assert state(page, "range") == ""
    assert plot.evaluate("(plot) => plot === document.activeElement")
    page.keyboard.press("f")  # the page's keys work here, too
    assert state(page, "tab") == "functions"


def test_wheel_zooms_the_time_axis_and_lanes_get_finer(page: Page, made: MadeServer) -> None:
    made.advance(30.0)
    page.wait_for_function("() => flametap.timeline.lanes?.durationMs === 35000")
    drawn(page)
    before = page.evaluate("flametap.timeline.lanes.bins.step")
    box = page.locator("#timeline-plot").bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 80)
    for _ in range(4):
        page.mouse.wheel(0, -150)
    page.wait_for_function("(before) => flametap.timeline.lanes.bins.step < before / 2", arg=before)
    shown = page.evaluate("flametap.timeline.view")
    assert shown["from"] < 17_500 < shown["to"]
    page.locator("#timeline-live").click()
    page.wait_for_function("() => flametap.timeline.shown === null")


def test_hover_says_moment_thread_and_state(page: Page) -> None:
    drawn(page)
    box = page.locator("#timeline-plot").bounding_box()
    assert box
    middle = box["x"] + box["width"] / 2
    page.mouse.move(middle, box["y"] + 20)
    expect(page.locator("#timeline-text")).to_contain_text("CPUs busy")
    page.mouse.move(middle, box["y"] + 62)
    expect(page.locator("#timeline-text")).to_contain_text("orderd: ")
    expect(page.locator("#timeline-text")).to_contain_text(" %")
    page.mouse.move(middle, box["y"] - 400)
    expect(page.locator("#timeline-legend")).to_be_visible()


def test_name_of_a_lane_chooses_the_thread(page: Page) -> None:
    drawn(page)
    name = page.locator("#timeline-names").get_by_role("button", name="worker-2")
    name.click()
    assert page.evaluate("flametap.getState().threads") == [3]
    expect(name).to_have_attribute("aria-pressed", "true")
    name.click()
    assert page.evaluate("flametap.getState().threads") == []


def test_more_threads_are_shown_and_that_is_remembered(
    open_page: Callable[..., Page],
) -> None:
    page = open_page()
    drawn(page)
    names = page.locator("#timeline-names button")
    expect(names).to_have_count(4)
    page.locator("#timeline-size").click()
    expect(names).to_have_count(12)
    page.reload()
    expect(names).to_have_count(12)
    page.locator("#timeline-size").click()
    expect(names).to_have_count(4)


def test_updates_keep_the_names_and_fetch_only_newer_bins(page: Page, made: MadeServer) -> None:
    made.advance(25.0)
    page.wait_for_function("() => flametap.timeline.lanes?.durationMs === 30000")
    drawn(page)
    sizes: list[tuple[str, int]] = []
    page.on(
        "response",
        lambda response: (
            sizes.append((response.url, len(response.body())))
            if "/lanes?" in response.url
            else None
        ),
    )
    page.evaluate("document.querySelector('#timeline-names button').id = 'marked'")
    for at in range(1, 4):
        made.advance(1.0)
        page.wait_for_function(
            "(ms) => flametap.timeline.lanes.durationMs === ms", arg=30_000 + 1000 * at
        )
    assert page.locator("#marked").count() == 1
    parts = [url for url, _ in sizes if "level=" in url]
    assert parts
    bins, end = page.evaluate(
        "[flametap.timeline.lanes.bins.count, flametap.timeline.lanes.bins.end]"
    )
    assert bins == page.evaluate("flametap.timeline.lanes.lanes[0].shares.cpu.length")
    assert end >= 33_000


def test_address_restores_ranges(open_page: Callable[..., Page]) -> None:
    page = open_page("#range=1000-2000&compare=3000-4000")
    drawn(page)
    kinds = {each["kind"]: each["from"] for each in page.evaluate("flametap.timeline.ranges()")}
    assert kinds == {"range": 1000, "compare": 3000}


def test_touch_drag_chooses_too(open_page: Callable[..., Page]) -> None:
    page = open_page(viewport={"width": 400, "height": 800}, has_touch=True)
    drawn(page)
    page.evaluate(
        """() => {
          const plot = document.getElementById('timeline-plot');
          const box = plot.getBoundingClientRect();
          plot.setPointerCapture = () => {};
          const send = (type, share) => plot.dispatchEvent(new PointerEvent(type, {
            pointerId: 5, pointerType: 'touch', bubbles: true,
            button: type === 'pointermove' ? -1 : 0,
            clientX: box.left + share * box.width, clientY: box.top + 80,
          }));
          send('pointerdown', 0.2);
          for (const share of [0.3, 0.6]) send('pointermove', share);
          send('pointerup', 0.6);
        }"""
    )
    start, end = range_ms(page)
    assert 950 < start < 1050
    assert 2900 < end < 3100
