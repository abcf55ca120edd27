"""The page of a recording beside another one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from flametap.web.server import Server, serve
from made_programs import program
from served import served

pytestmark = pytest.mark.needs("chromium")

CHANGES = "() => flametap.views.current.comparison && flametap.views.current.functions.name"


@pytest.fixture
def server() -> Iterator[Server]:
    before, after = program({}, 1), program({"match": 1.6}, 2)
    server = serve(served(after=after, before=before), "127.0.0.1", 0, "secret-token")
    yield server
    server.close()


def test_other_file_is_compared_with_and_left_again(open_page: Callable[..., Page]) -> None:
    page = open_page("#compare=file")
    expect(page.locator("#compare")).to_contain_text("Compared with")
    expect(page.locator("#compare")).to_contain_text("before.flametap")
    page.wait_for_function(CHANGES)
    page.keyboard.press("f")
    rows = page.locator("#changes tbody tr")
    expect(rows.first).to_contain_text("match")
    page.get_by_role("button", name="Undo: comparison").click()
    page.wait_for_function("() => !flametap.views.current.comparison")
    page.get_by_role("button", name="Compare with before.flametap").click()
    page.wait_for_function(CHANGES)
    assert "compare=file" in page.url
