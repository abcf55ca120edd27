"""The panel of waits for locks: places, their lines, and the ways from there."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.needs("chromium")


def test_places_lead_to_graph_and_source(open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.locator("#locks-button").click()
    rows = page.locator("#locks .lock-places > li")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("75.0 %")
    expect(rows.first).to_contain_text("2 threads")
    expect(rows.first.locator("code")).to_have_text("lock(<b>);")
    holders = rows.first.locator(".lock-holders li")
    expect(holders).to_have_count(2)
    expect(holders.first).to_contain_text("50.0 %")
    expect(holders.nth(1)).to_have_text("50.0 % nobody, or not known")
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
