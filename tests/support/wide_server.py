"""A recording in which one function calls very many others, each of them hardly ever."""

from __future__ import annotations

import functools

import numpy as np

import wire
from flametap.model import Frame, Function
from flametap.wire.decoder import Decoder
from flametap.wire.events import INTERVAL_DTYPE, Batch
from growing import Growing

CHILDREN = 20_000
START_NS = 10**12
EACH_NS = 50_000  # of each child, once a second


class WideServer(Growing):
    """``main`` and the functions ``child_00000`` … that it calls."""

    def __init__(self) -> None:
        super().__init__()
        batch, names = _program()
        self.begin(batch, names)
        self._now_ns = START_NS
        self.advance()

    def advance(self) -> None:
        """Let a second pass: each child runs once."""
        rows = np.zeros(CHILDREN, INTERVAL_DTYPE)
        rows["thread_id"], rows["state"], rows["sysno"], rows["samples"] = 1, wire.RUNNING, -1, 1
        rows["trace_id"] = np.arange(1, CHILDREN + 1)
        rows["t0_ns"] = self._now_ns + np.arange(CHILDREN) * EACH_NS
        rows["wall_ns"] = rows["cpu_ns"] = EACH_NS
        self._now_ns += CHILDREN * EACH_NS
        self.feed(self._now_ns, intervals=rows)


@functools.cache
def _program() -> tuple[Batch, dict[int, list[Frame]]]:
    """The module, the thread and the stacks; and the names."""
    main = wire.frame(1, 0x1000)
    children = [wire.frame(1, 0x2000 + 0x10 * at) for at in range(CHILDREN)]
    names = {main: [Frame(Function("main", "wide"))]}
    for at, child in enumerate(children):
        names[child] = [Frame(Function(f"child_{at:05}", "wide"))]
    records = [wire.trace(at, [child, main]) for at, child in enumerate(children, 1)]
    (batch,) = Decoder().feed(
        wire.batch(
            START_NS,
            modules=[wire.module(1, "/opt/wide")],
            threads=[wire.thread(1, 7, "wide", first_seen_ns=START_NS)],
            traces=records,
        )
    )
    return batch, names
