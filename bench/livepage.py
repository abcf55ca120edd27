"""Measure a live recording with its page open in Chromium: CPU time, memory, sample to pixel.

    python bench/livepage.py [--quick] [--minutes 10] [--rate 1000] [--threads 16]

One tab shows the flame graph and the timeline of the whole recording. Every half minute the CPU
time is read of the tab's process, of Chromium's others, and of flametap's: that of its threads that
record, and the rest, which is the page's server. Then the program begins new functions at known
moments; the time until the first frame that has the box of one is from its first instruction to the
screen. It is taken in the last ten seconds, where a box is wide at once, and in the whole
recording, where a new function is too narrow to be seen until it has run for a while. Memory is
what belongs to the process alone (RssAnon).

On a busy machine run it before others: ``nice -n -9``. The program has the same priority.

Needs Chromium and playwright (``make dev``).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import benchmark
import browserpages
import programs
import usage
from benchmark import Bench, run
from reporting import Data, Table

if TYPE_CHECKING:
    from playwright.sync_api import Page

HOST = Path(__file__).resolve().with_name("livehost.py")
STEP_S = 30.0
SETTLE_S = 10.0
BURST_MS = 3000  # a new function runs for so long
FRESH = 20  # functions of targets/live.c
PATIENCE_MS = 15_000
WATCH = """(name) => {
  const { graph } = flametap;
  globalThis.fresh = new Promise((done) => {
    const set = Object.getPrototypeOf(graph).setView;
    graph.setView = function (view, ...rest) {
      set.call(this, view, ...rest);
      const { functions, boxes } = view;
      const at = functions.name.indexOf(name);
      if (at < 0 || !boxes.function.includes(at)) return;
      delete graph.setView;
      // The frame that draws it, and then the one after it: by then it is on the screen.
      requestAnimationFrame(() => requestAnimationFrame(() => done(Date.now())));
    };
  });
}"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rate", type=float, default=1000.0, help="Hz")
    parser.add_argument("--threads", type=int, default=16)


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    program = programs.build("live", folder)
    # As this process, also where ``Program`` would reset the priority: a program that gets no CPU
    # makes neither samples nor new functions.
    priority = ["nice", "-n", str(os.nice(0))]
    with programs.Program([*priority, program, str(options.threads)]) as target:
        command = [sys.executable, str(HOST), str(target.pid), str(options.rate)]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as host:
            try:
                return _measured(options, target, host)
            finally:
                host.communicate()


