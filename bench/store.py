"""Measure memory and view times of the profile store with 10^7 intervals and 10^5 stacks.

    python bench/store.py [--quick] [--intervals 10000000] [--traces 100000] [--threads 32]

Needs no target. The stacks resemble those of a real program: neighbours share most of their
callers, and functions are called from several lines. Each stack occurs in one to three threads.
Memory is that of the process, less an empty interpreter with numpy, measured after each step; time
is CPU time of its only thread.
"""

from __future__ import annotations

import argparse
import ctypes
import io
import random
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import benchmark
from benchmark import Bench, run
from flametap.export import folded
from flametap.export.request import ExportRequest
from flametap.model import MANAGED, Clock, Frame, FrameKind, Function, Module, Split, Verdict
from flametap.recording.names.table import SymbolTable
from flametap.recording.profile.store import Profile
from flametap.recording.recording import Recording
from flametap.tree import calltree
from flametap.tree.frame_filter import FrameFilter, Language
from flametap.wire import abi
from flametap.wire.events import INTERVAL_DTYPE, Batch, ModuleUpdate, Trace
from reporting import Data, Table

BATCH_ROWS = 5_000
NO_ROWS = np.empty(0, INTERVAL_DTYPE)
FUNCTIONS = 3_000
CALL_SITES = 8  # different return addresses in one function
RENEWED = (1, 1, 1, 2, 2, 3, 4, 6, 8, 12)


def resident_mb() -> float:
    """Return the memory of this process in MB, after malloc has released its free memory."""
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6


def stacks(n: int, renewed: Sequence[int] = RENEWED) -> Iterator[npt.NDArray[np.uint64]]:
    """Yield ``n`` different stacks, leaf first: each shares most callers with the one before.

    ``renewed`` are numbers of callees that it does not share, each as likely.
    """
    rng = random.Random(1)
    stack: list[int] = []
    for number in range(n):
        del stack[max(0, len(stack) - rng.choice(renewed)) :]
        for _ in range(rng.randint(20, 40) - len(stack)):
            function = int(FUNCTIONS * rng.random() ** 3)
            stack.append(1 << 40 | function << 8 | rng.randrange(CALL_SITES))
        stack[-1] = 1 << 40 | (number % FUNCTIONS) << 8 | rng.randrange(CALL_SITES)
        yield np.array(stack[::-1], np.uint64)


