"""A target that fills the recorder's memory: batches of new things, written straight into a ring.

``python flood.py KIND TABLES_BYTES INTERVALS_BYTES ROUNDS`` records such a flood, makes the views
of it, and prints what came of it as JSON.
"""

from __future__ import annotations

import io
import json
import resource
import sys
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

import wire
from flametap.export import folded, speedscope
from flametap.export.request import ExportRequest
from flametap.model import Clock, Split, ThreadState
from flametap.recording.names.table import SymbolTable
from flametap.recording.profile.store import Profile
from flametap.tree.calltree import build
from flametap.wire import abi
from flametap.wire.decoder import Decoder
from flametap.wire.events import INTERVAL_DTYPE
from flametap.wire.ring import Ring
from recordings import recorded

DEPTH = 20
ROWS = 15_000  # of intervals, stacks or threads in one batch
CPU_NS = 1000  # of each interval
HEAD_AT, RING_SIZE_AT = 24, 16


class Writer:
    """The agent's end of a ring in our own memory."""

    def __init__(self) -> None:
        self.buffer = bytearray(abi.RING_HEADER_BYTES + abi.RING_BYTES)
        self.head = 0
        self._words = np.frombuffer(self.buffer, "<u8")

    def write(self, data: bytes) -> None:
        """Add bytes; all that was written before has been read."""
        at = self.head % abi.RING_BYTES
        first, rest = data[: abi.RING_BYTES - at], data[abi.RING_BYTES - at :]
        start = abi.RING_HEADER_BYTES
        self.buffer[start + at : start + at + len(first)] = first
        self.buffer[start : start + len(rest)] = rest
        self.head += len(data)
        self._words[HEAD_AT // 8] = self.head


def traces(first_id: int, frames: npt.NDArray[np.uint64]) -> list[bytes]:
    """Trace records, one for each row of frames."""
    record = np.dtype([("id", "<u4"), ("n", "<u2"), ("rest", "u1", 10), ("frames", "<u8", DEPTH)])
    rows = np.zeros(len(frames), record)
    rows["id"] = np.arange(first_id, first_id + len(frames))
    rows["n"] = DEPTH
    rows["frames"] = frames
    return [row.tobytes() for row in rows]


def intervals(
    now_ns: int,
    thread_id: npt.ArrayLike,
    trace_id: npt.ArrayLike,
    sysno: npt.ArrayLike = -1,
    state: ThreadState = ThreadState.RUNNING,
) -> list[bytes]:
    """ROWS intervals, each of CPU_NS."""
    rows = np.zeros(ROWS, INTERVAL_DTYPE)
    rows["t0_ns"] = now_ns - CPU_NS
    rows["wall_ns"] = rows["cpu_ns"] = CPU_NS
    rows["thread_id"], rows["trace_id"], rows["sysno"] = thread_id, trace_id, sysno
    rows["state"] = state
    rows["samples"] = 1
    return [row.tobytes() for row in rows]


def _of_random_stacks(i: int, now_ns: int, n_addresses: int) -> bytes:
    first = i * ROWS + 1
    rng = np.random.default_rng(i)
    frames = rng.integers(1, n_addresses, (ROWS, DEPTH), np.uint64)
    frames |= np.uint64(wire.frame(1, 0))
    ids = np.arange(first, first + ROWS)
    return wire.batch(now_ns, traces=traces(first, frames), intervals=intervals(now_ns, 1, ids))


def of_addresses(i: int, now_ns: int) -> bytes:
    """Every stack has other addresses."""
    return _of_random_stacks(i, now_ns, 1 << 40)


def of_stacks(i: int, now_ns: int) -> bytes:
    """Every stack is another order of the same 1 000 addresses."""
    return _of_random_stacks(i, now_ns, 1000)


def of_trace_ids(i: int, now_ns: int) -> bytes:
    """Few stacks, with ids as far apart as may be."""
    i, gap = i % 50, 1 << 22
    some = [wire.trace((i * 20 + j + 1) * gap - i, [wire.frame(1, j)]) for j in range(20)]
    ids = [(i * 20 + j % 20 + 1) * gap - i for j in range(ROWS)]
    return wire.batch(now_ns, traces=some, intervals=intervals(now_ns, 1, ids))


def of_threads(i: int, now_ns: int) -> bytes:
    """Every interval has another thread."""
    ids = np.arange(i * ROWS + 1, (i + 1) * ROWS + 1)
    some = [wire.thread(j, j, f"thread {j % 1000}") for j in ids.tolist()]
    return wire.batch(now_ns, threads=some, intervals=intervals(now_ns, ids, 0))


def of_hidden_threads(i: int, now_ns: int) -> bytes:
    """As many threads that are not the target's."""
    ids = range(i * ROWS + 2, (i + 1) * ROWS + 2)
    some = [wire.thread(j, j, "", flags=abi.THREAD_HIDDEN) for j in ids]
    return wire.batch(now_ns, threads=some, intervals=intervals(now_ns, 1, 0))


def of_cells(i: int, now_ns: int) -> bytes:
    """Every interval has another thread, or another system call."""
    at = np.arange(i * ROWS, (i + 1) * ROWS)
    return wire.batch(now_ns, intervals=intervals(now_ns, at % 1000 + 1, 0, at // 1000 % 30000))


def of_modules(i: int, now_ns: int) -> bytes:
    """As many files as there are numbers, with the longest paths."""
    some = [wire.module(500 * i % 65000 + j + 1, "/" + "x" * 4000) for j in range(500)]
    return wire.batch(now_ns, modules=some, intervals=intervals(now_ns, 1, 0))


def of_intervals(i: int, now_ns: int) -> bytes:
    """A recording that never ends."""
    return wire.batch(now_ns, intervals=intervals(now_ns, i % 3 + 1, 0))


KINDS: dict[str, Callable[[int, int], bytes]] = {
    "addresses": of_addresses,
    "stacks": of_stacks,
    "trace ids": of_trace_ids,
    "threads": of_threads,
    "hidden threads": of_hidden_threads,
    "cells": of_cells,
    "modules": of_modules,
    "intervals": of_intervals,
}


class _Nowhere(io.RawIOBase):
    def write(self, data: object) -> int:
        return len(memoryview(data))  # type: ignore[arg-type]


def peak_bytes() -> int:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def main() -> None:
    """See the module."""
    make, (tables, singles, rounds) = KINDS[sys.argv[1]], map(int, sys.argv[2:])
    writer = Writer()
    ring, decoder = Ring(writer.buffer), Decoder()
    profile = Profile(tables_bytes=tables, intervals_bytes=singles)
    table = SymbolTable(profile.locate, lambda: None)
    data = make(rounds, 1 << 40)  # what it takes to make one is no part of what is measured
    before_bytes = peak_bytes()
    for i in range(rounds):
        data = make(i, (1 << 40) + i * 10_000_000)
        for at in range(0, len(data), abi.RING_BYTES):
            writer.write(data[at : at + abi.RING_BYTES])
            for batch in decoder.feed(ring.read()):
                profile.apply(batch)
    stored_bytes = peak_bytes()
    tree = build(profile, table, Clock.CPU, split=Split.THREAD)
    profile.thread_infos()
    for write in (folded.write, speedscope.write):
        write(ExportRequest(recorded(profile, table)), _Nowhere())  # type: ignore[arg-type]
    found = {
        "stored": stored_bytes - before_bytes,
        "viewed": peak_bytes() - before_bytes,
        "nodes": len(profile.trie().parent),
        "addresses": profile.n_addresses,
        "threads": len(profile.threads),
        "modules": len(profile.modules),
        "expected_ns": rounds * ROWS * CPU_NS,
        "total_ns": profile.total_ns(Clock.CPU),
        "tree_ns": int(tree.total_ns[0]),
        "self_ns": int(tree.self_ns.sum()),
        "losses": {name: count for name, count in profile.losses().items() if count},
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
