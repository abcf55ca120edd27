"""Who calls what, and less to look at: a box's menu, chips, sandwich, tree table, links."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from flametap.tree.selection import EVERYTHING
from flametap.web.server import serve
from made_server import MadeServer
from page_probe import at, found_by_axe, zoom_names
from python_server import PythonServer
from wide_server import WideServer

pytestmark = pytest.mark.needs("chromium")

SHOWN = "() => flametap.views.current.functions.name"
HALVES = "() => flametap.shaping.sandwich.halves.map(({views}) => views.current)"


def changing_server() -> MadeServer:
    """A server of which the second ten seconds differ from the first."""
    more = {"malloc": 3.0, "_int_malloc": 3.0, "sysmalloc": 3.0, "snprintf": 0.1}
    made = MadeServer(3_000, changes={10: more})
    made.advance(20.0)
    return made


def point_at(page: Page, name: str) -> None:
    box = at(page, name)
    page.mouse.move(box["x"], box["y"])
    page.wait_for_function("() => flametap.graph.hovered !== null")


def wait_for_names(page: Page, *, shown: str = "", hidden: str = "") -> None:
    page.wait_for_function(
        f"([shown, hidden]) => {{ const names = ({SHOWN})();"
        " return (!shown || names.includes(shown)) && !names.includes(hidden); }",
        arg=[shown, hidden],
    )


def chips(page: Page) -> list[str]:
    return page.locator("#chips .chip").all_inner_texts()


def test_menu_of_a_box_hides_and_a_chip_brings_back(page: Page) -> None:
    box = at(page, "Worker::step")
    page.mouse.click(box["x"], box["y"], button="right")
    menu = page.get_by_role("menu", name="Worker::step")
    expect(menu).to_be_visible()
    menu.get_by_role("menuitem", name="Hide it").click()
    wait_for_names(page, shown="worker_main", hidden="Worker::step")
    expect(page).to_have_url(re.compile(r"shape=hide:Worker::step@orderd$"))
    expect(page.locator("#chips")).to_have_text("HiddenWorker::step×")
    page.reload()
    page.wait_for_function("() => globalThis.flametap?.views.current?.total_ns > 0")
    wait_for_names(page, shown="worker_main", hidden="Worker::step")
    page.get_by_role("button", name="Undo: Hidden Worker::step").click()
    wait_for_names(page, shown="Worker::step")
    expect(page.locator("#chips")).to_be_hidden()
    page.go_back()
    wait_for_names(page, shown="worker_main", hidden="Worker::step")


def test_keyboard_alone_folds_a_module(page: Page) -> None:
    page.locator("#scroller").focus()
    for key in ("ArrowUp", "ArrowUp"):
        page.keyboard.press(key)
    page.keyboard.press("m")
    menu = page.get_by_role("menu")
    expect(menu.get_by_role("menuitem").first).to_be_focused()
    page.keyboard.press("ArrowUp")  # from the first to the last
    expect(menu.get_by_role("menuitem").last).to_be_focused()
    page.keyboard.press("Escape")
    expect(menu).to_be_hidden()
    expect(page.locator("#scroller")).to_be_focused()
    page.keyboard.press("m")
    page.keyboard.press("k")
    page.wait_for_function(f"() => ({SHOWN})().some((name) => /^\\[.*\\]$/.test(name))")
    assert len(chips(page)) == 1


@pytest.mark.nightly
def test_single_keys_act_on_the_box_under_the_mouse(page: Page) -> None:
    point_at(page, "Worker::step")
    page.keyboard.press("x")
    wait_for_names(page, shown="worker_main", hidden="Worker::step")
    point_at(page, "main")
    page.keyboard.press("o")
    wait_for_names(page, shown="main", hidden="_start")
    assert [text.replace("\n", "") for text in chips(page)] == [
        "Left outWorker::step×",
        "Onlymain×",
    ]
    page.get_by_role("button", name="Undo all").click()
    wait_for_names(page, shown="_start")


def test_sandwich_has_callers_above_and_callees_below(page: Page, made: MadeServer) -> None:
    point_at(page, "Worker::step")
    page.keyboard.press("c")
    page.wait_for_function(f"() => ({HALVES})().every((view) => view?.total_ns > 0)")
    expect(page).to_have_url(re.compile("sandwich=Worker::step@orderd"))
    above, below = page.evaluate(
        f"() => ({HALVES})().map(({{functions, total_ns}}) => [functions.name, total_ns])"
    )
    assert above[1] == below[1]
    assert {"worker_main", "start_thread"} <= set(above[0])
    assert "worker_main" not in below[0]
    expect(page.locator(".half-title").first).to_contain_text(re.compile(r"[\d.]+ % of all"))
    # A box in a half becomes the middle; Back returns.
    page.evaluate(
        """() => { const [{graph}] = flametap.shaping.sandwich.halves;
           graph.scroller.focus(); }"""
    )
    for key in ("ArrowUp", "ArrowUp", "ArrowUp", "Enter"):
        page.keyboard.press(key)
    expect(page).to_have_url(re.compile("sandwich=worker_main@orderd"))
    page.go_back()
    expect(page).to_have_url(re.compile("sandwich=Worker::step@orderd"))
    before = page.evaluate(f"() => ({HALVES})()[1].total_ns")
    made.advance(3.0)
    page.wait_for_function(f"(before) => ({HALVES})()[1].total_ns > before", arg=before)
    page.get_by_role("button", name="Undo: Callers and callees of Worker::step").click()
    expect(page.locator("#sandwich")).to_be_hidden()


@pytest.mark.nightly
def test_stack_is_copied_as_text(open_page: Callable[..., Page]) -> None:
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    point_at(page, "worker_main")
    page.keyboard.press("y")
    expect(page.locator("#toast")).to_have_text("Copied the stack of worker_main.")
    lines = page.evaluate("() => navigator.clipboard.readText()").splitlines()
    assert re.fullmatch(r"[\d.]+ s, [\d.]+ % of all", lines[0])
    assert [line.split()[0] for line in lines[1:]] == ["worker_main", "start_thread"]


def test_upside_down_and_chains(page: Page) -> None:
    page.get_by_role("button", name="Simplify").click()
    page.get_by_label("Upside down").check()
    page.wait_for_function("() => flametap.views.current.asked.shape.includes('inverted')")
    first = page.evaluate(
        """() => { const view = flametap.views.current; const [from, to] = view.rowRange(1);
           return Array.from({length: to - from}, (_, at) => view.functionOf(from + at)?.name); }"""
    )
    assert {"malloc", "snprintf"} & set(first)
    page.keyboard.press("Escape")
    expect(page.locator("#simplify-panel")).to_be_hidden()
    page.keyboard.press("v")
    page.wait_for_function("() => !flametap.views.current.asked.shape.length")


# --- the table of the tree ---


def test_tree_table_opens_closes_and_follows_the_heaviest_path(page: Page) -> None:
    page.get_by_role("button", name="Tree").click()
    grid = page.get_by_role("treegrid")
    rows = grid.locator(".tree-rows .tree-row")
    expect(rows).to_have_count(3)
    grid.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(grid.get_by_role("row", name="worker_main")).to_have_attribute("aria-level", "2")
    assert rows.first.get_attribute("aria-expanded") == "true"
    assert grid.get_attribute("aria-activedescendant") == rows.first.get_attribute("id")
    page.keyboard.press("ArrowRight")  # to its first child
    page.keyboard.press("ArrowLeft")  # back to the parent
    page.keyboard.press("ArrowLeft")
    expect(rows).to_have_count(3)
    page.keyboard.press("*")
    page.wait_for_function("() => flametap.shaping.table.rows.list().some(({level}) => level > 4)")
    deepest = page.evaluate("() => flametap.shaping.table.row().level")
    assert deepest > 4
    page.keyboard.press("Enter")
    expect(page.locator("#graph")).to_be_visible()
    page.wait_for_function("(n) => flametap.views.current.zoom.path.length === n", arg=deepest)


def test_tree_table_keeps_its_place_while_the_profile_grows(page: Page, made: MadeServer) -> None:
    page.get_by_role("button", name="Tree").click()
    grid = page.get_by_role("treegrid")
    expect(grid.get_by_role("row", name="start_thread")).to_be_visible()
    grid.focus()
    page.keyboard.press("*")
    page.wait_for_function("() => flametap.shaping.table.rows.list().length > 10")
    active = page.evaluate("() => flametap.shaping.table.active")
    for _ in range(5):
        made.advance(2.0)
        page.wait_for_function(
            "(revision) => flametap.shaping.table.revision >= revision", arg=made.revision
        )
    assert page.evaluate("() => flametap.shaping.table.active") == active
    expect(grid).to_be_focused()
    shown = page.evaluate("() => flametap.shaping.table.rows.totalNs")
    assert shown == int(made.views.tree(EVERYTHING).total_ns[0])


@pytest.mark.nightly
def test_tree_table_is_copied_as_text(open_page: Callable[..., Page]) -> None:
    page = open_page("#tab=tree", permissions=["clipboard-read", "clipboard-write"])
    expect(page.locator("#tree .tree-row")).to_have_count(4)
    page.get_by_role("button", name="Copy as text").click()
    expect(page.locator("#toast")).to_have_text("Copied 3 rows.")
    lines = page.evaluate("() => navigator.clipboard.readText()").splitlines()
    assert lines[0].split() == ["total", "self", "function"]
    assert "start_thread (libc.so.6)" in lines[1] + lines[2]


@pytest.mark.nightly
def test_row_has_the_menu_of_its_function(page: Page) -> None:
    page.get_by_role("button", name="Tree").click()
    grid = page.get_by_role("treegrid")
    expect(grid.get_by_role("row", name="start_thread")).to_be_visible()
    grid.focus()
    page.keyboard.press("Home")
    page.keyboard.press("m")
    page.get_by_role("menuitem", name="Hide it").click()
    expect(grid.get_by_role("row", name="worker_main")).to_be_visible()
    expect(grid).to_be_visible()
    assert len(chips(page)) == 1


def test_every_one_of_20_000_children_can_be_reached(open_page: Callable[..., Page]) -> None:
    server = serve(WideServer().views, "127.0.0.1", 0, "secret-token")
    try:
        page = open_page("#tab=tree", server=server)
        grid = page.get_by_role("treegrid")
        expect(grid.get_by_role("row", name="main")).to_be_visible()
        grid.focus()
        page.keyboard.press("Home")
        page.keyboard.press("ArrowRight")
        page.wait_for_function("() => flametap.shaping.table.rows.list().length === 20001")
        page.keyboard.press("End")
        page.wait_for_function("() => flametap.shaping.table.row()?.name?.startsWith('child_')")
        last = page.evaluate("() => flametap.shaping.table.row()")
        assert last["place"] == 19_999
        assert page.locator("#tree .tree-row").count() < 120
        page.keyboard.press("Enter")
        page.wait_for_function("() => flametap.views.current.zoom.path.length === 2")
        assert zoom_names(page) == ["main", last["name"]]
    finally:
        server.close()


# --- links ---


def test_link_shows_the_same_in_another_recording(open_page: Callable[..., Page]) -> None:
    page = open_page()
    for name in ("worker_main", "Worker::step"):
        box = at(page, name)
        page.mouse.click(box["x"], box["y"])
        page.wait_for_function(
            f"() => flametap.graph.view.functionOf(flametap.graph.view.zoom.box)?.name === '{name}'"
        )
    page.evaluate("() => flametap.change({ threads: [3], shape: ['recursion'] })")
    page.wait_for_function("() => location.hash.includes('worker-2@')")
    hash_ = page.evaluate("() => location.hash")
    assert "start_thread@libc.so.6;worker_main@orderd;Worker::step@orderd" in hash_
    server = serve(PythonServer(200).views, "127.0.0.1", 0, "secret-token")
    second = MadeServer(2_000, seed=11)
    second.advance(4.0)
    with_other_ids = serve(second.views, "127.0.0.1", 0, "secret-token")
    try:
        page = open_page(hash_, server=with_other_ids)
        assert zoom_names(page) == ["start_thread", "worker_main", "Worker::step"]
        assert page.evaluate("() => flametap.getState().threads") == [3]
        lost = open_page(hash_, server=server)
        expect(lost.locator("#toast")).to_contain_text("worker_main has no time here")
        expect(lost.locator("#toast")).to_contain_text("No thread worker-2 here")
    finally:
        server.close()
        with_other_ids.close()


@pytest.mark.nightly
def test_sandwich_of_a_search(page: Page) -> None:
    page.locator("#search").fill("re:malloc$")
    page.get_by_role("button", name="What calls the matches, and what they call").click()
    page.wait_for_function(f"() => ({HALVES})().every((view) => view?.total_ns > 0)")
    found = page.evaluate("() => flametap.views.current.search.total_ns")
    assert page.evaluate(f"() => ({HALVES})().map((view) => view.total_ns)") == [found, found]
    # The callers are what was asked for: they are not pale because the search does not find them.
    callers = "flametap.shaping.sandwich.halves[0].graph"
    page.wait_for_function(f"() => {callers}.scene?.isSearching")
    assert page.evaluate(f"() => {callers}.scene.dims") is False
    expect(page.locator("#chips")).to_contain_text("“re:malloc$”")
    page.reload()
    page.wait_for_function("() => flametap.shaping.sandwich.halves[1].views.current?.total_ns > 0")


# --- comparison ---


def test_two_ranges_are_compared_in_graph_tree_and_table(
    open_page: Callable[..., Page],
) -> None:
    server = serve(changing_server().views, "127.0.0.1", 0, "secret-token")
    try:
        page = open_page("#range=10000-20000&compare=0-10000", server=server)
        page.wait_for_function("() => flametap.views.current.comparison !== null")
        point_at(page, "snprintf")
        card = page.locator("#details")
        expect(card).to_contain_text(re.compile(r"0:10 – 0:20.*0:00 – 0:10", re.DOTALL))
        expect(card).to_contain_text(re.compile(r"▼ −[\d.]+ points \(certain\)"))
        page.keyboard.press("f")
        first = page.locator("#changes tbody tr").first
        expect(first).to_contain_text("sysmalloc")
        expect(first).to_contain_text(re.compile(r"▲ \+\d+ points"))
        expect(first).to_contain_text("certain")
        expect(page.locator("#changes tbody tr.is-noise").first).to_contain_text("noise")
        page.get_by_role("button", name="Time per second").click()
        expect(first).to_contain_text(re.compile(r"\+[\d.]+ m?s/s"))
        page.get_by_role("button", name="Tree").click()
        grid = page.get_by_role("treegrid")
        expect(grid.get_by_role("columnheader", name="0:00 – 0:10")).to_be_visible()
        expect(page).to_have_url(re.compile("scale=time"))
        page.get_by_role("button", name="Undo: comparison").click()
        expect(grid.get_by_role("columnheader", name="Self")).to_be_visible()
        page.get_by_role("button", name="Compare with the rest").click()
        expect(page.locator("#compare .chip-target")).to_have_text("the rest")
        expect(page).to_have_url(re.compile("sort=total"))
        expect(grid.get_by_role("columnheader", name="the rest")).to_be_visible()
    finally:
        server.close()


# --- for everyone ---


@pytest.mark.parametrize(
    ("scheme", "width"),
    [("light", 1400), pytest.param("dark", 400, marks=pytest.mark.nightly)],
)
def test_axe_finds_nothing(open_page: Callable[..., Page], scheme: str, width: int) -> None:
    server = serve(changing_server().views, "127.0.0.1", 0, "secret-token")
    states = {
        "#tab=tree": "",
        "#tab=tree&shape=chains;hide:gone@x": "m",
        "#range=10000-20000&compare=0-10000": "",
        "#range=10000-20000&compare=rest&tab=functions": "",
        "#sandwich=malloc@libc.so.6": "",
    }
    problems = {}
    try:
        page = open_page(
            server=server, viewport={"width": width, "height": 850}, color_scheme=scheme
        )
        for hash_, key in states.items():
            page.goto(page.url.split("#")[0] + hash_)
            page.reload()
            page.wait_for_function("() => globalThis.flametap?.views.current?.total_ns > 0")
            if key == "m":
                page.wait_for_function("() => flametap.shaping.table.row() !== null")
                page.get_by_role("treegrid").focus()
                page.keyboard.press(key)
                expect(page.get_by_role("menu")).to_be_visible()
            page.wait_for_timeout(300)  # its first rows
            if found := found_by_axe(page):
                problems[hash_] = found
    finally:
        server.close()
    assert problems == {}
