"""What live updates must not disturb, how fast they arrive, and what happens when they stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, Request, Route, expect

import wire
from flametap.model import Frame, Function
from flametap.web.server import Server, serve
from growing import Growing
from made_server import TOKEN, MadeServer
from page_probe import at, click_box, wait_for_revision, zoom_names

pytestmark = pytest.mark.needs("chromium")


def test_updates_are_painted_by_themselves(page: Page, made: MadeServer) -> None:
    for _ in range(3):
        made.advance(0.5)
        wait_for_revision(page, made.revision)


def test_news_in_quick_succession_are_fetched_together(page: Page, made: MadeServer) -> None:
    views: list[str] = []

    def note_view(request: Request) -> None:
        if "/view?" in request.url:
            views.append(request.url)

    page.on("request", note_view)
    began = time.monotonic()
    for _ in range(100):
        made.advance(0.02)
        page.wait_for_timeout(20)
    wait_for_revision(page, made.revision)
    # At most four a second, and one under way at each end.
    assert 1 <= len(views) <= 2 + 4 * (time.monotonic() - began)


def test_zoom_hover_search_and_selection_outlast_updates(page: Page, made: MadeServer) -> None:
    click_box(page, "worker_main")
    page.wait_for_function("() => flametap.views.current.zoom.path.length === 2")
    page.locator("#search").fill("OrderBook")
    expect(page.locator("#search-result")).to_contain_text("match")
    page.wait_for_function("() => !flametap.graph.animation")
    box = at(page, "Worker::step")
    page.mouse.move(box["x"], box["y"])
    card = page.locator("#details")
    expect(card).to_contain_text("Worker::step")
    before = card.inner_text()
    for _ in range(4):
        made.advance(1.0)
        wait_for_revision(page, made.revision)
    expect(card).to_contain_text("Worker::step")
    assert card.inner_text() != before  # its numbers go on
    assert zoom_names(page) == ["start_thread", "worker_main"]
    assert page.evaluate("flametap.views.current.search.count") > 0
    assert page.locator("#search").input_value() == "OrderBook"


def test_boxes_keep_their_order_and_nearly_their_places(page: Page, made: MadeServer) -> None:
    names = ("_start", "main", "start_thread", "worker_main", "Worker::step")
    before = [at(page, name)["x"] for name in names]
    for _ in range(3):
        made.advance(0.5)
        wait_for_revision(page, made.revision)
    after = [at(page, name)["x"] for name in names]
    assert all(abs(a - b) < 40 for a, b in zip(before, after, strict=True))


def test_open_panels_and_text_being_typed_outlast_updates(page: Page, made: MadeServer) -> None:
    page.keyboard.press("q")
    page.locator("#quality").get_by_text("All counters by name").click()
    page.keyboard.press("t")
    names = page.locator("#threads-rows .link")
    order = names.all_inner_texts()
    page.locator("#search").focus()
    page.keyboard.type("Wor")
    for _ in range(3):
        made.advance(1.0)
        wait_for_revision(page, made.revision)
    page.wait_for_timeout(1100)  # threads and symbols are fetched once a second
    page.keyboard.type("ker")
    assert page.locator("#search").input_value() == "Worker"
    assert names.all_inner_texts()[: len(order)] == order
    expect(page.locator("#quality-counters")).to_be_visible()


class DeepServer(Growing):
    """One stack, 1 999 frames deep, that grows by a frame with each advance."""

    def __init__(self) -> None:
        super().__init__()
        self._depth = 1_998
        self.feed(
            10**12,
            modules=[wire.module(1, "/opt/deep")],
            threads=[wire.thread(1, 7, "deep", first_seen_ns=10**12)],
        )
        self.advance()

    def advance(self) -> None:
        """Let ten milliseconds pass, one frame deeper."""
        self._depth += 1
        frames = {
            wire.frame(1, 0x1000 + at): [Frame(Function(f"frame_{at}", "deep"))]
            for at in range(self._depth)
        }
        t0_ns, lasts_ns = 10**12 + self._depth * 10**7, 10**7
        self.feed(
            t0_ns + lasts_ns,
            traces=[wire.trace(self._depth, [*frames][::-1])],
            intervals=[wire.interval(1, self._depth, t0_ns, lasts_ns, lasts_ns)],
        )
        self.name(frames)


class TestDeepStack:
    @pytest.fixture
    def deep(self) -> DeepServer:
        return DeepServer()

    @pytest.fixture
    def server(self, deep: DeepServer) -> Iterator[Server]:
        server = serve(deep.views, "127.0.0.1", 0, TOKEN)
        yield server
        server.close()

    def test_canvas_stays_small_and_rows_come_as_one_scrolls(self, page: Page) -> None:
        assert page.evaluate("document.getElementById('boxes').height") < 900
        assert page.evaluate("flametap.views.current.boxCount") < 400
        page.evaluate("document.getElementById('scroller').scrollTop = 0")
        page.wait_for_function("() => flametap.views.current.boxCount >= 2000")
        page.wait_for_function("() => flametap.graph.locate('frame_1998')?.y > 0")

    def test_scroll_position_stays_with_the_rows(self, page: Page, deep: DeepServer) -> None:
        page.evaluate("document.getElementById('scroller').scrollTop -= 2000")
        page.wait_for_function("() => flametap.graph.fromRoot > 1900")
        before = at(page, "frame_100")["y"]
        for _ in range(5):
            deep.advance()
        wait_for_revision(page, deep.revision)
        assert page.evaluate("flametap.views.current.deepest_row") >= 2004
        assert at(page, "frame_100")["y"] == pytest.approx(before, abs=1)


def test_empty_profile_says_that_it_waits(open_page: Callable[..., Page], server: Server) -> None:
    page = open_page("#threads=999", ready="() => globalThis.flametap?.views.current")
    expect(page.locator("#empty")).to_contain_text("No CPU time yet in the chosen threads")


def test_end_of_the_target_is_told_and_the_graph_stays(page: Page, made: MadeServer) -> None:
    made.end("the process exited")
    expect(page.locator("#state-text")).to_have_text("Ended")
    expect(page.locator("#banner")).to_contain_text("the process exited")
    expect(page.locator("#pause")).to_be_hidden()
    click_box(page, "worker_main")
    page.wait_for_function("() => flametap.views.current.zoom.path.length === 2")


def test_stopped_server_leaves_a_page_that_still_zooms(
    open_page: Callable[..., Page], server: Server
) -> None:
    page = open_page()
    expect(page.locator("#state-text")).to_have_text("Recording")  # the line for the good-bye is up
    server.close()
    expect(page.locator("#banner")).to_contain_text("flametap was stopped")
    width = at(page, "worker_main")["width"]
    click_box(page, "worker_main")
    page.wait_for_function("() => !flametap.graph.animation && flametap.graph.zoomBox > 0")
    assert at(page, "worker_main")["width"] > width * 1.2
    page.keyboard.press("0")
    page.wait_for_function("() => !flametap.graph.animation && flametap.graph.zoomBox === 0")
    assert at(page, "worker_main")["width"] == pytest.approx(width, abs=2)


def test_an_answer_that_breaks_off_is_asked_for_again(page: Page, made: MadeServer) -> None:
    broken: list[str] = []

    def break_off(route: Route) -> None:
        broken.append(route.request.url)
        route.fulfill(status=200, content_type="application/json", body='{"boxes": {"row": [0,')

    page.route("**/api/view?*", break_off, times=1)
    with page.expect_response("**/api/view?*"):
        made.advance(0.5)
    made.advance(0.5)
    wait_for_revision(page, made.revision)
    assert len(broken) == 1


@pytest.fixture
def restarted(made: MadeServer) -> Iterator[Callable[[Server], Server]]:
    servers: list[Server] = []

    def restart(server: Server) -> Server:
        port = urlsplit(server.url).port or 0
        servers.append(serve(made.views, "127.0.0.1", port, "secret-token"))
        return servers[-1]

    yield restart
    for server in servers:
        server.close()


def test_lost_connection_comes_back_by_itself(
    page: Page, server: Server, made: MadeServer, restarted: Callable[[Server], Server]
) -> None:
    expect(page.locator("#state-text")).to_have_text("Recording")
    server.hang_up()  # as a network would: without a good-bye
    expect(page.locator("#state-text")).to_have_text("Reconnecting")
    expect(page.locator("#banner")).to_contain_text("trying again")
    restarted(server)
    made.advance(1.0)
    expect(page.locator("#state-text")).to_have_text("Recording")
    wait_for_revision(page, made.revision)
    expect(page.locator("#banner")).to_be_hidden()
