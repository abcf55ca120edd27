"""An HTML report, opened from a file: the server's boxes, and nothing from elsewhere."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from playwright.sync_api import Browser, BrowserContext, Page, expect

from flametap.analysis.dispersion import Side
from flametap.analysis.views import views_of
from flametap.code import live_code
from flametap.export import difference, write_file
from flametap.export.request import ExportRequest
from flametap.model import Clock, Frame, Function, Status
from flametap.recording.recording import Recording
from flametap.symbols.locate.source_text import SourceText
from flametap.tree.selection import EVERYTHING, Selection, Span
from flametap.web.app import create_app
from made_programs import program
from made_server import TOKEN
from page_probe import at, click_box, painted_share, zoom_names
from profiles import MAIN_ADDR, NAMES, random_profile, small_profile
from python_server import PythonServer
from recordings import recorded
from served import served

pytestmark = pytest.mark.needs("chromium")

READY = "() => globalThis.flametap?.views.current?.total_ns > 0"
HOSTILE = "</script><img src=x onerror=alert(1)><!-- \u2028 {{ 7*7 }}"


@pytest.fixture(scope="module")
def recording() -> Recording:
    return PythonServer().recording


@pytest.fixture
def client(recording: Recording) -> FlaskClient:
    return client_of(recording)


def client_of(recording: Recording) -> FlaskClient:
    client = create_app(views_of(recording), TOKEN).test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {TOKEN}"
    return client


@pytest.fixture
def open_report(
    browser: Browser, tmp_path: Path, recording: Recording
) -> Iterator[Callable[..., Page]]:
    """Write a report and open the file; fails the test if it logs an error or asks for another."""
    contexts: list[BrowserContext] = []
    problems: list[str] = []
    asked: list[str] = []
    path = tmp_path / "report.html"

    def open_report(
        selection: Selection = EVERYTHING, hash_: str = "", request: ExportRequest | None = None
    ) -> Page:
        request = request or ExportRequest(recording, selection)
        write_file(str(path), "html", request)
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        contexts.append(context)
        context.set_default_timeout(90_000)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: problems.append(dialog.message))
        page.on(
            "console",
            lambda message: problems.append(message.text) if message.type == "error" else None,
        )
        page.on("request", lambda each: asked.append(each.url))
        page.goto(f"file://{path}{hash_}")
        page.wait_for_function(READY)
        return page

    yield open_report
    for context in contexts:
        context.close()
    assert problems == []
    elsewhere = [url for url in asked if not url.startswith(("data:", f"file://{path}", "blob:"))]
    assert elsewhere == []


def boxes(answer: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The boxes of a view with names in the place of numbers."""
    names = [*answer["functions"]["name"], ""]
    columns = answer["boxes"]
    return list(
        zip(
            (names[function] for function in columns["function"]),
            *(
                columns[name]
                for name in ("row", "x_ns", "total_ns", "self_ns", "line", "parent", "hidden")
            ),
            strict=True,
        )
    )


ANSWER = (
    "() => { const {boxes, functions, search, table, total_ns, deepest_row, zoom}"
    " = flametap.views.current;"
    " return {boxes, functions, search, table, total_ns, deepest_row, zoom}; }"
)


def asked_of_server(page: Page, client: FlaskClient, **query: object) -> dict[str, Any]:
    width = page.evaluate("flametap.graph.width")
    response = client.get("/api/view", query_string={"width": round(width), "rows": 300, **query})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.get_json()
    return answer


def assert_same(page: Page, client: FlaskClient, **query: object) -> None:
    answer, exact = page.evaluate(ANSWER), asked_of_server(page, client, **query)
    assert boxes(answer) == boxes(exact)
    assert answer["total_ns"] == exact["total_ns"] > 0
    assert answer["deepest_row"] == exact["deepest_row"]


def random_recording(traces: int = 100) -> Recording:
    """Stacks at random: recursion, waits, inlining, system calls."""
    status = Status(7, "prog", "ended", is_final=True)
    return recorded(*random_profile(random.Random(5), traces), status)


