"""The panel of waits for locks: places, their lines, and the ways from there."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from flametap.tree.selection import EVERYTHING
from made_server import MadeServer

pytestmark = pytest.mark.needs("chromium")


def test_places_lead_to_graph_and_source(open_page: Callable[..., Page], made: MadeServer) -> None:
    found = made.views.lock_places(EVERYTHING)
    first = found.places[0]
    assert first.held
    page = open_page()
    page.locator("#locks-button").click()
    rows = page.locator("#locks .lock-places > li")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text(f"{100 * first.wait_ns / found.total_ns:.1f} %")
    expect(rows.first).to_contain_text(f"{len(first.thread_ids)} threads")
    expect(rows.first.locator("code")).to_have_text(
        "item[131] = price[131] * amount; // <b>131</b>"
    )
    holders = rows.first.locator(".lock-holders li")
    expect(holders.first).to_contain_text("in worker-2 (41875)")
    expect(holders.last).to_contain_text("nobody, or not known")
    expect(rows.nth(1)).to_contain_text("a lock or another thread")
    name = rows.first.locator("p b").last.text_content()
    assert name
    rows.first.get_by_role("button", name="Show in graph").click()
    page.wait_for_function("() => flametap.getState().clock === 'off-cpu'")
    assert page.evaluate("flametap.getState().search") == f"re:^{name}$"
    rows.first.get_by_role("button", name="Source").click()
    expect(page.locator("#code-name")).to_contain_text(name)
    expect(page.locator("#locks")).to_be_hidden()
    page.keyboard.press("u")
    expect(rows).to_have_count(2)
    page.keyboard.press("u")
    expect(page.locator("#locks")).to_be_hidden()
