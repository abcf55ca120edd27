"""The page of several recordings: the switch, and the comparison of each with any other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from playwright.sync_api import Browser, Page, expect

from flametap.analysis.views import Views, views_of
from flametap.errors import InputError
from flametap.web.recordings import File, Recordings
from flametap.web.server import Server, serve
from made_programs import program

pytestmark = pytest.mark.needs("chromium")

SHARES: dict[str, dict[str, float]] = {
    "monday": {"parse": 9.0},
    "tuesday": {"match": 9.0},
    "wednesday": {"emit": 9.0},
}
HEAVIEST = """(name) => {
  const view = globalThis.flametap?.views.current;
  if (!view) return false;
  const { function: function_, self_ns: own } = view.boxes;
  const widest = [...own.keys()].reduce((best, at) => (own[at] > own[best] ? at : best), 0);
  return view.functions.name[function_[widest]] === name;
}"""
READY = "() => globalThis.flametap?.views.current?.total_ns > 0"
COMPARISON = "() => globalThis.flametap?.views.current?.comparison"


def damaged() -> Views:
    raise InputError("thursday.flametap is damaged: it is empty", "record again")


@pytest.fixture
def server() -> Iterator[Server]:
    recordings = [program(shares, seed) for seed, shares in enumerate(SHARES.values())]
    files = [
        File(f"{name}.flametap", partial(views_of, each))
        for name, each in zip(SHARES, recordings, strict=True)
    ]
    shown = Recordings([*files, File("thursday.flametap", damaged)])
    server = serve(shown, "127.0.0.1", 0, "secret-token")
    yield server
    server.close()


def switch(page: Page, name: str) -> None:
    page.locator("#files-button").click()
    page.get_by_role("link", name=name).click()


def test_page_switches_between_files(open_page: Callable[..., Page]) -> None:
    page = open_page("#clock=wall&zoom=main@prog&q=emit&range=0-20000&shape=chains")
    page.wait_for_function(HEAVIEST, arg="parse")
    expect(page.locator("#files-button")).to_have_text("monday.flametap")
    switch(page, "tuesday")
    expect(page.locator("#files-button")).to_have_text("tuesday.flametap")
    page.wait_for_function(HEAVIEST, arg="match")
    expect(page).to_have_title(re.compile("^tuesday.flametap · "))
    kept = page.evaluate("location.hash")
    assert kept == "#clock=wall&zoom=main@prog&shape=chains&q=emit"
    page.reload()
    page.wait_for_function(HEAVIEST, arg="match")
    assert page.evaluate("location.hash") == kept
    expect(page.locator("#files-button")).to_have_text("tuesday.flametap")

    # By the keyboard, to the third: compare it with the first.
    page.locator("#files-button").focus()
    for key in ("Enter", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    expect(page.locator("#files-button")).to_have_text("wednesday.flametap")
    page.wait_for_function(HEAVIEST, arg="emit")
    page.get_by_role("button", name="Compare with monday.flametap").click()
    page.wait_for_function(COMPARISON)
    expect(page.locator("#compare .chip-target")).to_have_text("monday.flametap")
    page.keyboard.press("f")
    rows = page.locator("#changes tbody tr")
    expect(rows.first).to_contain_text("emit")
    expect(page.locator("#changes thead")).to_contain_text("monday.flametap")
    page.reload()
    expect(page.locator("#compare .chip-target")).to_have_text("monday.flametap")

    # What it was compared with is compared with it.
    switch(page, "monday")
    expect(page.locator("#files-button")).to_have_text("monday.flametap")
    expect(page.locator("#compare .chip-target")).to_have_text("wednesday.flametap")
    expect(rows.first).to_contain_text("▼")  # less of emit
    page.go_back()
    expect(page.locator("#files-button")).to_have_text("wednesday.flametap")
    page.wait_for_function(HEAVIEST, arg="emit")


def test_file_that_cannot_be_opened_is_said(browser: Browser, server: Server) -> None:
    page = browser.new_page()
    try:
        page.goto(server.url)
        page.wait_for_function(READY)
        page.locator("#files-button").click()
        page.get_by_role("link", name="thursday").click()
        expect(page.locator("#toast")).to_contain_text("thursday.flametap is damaged")
        expect(page.locator("#files-button")).to_have_text("monday.flametap")
        page.wait_for_function(HEAVIEST, arg="parse")
    finally:
        page.close()