@pytest.mark.parametrize("clock", ["cpu", "wall", "off-cpu"])
def test_boxes_are_those_of_the_server(open_report: Callable[..., Page], clock: str) -> None:
    recording = random_recording()
    page = open_report(hash_=f"#clock={clock}", request=ExportRequest(recording))
    assert_same(page, client_of(recording), clock=clock)
    expect(page.locator("#state-text")).to_have_text("Saved report")
    expect(page.locator("#banner-text")).to_contain_text("the whole recording")
    assert painted_share(page) > 0.02


def test_narrow_boxes_are_drawn_together_as_by_the_server(open_report: Callable[..., Page]) -> None:
    recording = random_recording(2_000)
    page = open_report(request=ExportRequest(recording))
    page.set_viewport_size({"width": 320, "height": 700})
    page.wait_for_function("() => Math.max(...flametap.views.current.boxes.hidden) > 0")
    page.wait_for_function("() => flametap.graph.width < 320")
    page.evaluate("flametap.views.request()")
    assert_same(page, client_of(recording))


def test_range_and_threads_are_those_that_were_shown(
    open_report: Callable[..., Page], client: FlaskClient
) -> None:
    page = open_report(Selection(thread_ids=frozenset({1}), span=Span(2 * 10**9, 5 * 10**9)))
    assert_same(page, client, range="2000-5000", threads=1)
    expect(page.locator("#banner-text")).to_contain_text("2 s to 5 s of the recording; only Main")
    expect(page.locator("#threads-button")).to_be_hidden()


def test_zoom_search_and_table_work_without_a_server(
    open_report: Callable[..., Page], client: FlaskClient
) -> None:
    page = open_report()
    click_box(page, "Worker.handle")
    page.wait_for_function("() => flametap.views.current.zoom.path.length > 2")
    assert zoom_names(page)[-1] == "Worker.handle"
    by_name = {function.name: at for at, function in enumerate(client_functions(client))}
    zoom = ".".join(str(by_name[name]) for name in zoom_names(page))
    assert_same(page, client, zoom=zoom)
    for pattern in ("json", "module:sqlite", "re:^(cart|checkout)$", "file:/srv/shop", "Cart"):
        page.locator("#search").fill(pattern)
        page.wait_for_function("(it) => flametap.views.current.search?.pattern === it", arg=pattern)
        found = page.evaluate(ANSWER)["search"]
        exact = asked_of_server(page, client, zoom=zoom, q=pattern)["search"]
        weights = [[each["total_ns"] for each in answer["top"]] for answer in (found, exact)]
        assert weights[0] == weights[1]
        assert found["count"] == exact["count"] > 0
        assert found["total_ns"] == exact["total_ns"]
    page.locator("#search").fill("re:(")
    expect(page.locator("#search-result")).to_contain_text("bad pattern")
    page.locator("#search").fill("")
    page.locator("#search").blur()
    for order in ("self", "total"):
        page.evaluate("(hash) => location.hash = hash", f"#tab=functions&sort={order}")
        page.wait_for_function("(it) => flametap.views.current.asked.sort === it", arg=order)
        page.wait_for_function("() => flametap.views.current.table")
        rows, exact = (
            answer["table"]["rows"]
            for answer in (page.evaluate(ANSWER), asked_of_server(page, client, table=order))
        )
        for column in ("self_ns", "total_ns"):
            assert rows[column] == exact[column]
        assert sorted(rows["name"]) == sorted(exact["name"])
        assert rows["origin"]


def client_functions(client: FlaskClient) -> list[Function]:
    return list(client.application.extensions["flametap"].recordings.get(1).recording.functions)


def test_what_a_report_lacks_is_said(open_report: Callable[..., Page]) -> None:
    page = open_report()
    click_box(page, "Worker.handle")
    page.wait_for_function("() => flametap.views.current.zoom.path.length > 2")
    page.evaluate("flametap.change({ threads: [1] })")
    expect(page.locator("#toast")).to_contain_text("only what was saved")
    for key in "uch":  # waits for locks, callers, hide
        page.evaluate("document.getElementById('toast').hidden = true")
        page.keyboard.press(key)
        expect(page.locator("#toast")).to_be_visible()
    for element in ("pause", "language", "locks", "locks-button"):
        expect(page.locator(f"#{element}")).to_be_hidden()
    page.keyboard.press("e")
    expect(page.locator("#save-png")).to_be_visible()
    expect(page.locator("#save-exports-part")).to_be_hidden()


