"""The page of several processes: a lane for each, and what the graph shows apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect

from flametap.analysis.views import views_of
from flametap.web.server import Server, serve
from several import build_tree

pytestmark = pytest.mark.needs("chromium")

OUTERMOST = """(names) => {
  const view = globalThis.flametap?.views.current;
  if (!view) return false;
  const { function: f, row } = view.boxes;
  const outermost = [...f.keys()].filter((at) => row[at] === 1);
  const found = outermost.map((at) => view.functions.name[f[at]]);
  return String(found.sort()) === String(names);
}"""


@pytest.fixture
def server() -> Iterator[Server]:
    server = serve(views_of(build_tree()), "127.0.0.1", 0, "secret-token")
    yield server
    server.close()


def test_processes_have_lanes_and_are_shown_apart(open_page: Callable[..., Page]) -> None:
    page = open_page("#")
    expect(page.locator("#pid")).to_have_text("pid 100 + 2 more")
    lanes = page.locator("button.timeline-name")
    expect(lanes).to_have_text(["make 100", "cc1 101", "cc1 102"])
    page.keyboard.press("t")
    page.locator("#by").get_by_role("button", name="Programs").click()
    page.wait_for_function(OUTERMOST, arg=["cc1", "make"])
    expect(lanes.filter(has_text="cc1 × 2")).to_have_count(1)
    page.keyboard.press("Escape")
    lanes.filter(has_text="cc1 × 2").click()
    page.wait_for_function(OUTERMOST, arg=["cc1"])
    expect(page.locator("#threads-label")).to_have_text("4 of 6 threads")
    page.go_back()
    page.wait_for_function(OUTERMOST, arg=["cc1", "make"])
    page.reload()  # the link has all of it
    page.wait_for_function(OUTERMOST, arg=["cc1", "make"])


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("web7", "pid 100 + 2 more on web7"),
        ("web7, web8", "pid 100 + 2 more on web7, web8"),
        ("a, b, c, d", "pid 100 + 2 more on 4 machines"),
    ],
)
def test_machines_are_named_where_it_is_another_one(
    page: Page, host: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = build_tree()
    status = replace(recording.status(), host=host)
    monkeypatch.setattr(recording, "status", lambda: status)
    server = serve(views_of(recording), "127.0.0.1", 0, "secret-token")
    try:
        page.goto(server.url)
        expect(page.locator("#pid")).to_have_text(shown)
    finally:
        server.close()
