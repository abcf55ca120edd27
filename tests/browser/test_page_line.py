"""What the page shows when the server is gone, hangs, or answers late: never one thing's numbers
under another's name, and never old ones for ever.
"""

from __future__ import annotations

import time

import pytest
from playwright.sync_api import APIResponse, Page, Request, Route, expect

from flametap.web.server import Server
from made_server import MadeServer
from page_probe import at, wait_for_revision

pytestmark = pytest.mark.needs("chromium")

SILENT_MS = 11_000  # longer than the page waits for the next event


@pytest.fixture
def page(page: Page) -> Page:
    """A page with a stream of its own, not that of a shared worker: tests reach into that one."""
    page.add_init_script("delete globalThis.SharedWorker")
    page.reload()
    page.wait_for_function("() => globalThis.flametap?.views.current")
    return page


def test_line_that_is_lost_before_any_status_is_told(page: Page) -> None:
    page.route("**/api/events", lambda route: route.abort())
    page.reload()
    expect(page.locator("#state-text")).to_have_text("Reconnecting")
    expect(page.locator("#banner")).to_contain_text("trying again")
    page.unroute("**/api/events")
    expect(page.locator("#state-text")).to_have_text("Recording")
    expect(page.locator("#banner")).to_be_hidden()


def test_server_that_falls_silent_is_taken_for_lost_and_asked_again(page: Page) -> None:
    page.clock.install()
    held: list[Route] = []
    page.route("**/api/events", lambda route: held.append(route))
    with page.expect_request("**/api/events"):
        page.reload()
    page.clock.fast_forward(SILENT_MS)
    expect(page.locator("#state-text")).to_have_text("Reconnecting")
    page.unroute("**/api/events")
    page.clock.fast_forward(SILENT_MS)
    expect(page.locator("#state-text")).to_have_text("Recording")
    expect(page.locator("#banner")).to_be_hidden()


def test_clock_and_threads_stay_as_shown_when_no_other_can_be_fetched(
    page: Page, server: Server
) -> None:
    expect(page.locator("#state-text")).to_have_text("Recording")
    server.close()
    expect(page.locator("#banner")).to_contain_text("flametap was stopped")
    page.keyboard.press("2")
    expect(page.locator("#toast")).to_contain_text("does not answer")
    expect(page.get_by_role("button", name="CPU", exact=True)).to_have_attribute(
        "aria-pressed", "true"
    )
    assert page.evaluate("location.hash") == ""
    box = at(page, "worker_main")
    page.mouse.move(box["x"], box["y"])
    expect(page.locator("#details")).to_contain_text("CPU")
    expect(page.locator("#details")).not_to_contain_text("Wall")


def test_wish_that_hangs_while_the_line_breaks_is_given_up(page: Page, server: Server) -> None:
    expect(page.locator("#state-text")).to_have_text("Recording")
    page.route("**/api/view?*", lambda route: None)  # never answered, nor refused
    page.keyboard.press("2")
    server.hang_up()
    expect(page.locator("#state-text")).to_have_text("Reconnecting")
    cpu = page.get_by_role("button", name="CPU", exact=True)
    expect(cpu).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("3")  # and so is one over a line that is lost
    expect(page.locator("#toast")).to_contain_text("does not answer")
    expect(cpu).to_have_attribute("aria-pressed", "true")
    page.unroute_all()


def test_view_that_came_before_any_status_is_told_of_the_end(page: Page, made: MadeServer) -> None:
    made.end("the process exited")
    wait_for_revision(page, made.revision)  # no other view will be news after that
    held: list[Route] = []
    page.route("**/api/events", lambda route: held.append(route))
    page.route("**/api/status", lambda route: held.append(route))
    page.evaluate("location.hash = '#threads=999'")
    page.reload()
    expect(page.locator("#empty")).to_contain_text("No CPU time yet")
    page.route("**/api/events", lambda route: route.continue_())  # a second one is not held
    page.route("**/api/status", lambda route: route.continue_())
    for route in held:
        route.continue_()
    expect(page.locator("#empty")).to_contain_text("No CPU time was recorded")
    expect(page.locator("#empty")).not_to_contain_text("The graph appears")


def test_status_that_was_long_on_its_way_takes_nothing_back(page: Page, made: MadeServer) -> None:
    held: list[tuple[Route, APIResponse]] = []
    page.route("**/api/status", lambda route: held.append((route, route.fetch())), times=1)
    made.advance(0.5)
    deadline = time.monotonic() + 90
    while not held and time.monotonic() < deadline:
        page.wait_for_timeout(20)
    made.end("the process exited")
    expect(page.locator("#state-text")).to_have_text("Ended")
    ((route, answer),) = held
    with page.expect_event("requestfinished", lambda r: r == route.request):
        route.fulfill(response=answer)
    page.evaluate("() => new Promise((resolve) => setTimeout(resolve, 50))")
    expect(page.locator("#state-text")).to_have_text("Ended")
    expect(page.locator("#banner")).to_contain_text("the process exited")


def test_last_view_is_asked_for_again_when_it_was_not_answered(
    page: Page, made: MadeServer
) -> None:
    failed: list[Request] = []
    page.on("requestfailed", lambda request: failed.append(request))
    expect(page.locator("#state-text")).to_have_text("Recording")
    page.route("**/api/view?*", lambda route: route.abort(), times=1)
    made.advance(0.5)
    made.end("the process exited")
    wait_for_revision(page, made.revision)
    assert len([each for each in failed if "/view?" in each.url]) == 1