LANES = (
    "(planes) => flametap.timeline.lanes.lanes.map((lane) => [lane.thread_id, lane.tid, lane.name,"
    " ...planes.map((name) => [...(lane.shares[name] ?? [])])])"
)


def test_timeline_is_that_of_the_page(
    open_report: Callable[..., Page], client: FlaskClient
) -> None:
    page = open_report()
    page.wait_for_function("() => flametap.timeline.lanes")
    bins = page.evaluate("flametap.timeline.lanes.bins")
    exact = client.get("/api/lanes", query_string={"level": bins["level"]}).get_json()
    assert bins["count"] == exact["bins"]["count"] > 200
    shown = page.evaluate(LANES, ["cpu", "queued"])
    assert [lane[:3] for lane in shown] == [
        [lane["thread_id"], lane["tid"], lane["name"]] for lane in exact["lanes"]
    ]
    for (*_, cpu, _queued), lane in zip(shown, exact["lanes"], strict=True):
        there = [ord(each) - ord("#") for each in lane["planes"]["cpu"]]
        assert cpu == pytest.approx(there, abs=1)  # averages of rounded shares
    # A drag looks closer; the button goes back.
    plot = page.locator("#timeline-plot").bounding_box()
    assert plot is not None
    y = plot["y"] + plot["height"] - 8
    page.mouse.move(plot["x"] + 0.25 * plot["width"], y)
    page.mouse.down()
    page.mouse.move(plot["x"] + 0.5 * plot["width"], y, steps=3)
    page.mouse.up()
    expect(page.locator("#toast")).to_contain_text("Only the timeline looks closer")
    page.wait_for_function("(step) => flametap.timeline.lanes.bins.step < step", arg=bins["step"])
    page.locator("#timeline-live").click()
    page.wait_for_function("(step) => flametap.timeline.lanes.bins.step === step", arg=bins["step"])
    page.locator("#heat-button").click()
    page.wait_for_function("() => flametap.timeline.heat.heat")
    page.locator('#heat-kind [data-value="waits"]').click()
    page.wait_for_function("() => flametap.timeline.heat.heat?.rows === 60")


def test_timeline_of_a_range_begins_with_it(
    open_report: Callable[..., Page], client: FlaskClient
) -> None:
    page = open_report(Selection(span=Span(2 * 10**9, 5 * 10**9)))
    page.wait_for_function("() => flametap.timeline.lanes")
    assert page.evaluate("flametap.timeline.shown") == {"from": 2000, "to": 5000}
    bins = page.evaluate("flametap.timeline.lanes.bins")
    assert 1900 <= bins["start"] <= 2000
    expect(page.locator("#timeline-text")).to_contain_text("0:02.00 – 0:05.00")
    expect(page.locator("#timeline-range")).to_be_hidden()
    page.locator("#timeline-live").click()
    page.wait_for_function("() => flametap.timeline.lanes.bins.start <= 0")


@pytest.mark.parametrize("clock", ["cpu", "wall"])
def test_code_is_that_of_the_page(
    open_report: Callable[..., Page],
    client: FlaskClient,
    monkeypatch: pytest.MonkeyPatch,
    clock: str,
) -> None:
    text = SourceText([f"  line {at} <b>" for at in range(1, 200)])
    monkeypatch.setattr(live_code, "read_source", lambda *_: text)
    page = open_report(hash_=f"#clock={clock}")
    click_box(page, "product_list")
    page.wait_for_function("() => flametap.code && flametap.views.current.zoom.path.length > 3")
    page.keyboard.press("s")
    page.wait_for_function("() => flametap.code.rows.length > 3")
    names = [function.name for function in client_functions(client)]
    query = {"function": names.index("product_list"), "clock": clock}
    exact = client.get("/api/lines", query_string=query).get_json()
    shown = page.evaluate(
        "flametap.code.rows.filter(({ place }) => place)"  # the others are gaps
        ".map(({ place, text, selfNs, totalNs }) => [place, text, selfNs, totalNs])"
    )
    lines = exact["lines"]
    columns = (lines["line"], lines["text"], lines["self_ns"], lines["total_ns"])
    assert shown == [[str(line), text or "", *ns] for line, text, *ns in zip(*columns, strict=True)]
    assert any(text for _, text, *_ in shown)
    assert sum(row[3] for row in shown) > 0


