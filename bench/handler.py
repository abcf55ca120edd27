"""Measure how much longer the signal handler takes where it reads frames of a runtime.

    python bench/handler.py [--quick] [--minutes 4] [--rate 1000] [--pythons COMMAND…]

One thread is busy below so many functions of its own: Python's, Java's or JavaScript's. The agent
times its own handler, with and without these frames, in the same process: then the runtime is not
looked for, and its functions are native frames as far as they can be unwound. Which of the two is
measured first alternates.

Pythons are those of pyenv, or this one. Needs java and javac, node; what is missing is left out.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import benchmark
from benchmark import Bench, run
from flametap.capture import live
from flametap.capture.capture_options import CaptureOptions
from flametap.model import MANAGED_KINDS, Clock
from flametap.symbols.interpreters.search import Interpreters
from flametap.tree.calltree import build
from programs import TARGETS, Program
from reporting import Data, Table
from stats import spread_text

SETTLE_S = 1.0  # the first signals meet code without names
PYTHON_FRAMES, FRAMES = 10, 40
JAVA = ("-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,Deep.descend")


class Target(NamedTuple):
    """A program, and what it is called."""

    name: str
    frames: int
    command: tuple[str, ...]


class NoInterpreters(Interpreters):
    """Interpreters that are not looked for."""

    def look(self) -> list[Any]:
        """Return none."""
        return []


def arguments(parser: argparse.ArgumentParser) -> None:
    pyenv = sorted(Path.home().glob(".pyenv/versions/3.*/bin/python"), key=_version)
    known = [str(each) for each in pyenv if _version(each) >= (3, 8)]
    parser.add_argument("--pythons", nargs="*", default=known or [sys.executable])
    parser.add_argument("--rate", type=float, default=1000.0, help="Hz")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a window")


def _version(python: Path) -> tuple[int, ...]:
    return tuple(int(each) for each in python.parts[-3].split(".") if each.isdigit())


def targets(pythons: list[str], folder: Path) -> list[Target]:
    """Return the programs that can be run here."""
    found = []
    for python in pythons:
        asked = subprocess.run([python, "--version"], capture_output=True, text=True, check=False)
        name = f"C{asked.stdout.strip()}"
        found.append(Target(name, PYTHON_FRAMES, (python, str(TARGETS / "deep.py"))))
    java, node = shutil.which("java"), shutil.which("node")
    if java and shutil.which("javac"):
        subprocess.run(["javac", "-d", str(folder), str(TARGETS / "Deep.java")], check=True)
        program = ("-cp", str(folder), "Deep")
        found.append(Target("Java, compiled", FRAMES, (java, *JAVA, *program)))
        found.append(Target("Java, interpreted", FRAMES, (java, "-Xint", *program)))
    if node:
        script = str(TARGETS / "deep.cjs")
        interpreted = ("--no-opt", "--no-sparkplug", "--max-lazy")
        found.append(Target("node, optimised", FRAMES, (node, script)))
        found.append(Target("node, interpreted", FRAMES, (node, *interpreted, script)))
    return found


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    if options.quick:
        options.seconds, options.pythons = 1.0, options.pythons[-1:]
    windows: list[dict[str, Any]] = []
    for number, target in benchmark.interleaved(targets(options.pythons, folder), options.minutes):
        try:
            with Program([*target.command, str(target.frames)]) as program:
                for has_frames in (True, False) if number % 2 else (False, True):
                    one = _watch(program.pid, options, has_frames=has_frames)
                    windows.append({"name": target.name, "has_frames": has_frames, **one})
                    benchmark.say(f"{target.name}: {windows[-1]}")
        except benchmark.FAILURES as error:
            benchmark.say(f"{target.name}: {error}")
            windows.append({"name": target.name, "error": f"{error}"[:200]})
    return {"windows": windows, "settings": {"rate_hz": options.rate}}


def _watch(pid: int, options: argparse.Namespace, *, has_frames: bool) -> dict[str, Any]:
    interpreters = Interpreters if has_frames else NoInterpreters
    settings = CaptureOptions(rate_hz=options.rate, budget_ppm=0)
    capture = live.Capture(pid, settings)
    with patch.object(live, "Interpreters", interpreters), contextlib.closing(capture):
        capture.start()
        time.sleep(SETTLE_S)
        first = capture.status().counters
        time.sleep(options.seconds)
        last = capture.status().counters
        capture.stop()
        capture.finish_symbols(30)
        handled = last["signals_handled"] - first["signals_handled"]
        spent_ns = last["handler_ns_total"] - first["handler_ns_total"]
        if not handled:
            raise RuntimeError("no signal was handled")
        return {
            "mean_ns": spent_ns / handled,
            "handled": handled,
            "frames": _frames(capture),
        }


def _frames(capture: live.Capture) -> int:
    """Return the number of the runtime's functions in the heaviest stack."""
    tree = build(capture.profile, capture.names, Clock.CPU)
    node, count = int(tree.self_ns.argmax()), 0
    while node > 0:
        count += tree.functions[tree.function[node]].kind in MANAGED_KINDS
        node = int(tree.parent[node])
    return count


def tables(data: Data) -> list[Table]:
    rows = []
    for name in dict.fromkeys(one["name"] for one in data["windows"]):
        ours = [one for one in data["windows"] if one["name"] == name and "mean_ns" in one]
        with_frames = [one for one in ours if one["has_frames"]]
        without = [one["mean_ns"] for one in ours if not one["has_frames"]]
        means = [one["mean_ns"] for one in with_frames]
        if not means or not without:
            rows.append([name, *[""] * 4])
            continue
        pairs = [a - b for a, b in zip(means, without, strict=False)]
        frames = max(one["frames"] for one in with_frames)
        rows.append(
            [
                name,
                f"{frames}",
                spread_text(means, 2, 1e-3),
                spread_text(without, 2, 1e-3),
                spread_text(pairs, 2, 1e-3),
            ]
        )
    columns = ("program", "frames", "with them, µs", "without, µs", "difference, µs")
    rate = data["settings"]["rate_hz"]
    remark = (
        f"Mean of a window at {rate:.0f} Hz; median (range) over windows. Without the runtime's"
        " frames, native ones are read as far as they go: with Java and JavaScript, not far."
    )
    return [Table("Signal handler: frames of a runtime", columns, rows, remark)]


BENCH = Bench(
    "handler",
    "time in the signal handler with 10 frames of Python, 40 of Java or JavaScript, and without",
    arguments,
    measure,
    tables,
    minutes=4,
)

if __name__ == "__main__":
    run(BENCH)