def rows(
    rng: np.random.Generator, batch: int, n_traces: int, n_threads: int
) -> npt.NDArray[np.void]:
    """Make one batch of intervals: one in ten asleep, for up to ten seconds."""
    found = np.zeros(BATCH_ROWS, INTERVAL_DTYPE)
    trace = rng.integers(0, n_traces, BATCH_ROWS)
    found["trace_id"] = 1 + trace
    found["thread_id"] = 1 + (trace + rng.integers(0, 3, BATCH_ROWS)) % n_threads
    asleep = rng.random(BATCH_ROWS) < 0.1
    found["state"] = np.where(asleep, 2, 1)
    found["sysno"] = np.where(asleep, 202, -1)
    found["wall_ns"] = np.where(asleep, rng.integers(1, 10**10, BATCH_ROWS), 10_000_000)
    found["cpu_ns"] = np.where(asleep, 0, rng.integers(9_900_000, 10_000_000, BATCH_ROWS))
    found["samples"] = 1
    tick = batch * BATCH_ROWS // n_threads
    found["t0_ns"] = 10**9 + (tick + np.arange(BATCH_ROWS) // n_threads) * 10_000_000
    return found


def mixed(frames: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Turn a native stack into one of Python: of four frames, two are Python, one is the loop."""
    at = np.arange(len(frames))[::-1] % 4  # from the root
    code, line = frames >> np.uint64(8) & np.uint64(0xFFFFFF), frames & np.uint64(0xFF)
    python = (
        np.uint64(abi.FRAME_KIND_MANAGED << abi.FRAME_KIND_SHIFT) | line << np.uint64(32) | code
    )
    loop = np.uint64(abi.FRAME_KIND_EVAL << abi.FRAME_KIND_SHIFT | 1 << 40 | 0x77)
    return np.select([(at == 1) | (at == 2), at == 3], [python, np.full_like(frames, loop)], frames)


def name_all(profile: Profile, table: SymbolTable) -> None:
    """Name all addresses; one in five has an inlined frame."""
    for address_id, frame in profile.news().addresses:
        if frame.module_id == MANAGED:
            name, path = f"function_{frame.code_id}", f"app/module_{frame.code_id % 50}.py"
            python = Function(name, path, f"/srv/{path}", FrameKind.PYTHON)
            table.set(address_id, [Frame(python, frame.position)])
            continue
        number = frame.addr >> 8
        frames = [Frame(Function(f"function_{number}", "libx.so", "x.c"), frame.addr & 0xFF)]
        if address_id % 5 == 0:
            name = f"inlined_{number % 100}"
            frames.append(Frame(Function(name, "libx.so", "y.h", FrameKind.INLINED), 3))
        table.set(address_id, frames)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--intervals", type=int, default=10_000_000)
    parser.add_argument("--traces", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=32)


def measure(options: argparse.Namespace, _folder: Path) -> dict[str, Any]:
    """Fill a profile and measure all of its views."""
    if options.quick:
        options.intervals = min(options.intervals, 1_000_000)
    empty_mb = resident_mb()
    steps: list[dict[str, Any]] = []

    def step(what: str, work: Callable[[], Any]) -> Any:
        start = time.thread_time()
        result = work()
        took_s = time.thread_time() - start
        steps.append({"what": what, "seconds": took_s, "held_mb": resident_mb() - empty_mb})
        benchmark.say(f"{what}: {took_s:.3f} s, {steps[-1]['held_mb']:.0f} MB held")
        return result

    profile = Profile()
    module = ModuleUpdate(Module(1, "/usr/lib/libx.so", 0, 0, 1 << 40, ""), False)
    profile.apply(Batch(0, 1, [module], [], [], [], NO_ROWS))

    def fill_traces(profile: Profile, n: int, is_mixed: bool = False) -> None:
        for trace_id, frames in enumerate(stacks(n), 1):
            frames = mixed(frames) if is_mixed else frames
            verdict = Verdict.COMPLETE if trace_id % 50 else Verdict.NO_UNWIND_INFO
            trace = Trace(trace_id, verdict, 0 if trace_id % 50 else 1, frames)
            profile.apply(Batch(0, 1, [], [], [], [trace], NO_ROWS))

    def fill_intervals(profile: Profile, n: int, n_traces: int) -> None:
        rng = np.random.default_rng(1)
        for batch in range(n // BATCH_ROWS):
            records = rows(rng, batch, n_traces, options.threads)
            profile.apply(Batch(batch, int(records["t0_ns"].max()), [], [], [], [], records))

    step("filling: traces", lambda: fill_traces(profile, options.traces))
    step(
        "filling: intervals (making them included)",
        lambda: fill_intervals(profile, options.intervals, options.traces),
    )
    table = SymbolTable(profile.locate)
    step("filling: names", lambda: name_all(profile, table))
    for clock in Clock:
        tree = step(f"tree, {clock.value}", partial(calltree.build, profile, table, clock))
        assert int(tree.total_ns[0]) == profile.total_ns(clock)
    some = frozenset(range(1, 5))
    step("tree, cpu, four threads", lambda: calltree.build(profile, table, Clock.CPU, some))
    step(
        "tree, wall, by thread",
        lambda: calltree.build(profile, table, Clock.WALL, split=Split.THREAD),
    )
    middle = (profile.start_ns + profile.now_ns) // 2
    for what, end in (("ten seconds", middle + 10**10), ("second half", 1 << 61)):
        step(
            f"tree, cpu, {what}",
            partial(calltree.build, profile, table, Clock.CPU, t0_ns=middle, t1_ns=end),
        )
    step("thread list", profile.thread_infos)
    step("verdicts", profile.verdicts)
    step(
        "export: folded",
        lambda: folded.write(ExportRequest(Recording(profile, table)), io.BytesIO()),
    )
    # Fewer stacks of a Python program: 10⁵ nodes.
    python, few = Profile(), options.traces // 4
    python.apply(Batch(0, 1, [module], [], [], [], NO_ROWS))
    fill_traces(python, few, is_mixed=True)
    fill_intervals(python, min(options.intervals, 1_000_000), few)
    names = SymbolTable(python.locate)
    name_all(python, names)
    n_nodes = len(python.trie().parent)
    choices = {each.value: FrameFilter(each) for each in Language}
    for what, frames in ({"with plumbing": FrameFilter(plumbing=True)} | choices).items():
        step(
            f"Python, {n_nodes:,} nodes: tree, {what}",
            partial(calltree.build, python, names, Clock.CPU, frames=frames),
        )
    return {
        "steps": steps,
        "trie_nodes": len(profile.trie().parent),
        "tree_nodes": len(tree.parent),
        "addresses": profile.n_addresses,
        "settings": {name: getattr(options, name) for name in ("intervals", "traces", "threads")},
    }


def tables(data: Data) -> list[Table]:
    table_rows = [
        [one["what"], f"{one['seconds']:.3f}", f"{one['held_mb']:.0f}"] for one in data["steps"]
    ]
    settings = data["settings"]
    remark = (
        f"{settings['intervals']:,} intervals, {settings['traces']:,} stacks, {settings['threads']}"
        f" threads; {data['trie_nodes']:,} nodes in the trie, {data['tree_nodes']:,} in the last"
        f" clock's tree, {data['addresses']:,} addresses. Bars: 300 MB, any view 0.5 s."
    )
    return [Table("The host's store", ("step", "CPU, s", "held, MB"), table_rows, remark)]


BENCH = Bench(
    "store",
    "the host alone: memory and views with 10⁷ intervals and 10⁵ stacks; needs no target",
    arguments,
    measure,
    tables,
)

if __name__ == "__main__":
    run(BENCH)