def test_hostile_names_are_text(
    open_report: Callable[..., Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = Function(HOSTILE, HOSTILE, HOSTILE, full_name=HOSTILE)
    monkeypatch.setitem(NAMES, MAIN_ADDR, [Frame(hostile, 10, HOSTILE)])
    status = Status(7, HOSTILE, "ended", reason=HOSTILE, notes=[HOSTILE])
    page = open_report(request=ExportRequest(recorded(*small_profile(), status)))
    box = at(page, HOSTILE)
    page.mouse.move(box["x"], box["y"])
    shown = HOSTILE.replace("\u2028", "‹2028›")  # what breaks lines is shown by its number
    expect(page.locator("#details .name")).to_contain_text(shown)
    assert page.locator("img[onerror]").count() == 0
    page.keyboard.press("f")
    expect(page.locator("#functions-rows")).to_contain_text("</script><img src=x")
    page.mouse.move(5, 5)
    page.keyboard.press("q")
    expect(page.locator("#quality-notes")).to_contain_text("</script><img src=x")


def test_report_opens_with_the_clock_that_was_shown(open_report: Callable[..., Page]) -> None:
    page = open_report(Selection(Clock.WALL))
    assert re.search("clock=wall", page.url)
    expect(page.get_by_role("button", name="Wall")).to_have_attribute("aria-pressed", "true")


def test_tree_table_and_names_in_links_work_without_a_server(
    open_report: Callable[..., Page], client: FlaskClient
) -> None:
    page = open_report()
    expect(page.locator("#simplify")).to_be_hidden()
    page.get_by_role("button", name="Tree").click()
    grid = page.get_by_role("treegrid")
    grid.focus()
    page.keyboard.press("*")
    page.wait_for_function("() => flametap.shaping.table.rows.list().length > 6")
    shown = page.evaluate(
        "() => flametap.shaping.table.rows.list().filter(({level}) => level === 1)"
        ".map(({name, totalNs}) => [name, totalNs])"
    )
    body = {"nodes": [{"path": ""}]}
    rows = client.post("/api/tree", json=body).get_json()["nodes"][0]["rows"]
    assert shown == [list(each) for each in zip(rows["name"], rows["total_ns"], strict=True)]
    page.keyboard.press("Enter")
    page.wait_for_function("() => flametap.views.current.zoom.path.length > 3")
    hash_ = page.evaluate("() => location.hash")
    assert "@" in hash_
    again = open_report(hash_=hash_)
    assert zoom_names(again) == zoom_names(page)


def test_comparison_is_that_of_the_server(browser: Browser, tmp_path: Path) -> None:
    before, after = program({}, 1), program({"match": 1.6}, 2)
    sides = [Side(each, EVERYTHING) for each in (before, after)]
    path = tmp_path / "diff.html"
    with path.open("wb") as file:
        difference.write_html(sides[0], sides[1], "before.flametap", file)
    app = create_app(served(after=after, before=before), TOKEN)
    client = app.test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {TOKEN}"
    page = browser.new_page()
    try:
        page.goto(path.as_uri())
        page.wait_for_function(READY)
        expect(page.get_by_text("Compared with")).to_be_visible()
        for name, words in (("", ""), ("as in both", "&width_of=both")):
            if name:
                page.get_by_role("button", name=name).click()
                page.wait_for_function("() => location.hash.includes('width_of=both')")
            page.wait_for_function(
                "(words) => (globalThis.flametap.views.current.asked.widthOf === 'both')"
                " === (words !== '')",
                arg=words,
            )
            shown = page.evaluate("() => globalThis.flametap.views.current.boxes")
            size = page.evaluate("() => globalThis.flametap.views.geometry()")
            query = f"compare=file{words}&width={size['width']}&rows={size['rows']}"
            boxes = client.get(f"/api/view?{query}").get_json()["boxes"]
            for column in ("here_ns", "there_ns", "change"):
                assert list(shown[column]) == boxes[column]
        assert 2 in boxes["change"]
    finally:
        page.close()
