"""Measure the page with a big recording in Chromium, and other viewers with the same data.

    python bench/bigpage.py [--quick] [--intervals 10000000] [--traces 100000] [--threads 32]
                            [--firefox-profiler DIST]

Needs no target. The recording is made up (bighost.py). Times are those of a user: from the change
to the second frame after the view came, so that it is on the screen. Each change is one that the
server meets for the first time. Frames are those that the browser draws while the wheel turns or a
zoom moves, once every 16 ms; the slowest is the longest time between two. Memory is what belongs to
the tab alone (RssAnon).

speedscope comes from npm; it shows the folded stacks of the same recording, and the file in order
of time if it can open that within two minutes. Firefox Profiler has no package: clone
firefox-devtools/profiler, ``yarn install && yarn build-prod``, and give its ``dist`` folder to
--firefox-profiler. It shows one thread, then all (merged, it counts samples instead of time).

Needs Chromium, playwright (``make dev``), npm.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import benchmark
import browserpages
import viewers
from benchmark import Bench, run
from reporting import Data, Table

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HOST = Path(__file__).resolve().with_name("bighost.py")
PATIENCE_MS = 120_000
READY = "() => globalThis.flametap?.views.current?.total_ns > 0 && !flametap.graph.frame"
# Sets a part of the state; resolves to the milliseconds until what ``done`` waits for is drawn.
CHANGE = """async ([patch, done]) => {
  const isDone = new Function('before', `return ${done}`);
  const frame = () => new Promise((go) => requestAnimationFrame(go));
  const before = { view: flametap.views.current, lanes: flametap.timeline.lanes };
  const began = performance.now();
  flametap.change(patch);
  while (!isDone(before)) {
    if (performance.now() - began > 60_000) throw new Error(`never: ${done}`);
    await frame();
  }
  await frame();
  await frame();
  return performance.now() - began;
}"""
VIEW = "flametap.views.current !== before.view"
HEAVIEST = """(depth) => {
  // The path of the widest box of a row.
  const view = flametap.views.current;
  const [first, end] = view.rowRange(Math.min(depth, view.deepest_row));
  let widest = first;
  for (let box = first; box < end; box++) {
    if (!view.isRun(box) && view.width(box) > view.width(widest)) widest = box;
  }
  return view.pathOf(widest);
}"""
ZOOM_MS = 400
SETTLE_MS = 1000
HALVES = "flametap.shaping.sandwich.halves.every(({ views }) => views.current?.total_ns >= 0)"
ROWS = "flametap.shaping.table.rows.list().length > 0"
# In this order. A range, threads and a clock make another tree; the others change one.
CHANGES: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("clock: wall", {"clock": "wall"}, VIEW),
    ("clock: off-CPU", {"clock": "off-cpu"}, VIEW),
    ("range: a tenth", {"clock": "cpu", "range": "TENTH"}, VIEW),
    ("range: half", {"range": "HALF"}, VIEW),
    ("four threads", {"range": "", "threads": [1, 2, 3, 4]}, VIEW),
    ("all threads again", {"threads": []}, VIEW),
    ("search", {"search": "function_12"}, VIEW),
    ("zoom", {"search": "", "zoom": "HEAVIEST"}, VIEW),
    ("table of functions", {"zoom": [], "tab": "functions"}, VIEW),
    ("tree table", {"tab": "tree"}, ROWS),
    ("hide a function", {"tab": "graph", "shape": ["hide:function_12@libx.so"]}, VIEW),
    ("fold chains", {"shape": ["chains"]}, VIEW),
    ("upside down", {"shape": ["inverted"]}, VIEW),
    ("callers and callees", {"shape": [], "sandwich": "function_12@libx.so"}, HALVES),
    ("compare two ranges", {"sandwich": "", "range": "TENTH", "compare": "HALF"}, VIEW),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--intervals", type=int, default=10_000_000)
    parser.add_argument("--traces", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=32, choices=range(1, 33), metavar="1-32")
    parser.add_argument("--firefox-profiler", type=Path, metavar="DIST", help="its build")


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    from playwright.sync_api import sync_playwright  # here: the list of benches needs none

    intervals = options.intervals // 20 if options.quick else options.intervals
    settings = [intervals, options.traces, options.threads]
    command = [sys.executable, HOST, *settings, folder]
    pipe = subprocess.PIPE
    with subprocess.Popen(list(map(str, command)), stdin=pipe, stdout=pipe, text=True) as host:
        try:
            assert host.stdout is not None
            facts = json.loads(host.stdout.readline())
            benchmark.say(f"served: {facts['samples']:,} samples, {facts['nodes']:,} nodes")
            with sync_playwright() as driver:
                launch = functools.partial(
                    driver.chromium.launch,
                    executable_path=shutil.which("chromium"),
                    args=["--no-sandbox"],
                )
                with contextlib.closing(launch()) as browser:
                    ours = _ours(browser, facts)
                viewers_of = {
                    f"speedscope {viewers.SPEEDSCOPE}": viewers.speedscope(launch, folder),
                    "Firefox Profiler": viewers.firefox(
                        launch, folder, options.firefox_profiler, options.threads
                    ),
                }
        finally:
            host.communicate()
    return {"facts": facts, "ours": ours, "viewers": viewers_of}


def _ours(browser: Browser, facts: dict[str, Any]) -> dict[str, Any]:
    page = browser.new_page(viewport=browserpages.WINDOW)
    began = time.monotonic()
    page.goto(facts["url"], wait_until="commit")
    page.wait_for_function(READY, timeout=PATIENCE_MS)
    page.evaluate(browserpages.TWO_FRAMES)
    paint_ms = 1000 * (time.monotonic() - began)
    benchmark.say(f"first paint: {paint_ms:.0f} ms")
    page.wait_for_function("() => flametap.timeline.lanes && flametap.feed.status")
    changes = {}
    for what, patch, done in CHANGES:
        filled = {name: _filled(page, value) for name, value in patch.items()}
        changes[what] = page.evaluate(CHANGE, [filled, done])
        benchmark.say(f"{what}: {changes[what]:.0f} ms")
        page.wait_for_timeout(SETTLE_MS)  # timeline and others have asked, too
    page.evaluate(CHANGE, [{"range": "", "compare": "", "zoom": []}, VIEW])
    frames = _frames(page)
    for what, each in frames.items():
        benchmark.say(f"{what}: {each}")
    return {
        "paint_ms": paint_ms,
        "changes": changes,
        "frames": frames,
        "mb": browserpages.tab_mb(),
        "heap_mb": browserpages.heap_mb(page),
    }


def _filled(page: Page, value: Any) -> Any:
    """Return a part of the state with what stands for parts of this recording replaced."""
    if value == "HEAVIEST":
        return page.evaluate(HEAVIEST, 3)
    duration_ms: float = page.evaluate("flametap.feed.status.duration_ns / 1e6")
    spans = {"TENTH": (0.2, 0.3), "HALF": (0.4, 0.9)}
    if isinstance(value, str) and value in spans:
        return "-".join(f"{duration_ms * share:.0f}" for share in spans[value])
    return value


def _frames(page: Page) -> dict[str, Any]:
    """Return the frames of what moves: wheels, and ten zooms in and out."""
    found = {}
    for what, element, delta in (
        ("scroll the graph", "#scroller", 40),
        ("zoom the timeline", "#timeline-plot", -30),
    ):
        box = page.locator(element).bounding_box()
        assert box is not None
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        found[what] = browserpages.wheel(page, x, y, delta)
    path = page.evaluate(HEAVIEST, 6)
    page.evaluate(browserpages.COUNT_FRAMES)
    for turn in range(10):
        page.evaluate("(zoom) => flametap.change({ zoom })", [] if turn % 2 else path)
        page.wait_for_timeout(ZOOM_MS)
    found["zoom the graph"] = browserpages.frames(page)
    return found


def tables(data: Data) -> list[Table]:
    facts, ours = data["facts"], data["ours"]
    rows = [["first paint", f"{ours['paint_ms']:.0f}", "1000"]]
    rows += [[what, f"{ms:.0f}", "500"] for what, ms in ours["changes"].items()]
    remark = (
        f"{facts['samples']:,} samples, {facts['nodes']:,} nodes in the tree; each the first"
        " time, to the second frame after the answer. The tab has"
        f" {ours['mb']:.0f} MB of its own ({ours['heap_mb']:.0f} MB objects); the bar is 200 MB."
    )
    moved = [["flametap", *_moved(what, each)] for what, each in ours["frames"].items()]
    opened = []
    for viewer, files in data["viewers"].items():
        if "missing" in files:
            opened.append([viewer, "", "", files["missing"], "", ""])
            continue
        for name, each in files.items():
            opened.append([viewer, name, f"{each['size_mb']:.0f}", *_opened(each)])
            frames = each.get("frames", {})
            moved += [[f"{viewer}, {name}", *_moved(*item)] for item in frames.items()]
    return [
        Table("The page with a big recording", ("change", "ms", "bar"), rows, remark),
        Table(
            "The same recording in other viewers",
            (
                *("viewer", "file", "size, MB", "first paint, ms"),
                *("slowest change of view, ms", "tab, MB"),
            ),
            opened,
            "From a server on this machine.",
        ),
        Table(
            "Frames while something moves",
            ("page", "what", "frames a second", "slowest, ms"),
            moved,
            "The bar is 30 frames a second.",
        ),
    ]


def _opened(each: dict[str, Any]) -> list[str]:
    painted = f"{each['paint_ms']:.0f}" if "paint_ms" in each else "never"
    if "error" in each:
        return [painted, each["error"], ""]
    what, worst_ms = max(each["changes"].items(), key=lambda item: item[1])
    return [painted, f"{worst_ms:.0f} ({what})", f"{each['mb']:.0f}"]


def _moved(what: str, each: dict[str, Any]) -> list[str]:
    return [what, f"{each['per_s']:.0f}", f"{each['slowest_ms']:.0f}"]


BENCH = Bench(
    "bigpage",
    "the page with 10⁷ samples, 10⁵ stacks, 10⁶ nodes in Chromium, and other viewers with the same",
    arguments,
    measure,
    tables,
)

if __name__ == "__main__":
    run(BENCH)