def _measured(
    options: argparse.Namespace, target: programs.Program, host: subprocess.Popen[str]
) -> dict[str, Any]:
    from playwright.sync_api import sync_playwright  # here: the list of benches needs none

    assert host.stdout is not None
    url = host.stdout.readline().strip()
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport=browserpages.WINDOW)
        page.goto(url)
        page.wait_for_function("() => globalThis.flametap?.views.current?.total_ns > 0")
        time.sleep(SETTLE_S)
        series = list(_series(60 * options.minutes, host, target, page))
        seen = {
            "last 10 s": _sample_to_pixel(page, target, "last10000", range(FRESH // 2)),
            "whole recording": _sample_to_pixel(page, target, "", range(FRESH // 2, FRESH)),
        }
        browser.close()
    return {
        "series": series,
        "pixel_ms": seen,
        "settings": {"rate_hz": options.rate, "threads": options.threads},
    }


def _series(
    seconds: float, host: subprocess.Popen[str], target: programs.Program, page: Page
) -> Iterator[dict[str, Any]]:
    """Yield the shares of a core and the memory of each step."""
    processes = browserpages.processes()
    before = _look(host, target, processes)
    begin = before["at"]
    while before["at"] - begin < seconds - 1:
        time.sleep(min(STEP_S, seconds - (before["at"] - begin)))
        now = _look(host, target, processes)
        took_ns = 1e9 * (now["at"] - before["at"])
        shares = {
            name: 100 * (now["cpu_ns"][name] - before["cpu_ns"][name]) / took_ns
            for name in now["cpu_ns"]
        }
        heap = browserpages.heap_mb(page)
        row = {
            "at_s": now["at"] - begin,
            "percent": shares,
            "mb": now["mb"],
            "heap_mb": heap,
            "load": usage.load_average(),
            **{name: now["host"][name] for name in ("state", "samples", "notes")},
        }
        benchmark.say(json.dumps(row))
        yield row
        before = now


def _look(
    host: subprocess.Popen[str], target: programs.Program, processes: dict[int, str]
) -> dict[str, Any]:
    assert host.stdin is not None
    assert host.stdout is not None
    host.stdin.write("\n")
    host.stdin.flush()
    figures = json.loads(host.stdout.readline())
    cpu_ns = {
        "server": figures["cpu_ns"] - figures["capture_ns"],
        "capture": figures["capture_ns"],
        "target": usage.cpu_ns(target.pid),
        **dict.fromkeys(processes.values(), 0),
    }
    mb = {"flametap": usage.status_kb(host.pid, "RssAnon") / 1000}
    for pid, kind in processes.items():
        cpu_ns[kind] += usage.cpu_ns(pid)
        mb[kind] = mb.get(kind, 0) + usage.status_kb(pid, "RssAnon") / 1000
    return {"at": time.monotonic(), "cpu_ns": cpu_ns, "mb": mb, "host": figures}


def _sample_to_pixel(
    page: Page, target: programs.Program, range_: str, numbers: range
) -> list[float | None]:
    """Return the milliseconds from the first instruction of new functions to their boxes.

    None stands for a box that did not come.
    """
    page.evaluate("(range) => flametap.change({ range })", range_)
    page.wait_for_function("(it) => flametap.views.current.asked.range === it", arg=range_)
    found = []
    for number in numbers:
        page.evaluate(WATCH, f"fresh_{number}")
        target.tell(f"{number} {BURST_MS}")
        drawn_ms = page.evaluate(
            "(patience) => Promise.race("
            "[fresh, new Promise((done) => setTimeout(() => done(null), patience))])",
            PATIENCE_MS,
        )
        began_ms = float(target.read_line())
        found.append(None if drawn_ms is None else drawn_ms - began_ms)
        benchmark.say(f"fresh_{number} in {range_ or 'the whole'}: {found[-1]} ms")
    return found


def tables(data: Data) -> list[Table]:
    names = ("tab", "GPU process", "server", "capture", "target")
    rows = []
    for name in names:
        shares = [row["percent"].get(name, 0.0) for row in data["series"]]
        mean = statistics.fmean(shares)
        rows.append([name, f"{mean:.1f}", f"{min(shares):.1f} … {max(shares):.1f}"])
    series, settings = data["series"], data["settings"]
    remark = (
        f"{settings['threads']} threads at {settings['rate_hz']:.0f} Hz for"
        f" {series[-1]['at_s'] / 60:.1f} minutes, in windows of half a minute; load"
        f" {min(row['load'] for row in series):.1f} to {max(row['load'] for row in series):.1f}."
        " The server is flametap's process without the threads that record. Bars: tab 10 %,"
        " server 5 %."
    )
    marks = [series[0], series[len(series) // 2], series[-1]]
    memory = [
        [
            f"{mark['at_s'] / 60:.1f}",
            *(f"{mark['mb'].get(name, 0):.0f}" for name in ("flametap", "tab")),
            f"{mark['heap_mb']:.1f}",
        ]
        for mark in marks
    ]
    pixel = [
        [name, f"{len(_seen(ms))} of {len(ms)}", *_spread(_seen(ms))]
        for name, ms in data["pixel_ms"].items()
    ]
    return [
        Table("A live page", ("process", "% of a core", "range"), rows, remark),
        Table("Memory with a live page", ("minute", "flametap, MB", "tab, MB", "heap, MB"), memory),
        Table(
            "From the first instruction of a new function to its box",
            ("shown", "seen", "median, s", "least, s", "most, s"),
            pixel,
            "Bar: 1 s. In a long recording, a function needs half a pixel's share to have a box.",
        ),
    ]


def _seen(ms: list[float | None]) -> list[float]:
    return [each for each in ms if each is not None]


def _spread(ms: list[float]) -> list[str]:
    if not ms:
        return ["", "", ""]
    return [f"{each / 1000:.2f}" for each in (statistics.median(ms), min(ms), max(ms))]


BENCH = Bench(
    "livepage",
    "a live recording with its page open in Chromium: CPU time, memory, sample to pixel",
    arguments,
    measure,
    tables,
    minutes=10.0,
)

if __name__ == "__main__":
    run(BENCH)
