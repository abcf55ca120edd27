"""What a user keeps of the page: downloads, pictures, a stack as text; a frozen view; the rate."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from flametap.model import Clock
from flametap.web.server import Server, serve
from made_server import MadeServer
from page_probe import at, click_box, wait_for_revision, zoom_names
from python_server import PythonServer
from spied import spied

MOMENT = r"-\d{8}-\d{4}"

pytestmark = pytest.mark.needs("chromium")

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def python() -> PythonServer:
    return PythonServer()


class TestOfARecording:
    """A page with exports."""

    @pytest.fixture
    def server(self, python: PythonServer) -> Iterator[Server]:
        server = serve(python.views, "127.0.0.1", 0, "secret-token")
        yield server
        server.close()

    def test_every_export_is_saved_for_the_shown_range(
        self, open_page: Callable[..., Page], python: PythonServer, tmp_path: Path
    ) -> None:
        page = open_page("#range=2000-5000&threads=1")
        for name, extension in (
            ("speedscope", ".speedscope.json"),
            ("firefox", ".firefox.json"),
            ("folded", ".folded"),
            ("html", ".html"),
        ):
            page.keyboard.press("e")
            with page.expect_download() as saved:
                page.locator(f'#save-panel [data-format="{name}"]').click()
            expected = f"flametap-python3.12-4711-cpu-1thread-2-5s{MOMENT}{extension}"
            assert re.fullmatch(expected, saved.value.suggested_filename)
            saved.value.save_as(tmp_path / name)
            expect(page.locator("#toast")).to_have_text(re.compile(f"Saved {expected}"))
            expect(page.locator("#save-panel")).to_be_hidden()
        profiles = json.loads((tmp_path / "speedscope").read_text())["profiles"]
        total = page.evaluate("flametap.views.current.total_ns")
        assert [each["name"] for each in profiles] == ["MainThread (4711)"]
        assert profiles[0]["endValue"] == pytest.approx(total, abs=2_000)
        page.evaluate("flametap.change({ shape: ['focus:Worker.handle@shop/server.py'] })")
        page.wait_for_function("() => flametap.views.current.asked.shape.length === 1")
        shown = page.evaluate("flametap.views.current.total_ns")
        page.keyboard.press("e")
        what = page.locator("#save-what")
        expect(what).to_have_text("CPU time: 0:02.00 – 0:05.00 (3 s), 1 thread, Only Worker.handle")
        assert page.evaluate(
            "[...document.querySelectorAll('#save-panel .menu-item')]"
            ".every((each) => each.scrollWidth <= each.clientWidth)"
        ), "a line of the menu is cut"
        sums = {}
        for part, suffix in (("shown", "-1thread-2-5s-focus"), ("whole", "")):
            page.locator(f'#save-part [data-value="{part}"]').click()
            with page.expect_download() as saved:
                page.locator('#save-panel [data-format="folded"]').click()
            expected = f"flametap-python3.12-4711-cpu{suffix}{MOMENT}.folded"
            assert re.fullmatch(expected, saved.value.suggested_filename)
            saved.value.save_as(tmp_path / part)
            lines = (tmp_path / part).read_text().splitlines()
            sums[part] = sum(int(line.rsplit(" ", 1)[1]) for line in lines)
            page.keyboard.press("e")
        assert 1000 * sums["shown"] == pytest.approx(shown, abs=2_000)
        assert 1000 * sums["whole"] == pytest.approx(python.profile.total_ns(Clock.CPU), abs=2_000)

    def test_a_report_opens_where_the_page_was(
        self, open_page: Callable[..., Page], tmp_path: Path
    ) -> None:
        page = open_page("#q=Worker&threads=1")
        click_box(page, "Worker.handle")
        page.wait_for_function("() => flametap.views.current.zoom.path.length > 1")
        page.keyboard.press("e")
        with page.expect_download() as saved:
            page.locator('#save-panel [data-format="html"]').click()
        saved.value.save_as(tmp_path / "report.html")
        report = page.context.new_page()
        report.goto((tmp_path / "report.html").as_uri())
        report.wait_for_function("() => globalThis.flametap?.views.current?.zoom.path.length > 1")
        assert zoom_names(report) == zoom_names(page)
        expect(report.locator("#search")).to_have_value("Worker")

    def test_export_that_fails_says_why(self, page: Page) -> None:
        page.route("**/api/export?*", lambda route: route.abort())
        page.keyboard.press("e")
        page.locator('#save-panel [data-format="speedscope"]').click()
        expect(page.locator("#toast")).to_have_text("Could not save: flametap does not answer")


def test_svg_and_png_show_the_whole_view(page: Page, tmp_path: Path) -> None:
    click_box(page, "worker_main")
    page.wait_for_function("() => flametap.views.current.zoom.path.length === 2")
    page.wait_for_function("() => !flametap.graph.animation && !flametap.graph.frame")
    for kind in ("svg", "png"):
        page.keyboard.press("e")
        with page.expect_download() as saved:
            page.locator(f"#save-{kind}").click()
        assert re.fullmatch(
            rf"flametap-orderd-41873-cpu{MOMENT}\.{kind}", saved.value.suggested_filename
        )
        saved.value.save_as(tmp_path / kind)
    root = ET.fromstring((tmp_path / "svg").read_bytes())
    titles = [each.text or "" for each in root.iter(f"{SVG}title")]
    assert any(re.match(r"Worker::step: [\d.]+ m?s, [\d.]+ %$", title) for title in titles)
    widths = [float(each.attrib["width"]) for each in root.iter(f"{SVG}rect") if "x" in each.attrib]
    assert max(widths) == pytest.approx(page.evaluate("flametap.graph.width"), abs=2)
    assert not [each for each in root.iter() if each.tag in (f"{SVG}script", f"{SVG}image")]
    png = (tmp_path / "png").read_bytes()
    assert png.startswith(b"\x89PNG")
    height = int.from_bytes(png[20:24], "big")
    assert height == page.evaluate("(flametap.views.current.deepest_row + 1) * 22 + 8")


def test_stack_is_copied_as_text(open_page: Callable[..., Page]) -> None:
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    page.keyboard.press("e")
    page.locator("#save-stack").click()
    expect(page.locator("#toast")).to_contain_text("select a box")
    click_box(page, "worker_main")
    page.wait_for_function("() => flametap.views.current.zoom.path.length === 2")
    page.keyboard.press("e")
    page.locator("#save-stack").click()
    expect(page.locator("#toast")).to_have_text("Copied the stack")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert re.fullmatch(
        r"[\d.]+ % of the CPU time, [\d.]+ s\n"
        r"start_thread \(libc\.so\.6\)\nworker_main \(orderd\)\n",
        copied,
    )


def test_frozen_view_stays_while_the_recording_goes_on(
    page: Page, made: MadeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    page.keyboard.press("z")
    page.wait_for_function("() => flametap.views.current.asked.range === '0-5000'")
    expect(page.locator("#freeze")).to_have_text("Frozen at 5.0 s")
    expect(page.locator("#freeze")).to_have_attribute("aria-pressed", "true")
    total = page.evaluate("flametap.views.current.total_ns")
    trees = spied(monkeypatch, made.views, "tree")
    for _ in range(5):
        made.advance(1.0)
    expect(page.locator("#elapsed")).to_have_text("0:10")
    expect(page.locator("#state-text")).to_have_text("Recording")
    assert page.evaluate("flametap.views.current.total_ns") == total
    assert not trees, "no view is computed for nothing"
    page.keyboard.press("2")  # another clock, of the same moment
    page.wait_for_function("() => flametap.views.current.asked.clock === 'wall'")
    expect(page.locator("#freeze")).to_have_text("Frozen at 5.0 s")
    page.locator("#freeze").click()
    page.wait_for_function("() => flametap.views.current.asked.range === ''")
    wait_for_revision(page, made.revision)
    expect(page.locator("#freeze")).to_have_text("Freeze")


def test_rolling_range_is_frozen_where_it_stands(open_page: Callable[..., Page]) -> None:
    page = open_page("#range=last2000")
    page.keyboard.press("z")
    page.wait_for_function("() => flametap.getState().range === '3000-5000'")
    page.keyboard.press("z")
    page.wait_for_function("() => flametap.getState().range === 'last2000'")


def test_rate_and_budget_are_changed_from_the_page(page: Page, made: MadeServer) -> None:
    page.locator("#rate").click()
    expect(page.locator("#settings-rate")).to_have_value("100")
    expect(page.locator("#settings-budget")).to_have_value("1")
    page.locator("#settings-rate").fill("500")
    page.locator("#settings-budget").fill("2.5")
    page.locator("#settings-budget").press("Enter")
    expect(page.locator("#settings-panel")).to_be_hidden()
    expect(page.locator("#rate")).to_have_text("500 Hz")
    assert (made.controls.rate_hz, made.controls.budget_percent) == (500.0, 2.5)


def test_freeze_and_save_fit_a_phone(open_page: Callable[..., Page]) -> None:
    page = open_page(viewport={"width": 400, "height": 800}, has_touch=True, is_mobile=True)
    page.locator("#save-button").tap()
    panel = page.locator("#save-panel").bounding_box()
    assert panel is not None
    assert panel["x"] >= 0
    assert panel["x"] + panel["width"] <= 400
    page.keyboard.press("Escape")
    page.locator("#freeze").tap()
    page.wait_for_function("() => flametap.getState().range === '0-5000'")
    assert at(page, "worker_main")["width"] > 50


def test_graph_and_table_stand_side_by_side(open_page: Callable[..., Page]) -> None:
    page = open_page()
    whole = page.evaluate("flametap.graph.width")
    page.keyboard.press("b")
    expect(page.locator("#functions-rows")).to_contain_text("worker_main")
    expect(page.locator("#graph")).to_be_visible()
    page.wait_for_function("(width) => flametap.graph.width < 0.7 * width", arg=whole)
    page.locator("#splitter").focus()
    for _ in range(5):
        page.keyboard.press("ArrowLeft")
    expect(page.locator("#splitter")).to_have_attribute("aria-valuenow", "48")
    page.wait_for_function("(width) => flametap.graph.width < 0.52 * width", arg=whole)
    page.reload()
    page.wait_for_function("() => globalThis.flametap?.views.current?.table")
    expect(page.locator("#splitter")).to_have_attribute("aria-valuenow", "48")
    bar = page.locator("#splitter").bounding_box()
    assert bar is not None
    page.mouse.move(bar["x"] + bar["width"] / 2, bar["y"] + 100)
    page.mouse.down()
    page.mouse.move(1000, bar["y"] + 120)
    page.mouse.up()
    expect(page.locator("#splitter")).to_have_attribute("aria-valuenow", "69")
    # Code takes the table's place.
    click_box(page, "worker_main")
    page.wait_for_function("() => flametap.views.current.zoom.path.length === 2")
    page.keyboard.press("s")
    expect(page.locator("#code")).to_be_visible()
    expect(page.locator("#functions")).to_be_hidden()
    page.keyboard.press("Escape")
    expect(page.locator("#functions")).to_be_visible()
    page.set_viewport_size({"width": 900, "height": 800})
    expect(page.locator("#functions")).to_be_hidden()
    expect(page.locator("#splitter")).to_be_hidden()
    expect(page.locator("#graph")).to_be_visible()
