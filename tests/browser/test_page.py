"""The page as its user sees it: zoom, search, threads, clocks, panels, keyboard."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from made_server import MadeServer
from page_probe import at, click_box, painted_share, zoom_names
from running import wait_until

pytestmark = pytest.mark.needs("chromium")


def test_graph_is_drawn_with_names_and_the_process_is_named(page: Page) -> None:
    expect(page).to_have_title("orderd (41873) · flametap")
    expect(page.locator("#state-text")).to_have_text("Recording")
    assert at(page, "worker_main")["width"] > 300
    assert painted_share(page) > 0.05


def test_click_zooms_and_the_breadcrumb_leads_back(page: Page) -> None:
    before = at(page, "worker_main")["width"]
    click_box(page, "worker_main")
    page.wait_for_function("() => flametap.views.current.zoom.path.length === 2")
    expect(page.locator("#crumbs")).to_have_text("all›start_thread›worker_main")
    page.wait_for_function("() => !flametap.graph.animation")
    assert at(page, "worker_main")["width"] > before * 1.2
    click_box(page, "start_thread")  # an ancestor
    page.wait_for_function("() => flametap.views.current.zoom.path.length === 1")
    page.go_back()
    page.wait_for_function("() => flametap.views.current.zoom.path.length === 2")
    page.get_by_role("button", name="Reset zoom").click()
    page.wait_for_function("() => flametap.views.current.zoom.path.length === 0")
    assert at(page, "worker_main")["width"] == pytest.approx(before, abs=2)


def test_hover_tells_all_about_a_box(page: Page) -> None:
    box = at(page, "Worker::step")
    page.mouse.move(box["x"], box["y"])
    card = page.locator("#details")
    expect(card).to_be_visible()
    expect(card).to_contain_text("Worker::step(std::string_view, unsigned long)")
    expect(card).to_contain_text("orderd")
    expect(card).to_contain_text(re.compile(r"worker\.cc:\d+"))
    expect(card).to_contain_text(re.compile(r"Self\s*[\d.]+ (s|ms)"))
    expect(card).to_contain_text("Stack reaches its root")
    page.mouse.move(5, 5)
    expect(card).to_be_hidden()


def test_search_says_how_much_matches_and_highlights_it(page: Page) -> None:
    assert painted_share(page, only_matches=True) == 0
    page.keyboard.press("/")
    page.keyboard.type("malloc")
    expect(page.locator("#search-result")).to_have_text(re.compile(r"^[\d.]+ % in \d+ match(es)?$"))
    wait_until(lambda: painted_share(page, only_matches=True) > 0, "matches to be painted", 20)
    expect(page).to_have_url(re.compile("q=malloc"))
    page.keyboard.press("Escape")
    expect(page.locator("#search-result")).to_be_empty()
    assert not re.search("q=", page.url)


def test_bad_pattern_is_said_so_and_the_graph_stays(page: Page) -> None:
    page.locator("#search").fill("re:(malloc")
    expect(page.locator("#search-result")).to_contain_text("bad pattern: missing )")
    expect(page.locator("#search")).to_have_attribute("aria-invalid", "true")
    assert at(page, "worker_main") is not None


def test_n_goes_from_match_to_match_and_zooms_to_narrow_ones(page: Page) -> None:
    page.locator("#search").fill("re:^_int_malloc$")
    expect(page.locator("#search-result")).to_contain_text("match")
    page.locator("#search").blur()
    seen: list[str] = []
    for _ in range(4):
        page.keyboard.press("n")
        page.wait_for_function(
            """(seen) => flametap.graph.selected() !== null && !flametap.graph.animation
               && !seen.includes(flametap.graph.selectedPath.join('.'))""",
            arg=seen,
        )
        seen.append(page.evaluate("flametap.graph.selectedPath.join('.')"))
    expect(page.locator("#search-result")).to_contain_text("4 of")
    page.keyboard.press("Shift+N")
    expect(page.locator("#search-result")).to_contain_text("3 of")
    expect(page.locator("#details")).to_contain_text("_int_malloc")


def test_clocks_count_different_things(page: Page) -> None:
    page.keyboard.press("3")
    page.wait_for_function("() => flametap.views.current.functions.name.includes('[futex]')")
    expect(page.get_by_role("button", name="Off-CPU")).to_have_attribute("aria-pressed", "true")
    box = at(page, "[futex]")
    page.mouse.move(box["x"], box["y"])
    expect(page.locator("#details")).to_contain_text("system call")
    page.get_by_role("button", name="CPU", exact=True).click()
    page.wait_for_function("() => !flametap.views.current.functions.name.includes('[futex]')")


def test_threads_are_chosen_and_told_by_what_they_wait_in(page: Page) -> None:
    page.get_by_role("button", name=re.compile("All .* threads")).click()
    row = page.locator("#threads-rows .thread-row").filter(has_text="41873")
    expect(row).to_contain_text("orderd")
    expect(row).to_contain_text("epoll_wait")
    row.locator(".link").click()
    page.wait_for_function("() => !flametap.views.current.functions.name.includes('start_thread')")
    expect(page.locator("#threads-label")).to_have_text("orderd (41873)")
    weights = page.evaluate(
        """() => [...document.querySelectorAll('#threads-rows .track .fill')]
           .map((bar) => parseFloat(bar.style.width))"""
    )
    assert weights == sorted(weights, reverse=True)
    page.locator("#threads-rows .thread-row").nth(1).locator("input").check()
    page.wait_for_function("() => flametap.getState().threads.length === 2")
    page.locator("#threads-panel").get_by_role("button", name="All threads").click()
    page.keyboard.press("Escape")
    expect(page.locator("#threads-panel")).to_be_hidden()
    page.wait_for_function("() => flametap.getState().threads.length === 0")


def test_icicle_turns_the_graph_over(page: Page) -> None:
    flame = [at(page, name)["y"] for name in ("_start", "main")]
    assert flame[0] > flame[1]
    page.keyboard.press("i")
    page.wait_for_function("() => flametap.getState().layout === 'icicle'")
    icicle = [at(page, name)["y"] for name in ("_start", "main")]
    assert icicle[0] < icicle[1]


def test_arrow_keys_walk_the_boxes_and_are_read_out(page: Page) -> None:
    page.locator("#scroller").focus()
    for key in ("ArrowUp", "ArrowUp", "ArrowRight"):
        page.keyboard.press(key)
    selected = page.evaluate("flametap.graph.view.functionOf(flametap.graph.selected()).name")
    assert selected in ("_start", "start_thread")
    expect(page.locator("#announcement")).to_contain_text(f"{selected}, ")
    expect(page.locator("#details")).to_contain_text(selected)
    page.keyboard.press("Enter")
    page.wait_for_function("() => flametap.views.current.zoom.path.length === 1")
    page.keyboard.press("Backspace")
    page.wait_for_function("() => flametap.views.current.zoom.path.length === 0")


def test_functions_are_a_table_too(page: Page) -> None:
    page.keyboard.press("f")
    rows = page.locator("#functions-rows .function-row")
    expect(rows.filter(has_text="worker_main")).to_have_count(1)
    page.get_by_role("button", name="Total").click()
    expect(rows.first).to_contain_text(re.compile("start_thread|_start"))
    expect(page.locator("#functions-titles > *").nth(1)).to_have_attribute(
        "aria-sort", "descending"
    )
    rows.get_by_role("button", name="Worker::step", exact=True).click()
    expect(page.locator("#search")).to_have_value("re:^Worker::step$")
    expect(page.locator("#graph")).to_be_visible()


def test_quality_panel_tells_losses_verdicts_symbols_and_cost(page: Page) -> None:
    expect(page.locator("#health")).to_contain_text("complete stacks")
    expect(page.locator("#health")).to_contain_text("nothing lost")
    width = page.evaluate("flametap.graph.width")
    page.keyboard.press("q")
    panel = page.locator("#quality")
    expect(panel).to_contain_text("No unwind information")
    expect(panel).to_contain_text("libvendor.so")
    expect(panel).to_contain_text("give its debug file with --symbol-dir")
    expect(panel).to_contain_text("None: data dropped")
    expect(panel.locator("#quality-trust")).to_contain_text(
        re.compile(r"Fully: 99\.\d % complete stacks")
    )
    expect(panel.locator("#quality-trust")).to_contain_text("percentage points")
    ways = panel.locator("details.zeros").first
    ways.locator("summary").click()
    expect(ways).to_contain_text("samples dropped")
    expect(panel).to_contain_text("median / 99th percentile")
    panel.get_by_text("All counters by name").click()
    expect(panel.get_by_text("signals_handled", exact=True)).to_be_visible()
    page.wait_for_function("(width) => flametap.graph.width < width", arg=width)
    page.keyboard.press("q")
    expect(panel).to_be_hidden()


def test_losses_reach_the_foot_of_the_page(page: Page, made: MadeServer) -> None:
    made.counters["intervals_lost"] = 1234
    made.advance(0.1)
    fact = page.locator("#health .fact").filter(has_text="lost")
    expect(fact).to_have_text("1\u202f234 lost")
    expect(fact.locator(".dot")).to_have_class("dot bad")


def test_pause_and_resume(page: Page, made: MadeServer) -> None:
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#state-text")).to_have_text("Paused")
    assert made.controls.state == "paused"
    page.keyboard.press("p")
    expect(page.locator("#state-text")).to_have_text("Recording")


def test_url_holds_the_view(open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.keyboard.press("2")
    page.keyboard.press("i")
    page.wait_for_function("() => flametap.getState().layout === 'icicle'")
    click_box(page, "start_thread")
    page.wait_for_function("() => flametap.views.current.zoom.path.length === 1")
    page.locator("#search").fill("alloc")
    expect(page.locator("#search-result")).to_contain_text("match")
    page.reload()
    page.wait_for_function("() => globalThis.flametap?.views.current?.search?.count > 0")
    assert zoom_names(page) == ["start_thread"]
    expect(page.locator("#search")).to_have_value("alloc")
    expect(page.get_by_role("button", name="Wall")).to_have_attribute("aria-pressed", "true")


def test_theme_follows_the_system_until_it_is_chosen(open_page: Callable[..., Page]) -> None:
    page = open_page(color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(background)
    page.keyboard.press("d")
    light = page.evaluate(background)
    assert (dark, light) == ("rgb(19, 19, 24)", "rgb(255, 255, 255)")
    page.reload()
    page.wait_for_function("() => globalThis.flametap?.views.current")
    assert page.evaluate(background) == light


def test_help_lists_the_keys(page: Page) -> None:
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    expect(page.locator("#help")).to_contain_text("next, previous match")
    listed = {each.upper() for each in page.locator("#help kbd").all_inner_texts()} | {"ESCAPE"}
    assert [key for key in page.evaluate("flametap.keys") if key.upper() not in listed] == []
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_phone_has_no_sideways_scroll_and_a_tap_tells_before_it_zooms(
    open_page: Callable[..., Page], scheme: str
) -> None:
    page = open_page(
        viewport={"width": 400, "height": 800}, has_touch=True, is_mobile=True, color_scheme=scheme
    )
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    outside = page.evaluate(
        """() => [...document.querySelectorAll('button, input')]
            .filter((each) => each.offsetParent && !each.closest('.crumbs, .health'))
            .filter((each) => each.getBoundingClientRect().right > 400.5)
            .map((each) => each.id)"""
    )
    assert outside == []
    box = at(page, "worker_main")
    page.touchscreen.tap(box["x"], box["y"])
    expect(page.locator("#details")).to_contain_text("worker_main")
    page.locator("#details").get_by_role("button", name="Zoom in").click()
    page.wait_for_function("() => flametap.views.current.zoom.path.length === 2")
    page.locator("#health").click()
    expect(page.locator("#quality")).to_be_in_viewport()
    page.locator("#quality-close").click()
    page.locator("#threads-button").click()
    expect(page.locator("#threads-panel")).to_be_in_viewport()
