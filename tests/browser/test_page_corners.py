"""The page in the corners: idle or ended processes, confusing names, small screens, large fonts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from flametap.model import ChildProcess
from made_server import MadeServer
from page_probe import TWO_FRAMES, at

pytestmark = pytest.mark.needs("chromium")


def test_a_drag_is_no_click(page: Page) -> None:
    box = at(page, "worker_main")
    page.mouse.move(box["x"] - 200, box["y"])
    page.mouse.down()
    page.mouse.move(box["x"] + 200, box["y"], steps=4)
    page.mouse.up()
    page.evaluate(TWO_FRAMES)
    assert page.evaluate("flametap.getState().zoom.length") == 0


def test_card_goes_with_the_graph(page: Page) -> None:
    page.locator("#scroller").focus()
    for key in ("ArrowUp", "ArrowUp"):
        page.keyboard.press(key)
    expect(page.locator("#details")).to_be_visible()
    page.keyboard.press("f")
    expect(page.locator("#functions-rows .link").first).to_be_visible()
    expect(page.locator("#details")).to_be_hidden()
    page.keyboard.press("f")
    expect(page.locator("#details")).to_be_visible()


def test_after_the_end_no_thread_runs(page: Page, made: MadeServer) -> None:
    made.end("the process exited")
    expect(page.locator("#state-text")).to_have_text("Ended")
    page.keyboard.press("t")
    expect(page.locator("#threads-rows .thread-row").first).to_be_visible()
    assert set(page.locator("#threads-rows .thread-waits").all_inner_texts()) <= {"–", "ended"}


class TestOneThread:
    @pytest.fixture
    def made(self) -> MadeServer:
        made = MadeServer(400, threads=["orderd"])
        made.advance(5.0)
        return made

    def test_it_is_not_all_threads(self, page: Page) -> None:
        expect(page.locator("#threads-label")).to_have_text("1 thread")

    def test_an_id_that_cannot_be_shows_all(self, open_page: Callable[..., Page]) -> None:
        page = open_page("#threads=4294967296")
        assert page.evaluate("flametap.getState().threads.length") == 0
        expect(page.locator("#toast")).to_be_hidden()


class TestIdle:
    @pytest.fixture
    def made(self) -> MadeServer:
        made = MadeServer(400, load=0)
        made.controls.started = [
            ChildProcess(4711, "cc1plus", 12_300_000_000),
            ChildProcess(4712, "sh", 10_000_000),
        ]
        made.advance(5.0)
        return made

    def test_idle_process_offers_its_waits_and_its_busy_child(
        self, open_page: Callable[..., Page]
    ) -> None:
        page = open_page(ready="() => globalThis.flametap?.views.current")
        expect(page.locator("#empty")).to_contain_text("No CPU time yet")
        expect(page.locator("#empty")).to_contain_text("Its child cc1plus has used 12.3 s")
        expect(page.locator("#empty code")).to_have_text("flametap 4711")
        page.get_by_role("button", name="Show what they wait for").click()
        expect(page.locator("#empty")).to_be_hidden()
        assert at(page, "[futex]")["width"] > 100

    def test_what_hides_everything_is_undone_by_a_button(
        self, open_page: Callable[..., Page]
    ) -> None:
        page = open_page(
            "#clock=wall&threads=999", ready="() => globalThis.flametap?.views.current"
        )
        page.locator("#empty").get_by_role("button", name="All threads").click()
        expect(page.locator("#empty")).to_be_hidden()


HOSTILE = {
    "worker_main": "pay\u202efdp.exe",
    "main": "\U0001f469\u200d\U0001f467" * 40,
    "Worker::step": "<b>bold</b>",
}


class TestHostileNames:
    @pytest.fixture
    def made(self) -> MadeServer:
        made = MadeServer(2_000, names=HOSTILE)
        made.advance(5.0)
        return made

    def test_names_cannot_reorder_other_text(self, page: Page) -> None:
        page.keyboard.press("f")
        row = page.locator("#functions-rows .function-row").filter(has_text="pay")
        expect(row).to_contain_text("pay‹202E›fdp.exe")
        assert "\u202e" not in page.locator("body").inner_text()
        expect(page.locator("#functions-rows").get_by_text("<b>bold</b>")).to_be_visible()
        row.get_by_role("button").first.click()  # and is found by its real name
        expect(page.locator("#search-result")).to_contain_text("1 match")


def test_functions_do_not_overlap_on_a_phone(open_page: Callable[..., Page]) -> None:
    page = open_page("#tab=functions", viewport={"width": 400, "height": 800})
    expect(page.locator("#functions-rows .link").first).to_be_visible()
    overlaps = page.evaluate(
        """() => [...document.querySelectorAll('#functions-rows .weight')].filter((weight) => {
          const [own, share] = [...weight.children].map((each) => {
            const range = document.createRange();
            range.selectNodeContents(each);
            return range.getBoundingClientRect();
          });
          return own.right > share.left || share.right > 400;
        }).length"""
    )
    assert overlaps == 0


def test_text_follows_the_font_size_of_the_browser(open_page: Callable[..., Page]) -> None:
    page = open_page()
    small = page.evaluate("flametap.graph.rows.rowHeight")
    page.evaluate("document.documentElement.style.fontSize = '24px'")
    page.evaluate("flametap.graph.layOut()")
    assert page.evaluate("flametap.graph.rows.rowHeight") == pytest.approx(1.5 * small, abs=1)
    sizes = page.evaluate(
        """() => ['body', '.button', '#health', '.crumb', '#threads-label'].map(
            (each) => parseFloat(getComputedStyle(document.querySelector(each)).fontSize))"""
    )
    assert min(sizes) >= 17
