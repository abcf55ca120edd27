"""Source lines, instructions and modules in the page."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Request, expect

from made_server import MadeServer
from page_probe import at, click_box, wait_for_revision

pytestmark = pytest.mark.needs("chromium")


def open_source(page: Page, name: str = "Worker::step") -> None:
    box = at(page, name)
    page.mouse.move(box["x"], box["y"])
    page.keyboard.press("s")
    expect(page.locator("#code-name")).to_contain_text(name)
    expect(page.locator("#code-rows .is-current")).to_be_visible()


def test_key_shows_the_source_of_what_is_pointed_at(page: Page) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(300)
    assert not [url for url in asked if "/lines" in url or "/instructions" in url]
    open_source(page)
    hottest = page.locator("#code-rows .is-current")
    expect(hottest).to_contain_text("item[131] = price[131] * amount; // <b>131</b>")
    expect(hottest.locator(".code-total")).to_have_text(re.compile(r"^[\d.]+ %$"))
    expect(page.locator("#code-place")).to_have_text("/build/orderd-2.4/src/worker.cc")
    expect(page.locator("#code-weight")).to_contain_text("of all")
    expect(page.locator("#code-list")).to_be_focused()
    heat = page.evaluate(
        """() => [...document.querySelectorAll('#code-rows .code-row')]
           .map((row) => Number(row.style.getPropertyValue('--heat')))"""
    )
    assert max(heat) == 1
    page.keyboard.press("Escape")
    expect(page.locator("#code")).to_be_hidden()


def test_keyboard_goes_from_hot_line_to_hot_line(page: Page) -> None:
    open_source(page)
    current = page.locator("#code-rows .is-current .code-line")
    expect(current).to_have_text("131")  # its call takes most of the time
    page.keyboard.press("Shift+N")
    expect(current).to_have_text("125")
    page.keyboard.press("Shift+N")
    page.keyboard.press("Shift+N")
    expect(current).to_have_text("120")
    page.keyboard.press("ArrowDown")
    expect(current).to_have_text("121")
    expect(page.locator("#announcement")).to_contain_text("121: item[121]")
    page.keyboard.press("End")
    expect(current).to_have_text("900")
    page.keyboard.press("Home")
    expect(page.locator("#code-rows .is-current")).to_contain_text("unknown line")


def test_instructions_are_a_tab(page: Page, made: MadeServer) -> None:
    open_source(page)
    page.locator("#code-tabs").get_by_text("Assembly").click()
    hottest = page.locator("#code-rows .is-current")
    expect(hottest).to_contain_text(re.compile(r"callq 0x40a1c0 <[\w:]+@plt>"))
    page.locator("#code-list").focus()
    page.keyboard.press("Home")
    address = made.layout.own("Worker::step", 124)
    row = page.locator("#code-rows .code-row").filter(has_text=f"{address:x}")
    expect(row).to_contain_text("addq %rdx, %rax")
    expect(row).to_contain_text("worker.cc:124")
    page.keyboard.press("Escape")
    page.keyboard.press("a")
    expect(page.locator("#code-list")).to_have_class(re.compile("is-assembly"))


def test_panel_follows_zoom_clock_and_growth(page: Page, made: MadeServer) -> None:
    open_source(page)
    weight = page.locator("#code-weight")
    before = weight.inner_text()
    page.evaluate("document.getElementById('code-list').scrollTop = 300")
    made.advance(30.0)
    wait_for_revision(page, made.revision)
    expect(weight).not_to_have_text(before)  # at the next refresh
    assert page.evaluate("document.getElementById('code-list').scrollTop") == 300
    click_box(page, "main")
    expect(page.locator("#code-name")).to_contain_text("main")
    before = weight.inner_text()
    page.keyboard.press("2")
    expect(weight).not_to_have_text(before)


def test_what_has_no_code_says_why(page: Page) -> None:
    box = (
        at(page, "libvendor.so+0x58a2")
        if page.evaluate("() => Boolean(flametap.graph.locate('libvendor.so+0x58a2'))")
        else None
    )
    if box is None:
        page.keyboard.press("f")
        row = (
            page.locator("#functions-rows .function-row")
            .filter(has_text="libvendor.so+0x58a2")
            .first
        )
        row.hover()
        row.locator(".code-link").click()
    else:
        page.mouse.move(box["x"], box["y"])
        page.keyboard.press("s")
    expect(page.locator("#code-notes")).to_have_text("no lines are known")
    page.locator("#code-tabs").get_by_text("Assembly").click()
    expect(page.locator("#code-notes")).to_contain_text("cannot be read")
    expect(page.locator("#code-list")).to_be_hidden()


def test_phone_opens_it_from_the_card_and_fits(
    open_page: Callable[..., Page], made: MadeServer
) -> None:
    page = open_page(viewport={"width": 400, "height": 800}, has_touch=True, color_scheme="dark")
    box = at(page, "worker_main")
    page.touchscreen.tap(box["x"], box["y"])
    page.locator("#details").get_by_role("button", name="Source").tap()
    panel = page.locator("#code")
    expect(panel).to_be_visible()
    area = panel.bounding_box()
    assert area is not None
    assert (area["x"], area["width"]) == (0, 400)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.locator("#code-next").tap()
    page.get_by_role("button", name="Close").locator("visible=true").tap()
    expect(panel).to_be_hidden()


class TestLongFunction:
    @pytest.fixture
    def made(self) -> MadeServer:
        made = MadeServer(5_000, instructions=20_000)
        made.advance(5.0)
        return made

    def test_only_what_is_in_sight_is_drawn(self, page: Page, made: MadeServer) -> None:
        box = at(page, "Worker::step")
        page.mouse.move(box["x"], box["y"])
        page.keyboard.press("a")
        expect(page.locator("#code-rows .is-current")).to_be_visible()
        assert page.locator("#code-rows .code-row").count() < 120
        page.keyboard.press("End")
        last = made.layout.start("Worker::step") + 4 * (20_000 - 1)
        expect(page.locator("#code-rows .is-current .code-line")).to_have_text(f"{last:x}")
        assert page.locator("#code-rows .code-row").count() < 120


def test_modules_share_the_profile_while_the_panel_is_open(page: Page, made: MadeServer) -> None:
    asked: list[Request] = []
    page.on("request", lambda request: asked.append(request) if "symbols?" in request.url else None)
    made.advance(1.0)
    page.wait_for_timeout(1300)
    assert asked == []
    page.keyboard.press("q")
    rows = page.locator("#quality-symbols li")
    row = rows.filter(has_text="orderd")
    expect(row).to_contain_text(re.compile(r"100 % with function names, 9[78]\.\d % with lines"))
    expect(rows.filter(has_text="libz.so.1")).to_contain_text("install its -dbgsym package")
    expect(page.locator("#quality-symbols")).to_contain_text("of the CPU time is in functions")
    shares = [float(text.split()[0]) for text in rows.locator(".number").all_inner_texts() if text]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(100, abs=1)
    page.keyboard.press("2")
    expect(page.locator("#quality-symbols")).to_contain_text("of the Wall time is in functions")
