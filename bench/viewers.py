"""Open recordings in other viewers, in Chromium: speedscope and Firefox Profiler."""

from __future__ import annotations

import contextlib
import functools
import http.server
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import benchmark
import browserpages

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SPEEDSCOPE = "1.25.0"
PATIENCE_MS = 120_000
BY_STACK, BY_TIME, FOR_FIREFOX = "stacks.folded", "time.speedscope.json", "time.firefox.json"
_DIGITS = "0123456789abcdefghijklmnopqrstuv"

Launch = Callable[[], "Browser"]
Found = dict[str, Any]


def speedscope(launch: Launch, folder: Path) -> Found:
    """Open the files of a folder in speedscope, in a browser of its own for each."""
    npm = shutil.which("npm")
    if npm is None:
        return {"missing": "npm is not installed"}
    pack = [npm, "pack", "--silent", f"speedscope@{SPEEDSCOPE}"]
    try:
        subprocess.run(pack, cwd=folder, check=True, capture_output=True, timeout=120)
    except subprocess.SubprocessError as error:
        return {"missing": f"npm: {error}"}
    archive = folder / f"speedscope-{SPEEDSCOPE}.tgz"
    subprocess.run(["tar", "-xzf", archive, "-C", folder], check=True)
    with _serving(folder) as site:
        page = f"{site}/package/dist/release/index.html#profileURL={site}"
        found = {}
        for name in (BY_STACK, BY_TIME):
            found[name] = _opened(launch, folder / name, f"{page}/{name}", _use_speedscope)
            benchmark.say(f"speedscope, {name}: {found[name]}")
        return found


def firefox(launch: Launch, folder: Path, built: Path | None, n_threads: int) -> Found:
    """Open the file of a folder in Firefox Profiler: first one thread, then all of them.

    Args:
        launch: starts a browser.
        folder: has the files.
        built: the viewer, as its ``yarn build-prod`` makes it; None if there is none.
        n_threads: in the file, at most 32.
    """
    if built is None:
        return {"missing": "no --firefox-profiler"}
    all_threads = f"/calltree/?thread=0w{_DIGITS[n_threads - 1]}&v=17"
    with _serving(folder) as data, _serving(built, fallback="/index.html") as site:
        page = f"{site}/from-url/" + quote(f"{data}/{FOR_FIREFOX}", safe="")
        found = {}
        for what, address in ((f"one of {n_threads} threads", page), ("all", page + all_threads)):
            found[what] = _opened(launch, folder / FOR_FIREFOX, address, _use_firefox)
            benchmark.say(f"Firefox Profiler, {what}: {found[what]}")
        return found


def _opened(
    launch: Launch, file: Path, address: str, use: Callable[[Page], Iterator[Found]]
) -> Found:
    """Open a file and use it as far as the page lives."""
    found: Found = {"size_mb": file.stat().st_size / 1e6}
    with contextlib.closing(launch()) as browser:
        page = browser.new_page(viewport=browserpages.WINDOW)
        page.set_default_timeout(PATIENCE_MS)
        began = time.monotonic()
        try:
            page.goto(address, wait_until="commit")
            for seen in use(page):
                found.setdefault("paint_ms", 1000 * (time.monotonic() - began))
                found.update(seen)
            found.update(mb=browserpages.tab_mb(), heap_mb=browserpages.heap_mb(page))
        except Exception as error:
            found["error"] = str(error).splitlines()[0]
    return found


def _use_speedscope(page: Page) -> Iterator[Found]:
    # The switch of views is there when the graph is; an alert says that it cannot be read.
    page.get_by_text("Left Heavy").first.wait_for()
    page.evaluate(browserpages.TWO_FRAMES)
    changes: dict[str, float] = {}
    yield {"changes": changes}
    for what, key in (("left heavy", "2"), ("sandwich", "3"), ("time order", "1")):
        changes[what] = _timed(page, functools.partial(page.keyboard.press, key))
    middle = browserpages.WINDOW["width"] / 2, browserpages.WINDOW["height"] / 2
    scrolled = browserpages.wheel(page, *middle, 40)
    page.keyboard.down("Control")
    zoomed = browserpages.wheel(page, *middle, -30)
    page.keyboard.up("Control")
    yield {"frames": {"scroll": scrolled, "zoom": zoomed}}


def _use_firefox(page: Page) -> Iterator[Found]:
    page.locator(".treeViewRow").first.wait_for()
    page.evaluate(browserpages.TWO_FRAMES)
    changes: dict[str, float] = {}
    yield {"changes": changes}
    for tab in ("Flame Graph", "Stack Chart", "Call Tree"):
        button = page.get_by_role("tab", name=tab)
        changes[tab.lower()] = _timed(page, button.click)
    invert = page.get_by_label("Invert call stack")
    for what in ("upside down", "upright"):
        changes[what] = _timed(page, invert.click)
    changes["search"] = _timed(page, lambda: page.get_by_role("searchbox").fill("function_12"))
    page.get_by_role("searchbox").fill("")
    page.get_by_role("tab", name="Flame Graph").click()
    page.evaluate(browserpages.TWO_FRAMES)
    middle = browserpages.WINDOW["width"] / 2, browserpages.WINDOW["height"] * 0.7
    yield {"frames": {"scroll": browserpages.wheel(page, *middle, 40)}}


def _timed(page: Page, change: Callable[[], None]) -> float:
    """Return the milliseconds until a change is on the screen."""
    began = time.monotonic()
    change()
    page.evaluate(browserpages.TWO_FRAMES)
    return 1000 * (time.monotonic() - began)


class _Handler(http.server.SimpleHTTPRequestHandler):
    fallback = ""

    def do_GET(self) -> None:
        """Serve a file; where there is none, the fallback: a page with addresses of its own."""
        path = self.path.partition("?")[0]
        if self.fallback and not Path(self.translate_path(path)).is_file():
            self.path = self.fallback
        super().do_GET()

    def end_headers(self) -> None:
        """Let pages of other servers read it."""
        self.send_header("Access-Control-Allow-Origin", "*")
        super().end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def _serving(folder: Path, fallback: str = "") -> Iterator[str]:
    kind = type("Handler", (_Handler,), {"fallback": fallback})
    handler = functools.partial(kind, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
