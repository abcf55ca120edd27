"""The stacks of the made-up server, with their shares of the time; the same for the same seed."""

from __future__ import annotations

import functools
import heapq
import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import wire
from flametap.model import Verdict
from flametap.wire.decoder import Decoder
from flametap.wire.events import Batch
from made_graph import ENTRIES, GRAPH, ON_CPU, WAITS
from made_layout import MODULES, OWN_LINES, Layout

START_NS = 5 * 10**12
GOLDEN = 0.6180339887498949
HEAVY = 1 / 500  # share of a stack whose time is spread over several lines
GUESSED_EACH = 80  # one of so many stacks is guessed
NO_TABLES = "vendor+0x58a2?"  # has no unwind information: half of its stacks are cut


class Path(NamedTuple):
    """A stack of functions, root first, and how much of the CPU time ends there."""

    words: tuple[str, ...]
    weight: float


@dataclass(frozen=True, eq=False)
class Stacks:
    """Stacks as the agent sends them, by their numbers − 1.

    Attributes:
        traces: all of them, as one batch.
        names: the functions at which they end, "" for waits.
        weights: shares of the CPU time, of the main thread's stacks, and of all others'; 0 for
            stacks of others.
        first_wait: the number of the trace of the first of ``WAITS``.
        layout: the addresses in them.
    """

    traces: Batch
    names: list[str]
    weights: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]
    first_wait: int
    layout: Layout


def unfolded(node_count: int, seed: int) -> list[Path]:
    """Unfold the call graph, the heaviest open node first, until there are enough nodes."""
    chance = random.Random(seed)
    heap: list[tuple[float, tuple[str, ...]]] = [(-0.35, (ENTRIES[0],)), (-1.0, (ENTRIES[1],))]
    heapq.heapify(heap)
    found: list[Path] = []
    while heap and len(found) < node_count:
        weight, words = heapq.heappop(heap)
        calls = GRAPH.get(words[-1], ("", "", ""))[2].split()
        if words[-1] in ON_CPU:
            weight *= 0.03
        self_share = chance.betavariate(1.1, 12) if calls else 1.0
        found.append(Path(words, -weight * self_share))
        chosen = calls[:2] + [call for call in calls[2:] if chance.random() < 0.45]
        shares = [chance.expovariate(1) + 0.9 / (1 + at) for at, _ in enumerate(chosen)]
        for call, share in zip(chosen, shares, strict=True):
            part = weight * (1 - self_share) * share / sum(shares)
            heapq.heappush(heap, (part, (*words, call)))
    # By name, so that all shares of a time are near to those of any other time (``made_time``).
    return sorted(found)


@functools.cache
def stacks(
    node_count: int,
    seed: int,
    names: tuple[tuple[str, str], ...] = (),
    instructions: int = 90,
) -> Stacks:
    """Return the stacks of a tree that has some number of nodes when everything has appeared.

    Args:
        node_count: the number.
        seed: of chance.
        names: functions and other names for them.
        instructions: how many each function has at least.
    """
    layout = Layout(dict(names), instructions)
    records: list[bytes] = []
    ends: list[str] = []
    weights: list[tuple[float, float]] = []
    paths = unfolded(node_count, seed)
    heavy = HEAVY * sum(path.weight for path in paths)
    for at, path in enumerate(paths):
        for line, weight in _lines(path, at, is_heavy=path.weight > heavy):
            records.append(_trace(1 + len(records), layout.stack(path.words, line), path, at))
            ends.append(layout.function(path.words[-1]).name)
            is_main = path.words[0] == ENTRIES[0]
            weights.append((weight, 0.0) if is_main else (0.0, weight))
    first_wait = 1 + len(records)
    for wait in WAITS:
        addresses = layout.stack(wait.stack.split(), 124)
        records.append(wire.trace(1 + len(records), addresses[::-1]))
        ends.append("")
        weights.append((0.0, 0.0))
    modules = [wire.module(number, _path(module)) for module, number in MODULES.items()]
    (batch,) = Decoder().feed(wire.batch(START_NS, modules=modules, traces=records))
    main, others = np.array(weights).T
    return Stacks(batch, ends, (main, others), first_wait, layout)


def _lines(path: Path, at: int, *, is_heavy: bool) -> Sequence[tuple[int, float]]:
    """The innermost lines of a path, and their weights. A light one has one."""
    if is_heavy and GRAPH.get(path.words[-1], ("", "", ""))[1]:
        return [(line, share * path.weight) for line, share in OWN_LINES]
    place = at * GOLDEN % 1
    ends = itertools.accumulate(share for _, share in OWN_LINES)
    line = next(line for (line, _), end in zip(OWN_LINES, ends, strict=True) if place < end + 1e-9)
    return [(line, path.weight)]


def _trace(trace_id: int, addresses: list[int], path: Path, at: int) -> bytes:
    leaf_first = addresses[::-1]
    if NO_TABLES in path.words and at % 2:
        cut = 1 + path.words[::-1].index(NO_TABLES)
        return wire.trace(
            trace_id, leaf_first[:cut], Verdict.NO_UNWIND_INFO, MODULES["libvendor.so"]
        )
    return wire.trace(
        trace_id, leaf_first, Verdict.COMPLETE if at % GUESSED_EACH else Verdict.GUESSED
    )


def _path(module: str) -> str:
    return module if module[0] == "[" else f"/usr/lib/{module}"
