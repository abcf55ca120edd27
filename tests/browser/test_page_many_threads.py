"""Ten thousand threads: the list opens at once, finds by name, and costs nothing while closed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, Response, expect

from flametap.web.server import Server, serve
from made_server import TOKEN
from many_threads import ManyThreads

pytestmark = pytest.mark.needs("chromium")

MENU_MS = 3_000
OPEN = """() => new Promise((done) => {
  const began = performance.now();
  const look = () => {
    if (document.querySelector('#threads-rows .link')) done(performance.now() - began);
    else requestAnimationFrame(look);
  };
  document.getElementById('threads-button').click();
  look();
})"""


@pytest.fixture
def many() -> ManyThreads:
    return ManyThreads()


@pytest.fixture
def server(many: ManyThreads) -> Iterator[Server]:
    server = serve(many.views, "127.0.0.1", 0, TOKEN)
    yield server
    server.close()


def test_menu_opens_at_once_with_few_elements(page: Page) -> None:
    expect(page.locator("#threads-label")).to_have_text("All 10\u202f000 threads")
    took = []
    for _ in range(3):  # the best of three: the machine may be busy
        took.append(page.evaluate(OPEN))
        page.keyboard.press("Escape")
        expect(page.locator("#threads-panel")).to_be_hidden()
        page.evaluate("document.getElementById('threads-rows').replaceChildren()")
    assert min(took) <= MENU_MS, took
    assert page.evaluate("document.querySelectorAll('*').length") < 1500


def test_list_is_scrolled_filtered_and_grouped(page: Page) -> None:
    page.keyboard.press("t")
    rows = page.locator("#threads-rows .thread-row")
    expect(rows.first).to_contain_text("io-9999")
    page.locator("#threads-list").evaluate("(list) => (list.scrollTop = list.scrollHeight / 2)")
    expect(rows.filter(has_text="499").first).to_be_visible()
    assert rows.count() < 80
    page.keyboard.type("re:^worker-12[0-9]{2}$")
    expect(page.locator("#threads-matching")).to_have_text("Show these 25")
    page.locator("#threads-matching").click()
    expect(page.locator("#threads-label")).to_have_text("25 of 10\u202f000 threads")
    page.locator("#threads-filter").fill("no such thread")
    expect(page.locator("#threads-note")).to_contain_text("No thread")
    page.locator("#threads-filter").fill("re:(")
    expect(page.locator("#threads-note")).to_contain_text("bad pattern")
    page.locator("#threads-filter").fill("")
    page.locator("#threads-groups").check()
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("× 7\u202f500")
    rows.filter(has_text="worker-#").get_by_role("button").click()
    expect(page.locator("#threads-label")).to_have_text("2\u202f500 of 10\u202f000 threads")
    assert len(page.url) < 30_000


def test_status_is_small_and_threads_are_asked_for_only_by_the_menu(
    page: Page, many: ManyThreads
) -> None:
    answers: list[Response] = []
    page.on("response", lambda answer: answers.append(answer))
    began = time.monotonic()
    for _ in range(30):
        many.advance()
        page.wait_for_timeout(100)
    sizes = [len(each.body()) for each in answers if "/api/status" in each.url]
    assert 1 <= len(sizes) <= 2 * (time.monotonic() - began) + 2  # about one a second
    assert max(sizes) < 20_000  # before it is compressed
    assert not [each for each in answers if "/api/threads" in each.url]


def test_rows_keep_their_places_and_the_keyboard_its_row(page: Page, many: ManyThreads) -> None:
    page.keyboard.press("t")
    links = page.locator("#threads-rows .link")
    expect(links.first).to_be_visible()
    page.locator("#threads-list").get_by_role("button", name="tid").focus()
    for _ in range(40):
        page.keyboard.press("ArrowDown")
    focused = "document.activeElement.textContent"
    name = page.evaluate(focused)
    assert name.startswith(("io-", "worker-"))
    with page.expect_response("**/api/threads?*"):
        many.advance()
    many.advance()
    page.wait_for_timeout(300)
    assert page.evaluate(focused) == name
    page.keyboard.press("Enter")
    expect(page.locator("#threads-label")).to_contain_text(name)


def test_thread_of_a_link_is_named(open_page: Callable[..., Page]) -> None:
    page = open_page("#threads=77", ready="() => globalThis.flametap?.views.current")
    expect(page.locator("#threads-label")).to_have_text("worker-76 (5076)")
