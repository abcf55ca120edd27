"""Pages in Chromium: its processes and their memory, and the frames that it draws."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import usage

if TYPE_CHECKING:
    from playwright.sync_api import Page, ViewportSize

WINDOW: ViewportSize = {"width": 1440, "height": 900}
TWO_FRAMES = "() => new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))"
# Notes when each frame began until ``stopFrames`` returns the milliseconds between them.
COUNT_FRAMES = """() => {
  const at = [];
  let isOn = true;
  const frame = (now) => { at.push(now); if (isOn) requestAnimationFrame(frame); };
  requestAnimationFrame(frame);
  globalThis.stopFrames = () => { isOn = false; return at.slice(1).map((now, i) => now - at[i]); };
}"""
WHEEL_GAP_MS = 16


def processes() -> dict[int, str]:
    """Return the processes of Chromium below this one, by what they do."""
    found = {}
    for pid in _below(os.getpid()):
        command = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
        if "--type=renderer" in command:
            found[pid] = "tab"
        elif "--type=gpu-process" in command:
            found[pid] = "GPU process"
        elif "--type=" in command and "chrom" in command:
            found[pid] = "other Chromium"
    return found


def _below(pid: int) -> Iterator[int]:
    children = Path(f"/proc/{pid}/task").glob("*/children")
    for child in {int(each) for path in children for each in path.read_text().split()}:
        yield child
        yield from _below(child)


def tab_mb() -> float:
    """Return what belongs to the largest tab alone, in MB."""
    tabs = [pid for pid, kind in processes().items() if kind == "tab"]
    return max(usage.status_kb(pid, "RssAnon") for pid in tabs) / 1000


def heap_mb(page: Page) -> float:
    """Return the size of a page's JavaScript objects, in MB."""
    return float(page.evaluate("performance.memory.usedJSHeapSize")) / 1e6


def wheel(page: Page, x: float, y: float, delta_y: float, turns: int = 60) -> dict[str, Any]:
    """Turn the wheel at a place, half of the turns to each side; return the frames meanwhile."""
    page.mouse.move(x, y)
    page.evaluate(COUNT_FRAMES)
    for turn in range(turns):
        page.mouse.wheel(0, delta_y if turn < turns / 2 else -delta_y)
        page.wait_for_timeout(WHEEL_GAP_MS)
    return frames(page)


def frames(page: Page) -> dict[str, Any]:
    """End ``COUNT_FRAMES``; return frames a second, and the longest time between two."""
    gaps: list[float] = page.evaluate("stopFrames()")
    return {"per_s": 1000 / statistics.fmean(gaps), "slowest_ms": max(gaps), "frames": len(gaps)}
