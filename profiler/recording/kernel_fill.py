"""Give stacks to the CPU time of threads that no signal reaches: the kernel has sampled them.

An agent tells such a thread's CPU time exactly, without a stack (trace 0): the thread blocks our
signal, the program has set a handler of its own, or its stack may have no room. The samples that
the kernel took meanwhile say how it was spent.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ..model import Thread
from ..wire.events import Batch
from .kernel_samples import Seen
from .kernel_traces import KernelTraces, NewTraces

# So much without a stack, and the kernel is asked: most threads have some when they begin or end.
ASKED_FROM_NS = 10_000_000
NEAR_NS = 1_000_000_000

Rows = npt.NDArray[np.void]


class Sampler(Protocol):
    """Samples threads; see ``PerfSampler``."""

    def watch(self, tid: int) -> None:
        """Keep the stacks of a thread, though an agent is in its process."""
        ...

    def of_thread(self, tid: int, from_ns: int, until_ns: int) -> Sequence[Seen]:
        """Return what was seen of a watched thread; what was before is forgotten."""
        ...


class KernelFill:
    """See the module. The thread that reads the agents' events uses it.

    Args:
        traces: numbers the stacks.
        threads: returns the threads of the recording, by thread_id.
        sampler: returns what samples; None where that is not allowed. Called when it is needed.

    Attributes:
        n_samples: the kernel's samples that gave a stack …
        sampled_ns: … and the CPU time that has it.
    """

    def __init__(
        self,
        traces: KernelTraces,
        threads: Callable[[], dict[int, Thread]],
        sampler: Callable[[], Sampler | None],
    ) -> None:
        self._traces, self._threads, self._sampler = traces, threads, sampler
        self._bare_ns: Counter[int] = Counter()  # CPU time without a stack, by thread_id
        self._tids: dict[int, int] = {}  # of those that are watched
        self._last: dict[int, Seen] = {}
        self.n_samples = self.sampled_ns = 0

    def fill(self, batch: Batch) -> Batch:
        """Return a batch whose CPU time has the stacks that the kernel has seen."""
        try:
            return self._fill(batch)
        except Exception:  # whatever the kernel says: what the agent tells is kept
            return batch

    def _fill(self, batch: Batch) -> Batch:
        rows = batch.intervals
        bare: npt.NDArray[np.bool_] = (rows["trace_id"] == 0) & (rows["cpu_ns"] > 0)
        if not bare.any():
            return batch
        for thread_id, cpu_ns in zip(
            rows["thread_id"][bare].tolist(), rows["cpu_ns"][bare].tolist(), strict=True
        ):
            self._bare_ns[thread_id] += cpu_ns
            if self._bare_ns[thread_id] >= ASKED_FROM_NS and thread_id not in self._tids:
                self._watch(thread_id)
        new = NewTraces([], [])
        filled: dict[int, Rows] = {}  # by place
        for thread_id in np.unique(rows["thread_id"][bare]).tolist():
            places = np.flatnonzero(bare & (rows["thread_id"] == thread_id))
            filled |= self._filled(thread_id, rows, places.tolist(), new)
        if not filled:
            return batch
        parts: list[Rows] = []
        done = 0
        for place in sorted(filled):
            parts += [rows[done:place], filled[place]]
            done = place + 1
        return replace(
            batch,
            modules=[*batch.modules, *new.modules],
            traces=[*batch.traces, *new.traces],
            intervals=np.concatenate([*parts, rows[done:]]),
        )

    def _watch(self, thread_id: int) -> None:
        thread = self._threads().get(thread_id)
        tid = thread.tid if thread else 0  # 0 of many threads together, and of one that just began
        if thread is not None:
            self._tids[thread_id] = tid
        sampler = self._sampler() if tid else None
        if sampler is not None:
            sampler.watch(tid)

    def _filled(
        self, thread_id: int, rows: Rows, places: Sequence[int], new: NewTraces
    ) -> dict[int, Rows]:
        """Return a thread's intervals as those of the stacks that were seen meanwhile, by place.

        Many are shorter than the time between two samples. Each sample has an equal part of the
        CPU time of all.
        """
        tid = self._tids.get(thread_id, 0)
        sampler = self._sampler() if tid else None
        if sampler is None:
            return {}
        ends_ns = rows["t0_ns"][places] + rows["wall_ns"][places]
        seen = sampler.of_thread(tid, int(rows["t0_ns"][places].min()), int(ends_ns.max()))
        if not seen:  # too little CPU time for one: the one before is the nearest
            nearest = self._last.get(thread_id)
            from_ns = int(ends_ns.max()) - NEAR_NS
            seen = [] if nearest is None or nearest.time_ns < from_ns else [nearest]
        if not any(each.stack.places for each in seen):
            return {}
        self._last[thread_id] = seen[-1]
        self.n_samples += len(seen)
        self.sampled_ns += int(rows["cpu_ns"][places].sum())
        traces = [self._traces.of(each.stack, new) if each.stack.places else 0 for each in seen]
        share_ns = float(rows["cpu_ns"][places].sum()) / len(seen)
        found, before_ns = {}, 0.0
        for place in places:
            cpu_ns = float(rows["cpu_ns"][place])
            first, last = before_ns / share_ns, (before_ns + cpu_ns) / share_ns
            cuts = [first, *range(int(first) + 1, math.ceil(last - 1e-9)), last]
            found[place] = _divided(
                rows[place : place + 1],
                (np.array(cuts[1:]) - first) / (last - first),
                [traces[min(int(cut + 1e-9), len(traces) - 1)] for cut in cuts[:-1]],
            )
            # One of each sample: where it begins.
            found[place]["samples"] = [cut % 1.0 < 1e-9 for cut in cuts[:-1]]
            before_ns += cpu_ns
        return found


def _divided(row: Rows, ends: npt.NDArray[np.float64], traces: Sequence[int]) -> Rows:
    """Return one interval as several.

    Args:
        row: it.
        ends: which share of it ends with each.
        traces: the stack of each.
    """
    found = np.repeat(row, len(traces))
    for field in ("wall_ns", "cpu_ns"):
        until = np.rint(ends * float(row[field][0])).astype(np.int64)
        found[field] = np.diff(until, prepend=0)
        if field == "wall_ns":
            found["t0_ns"] = int(row["t0_ns"][0]) + np.concatenate([[0], until[:-1]])
    found["trace_id"] = traces
    return found
