"""Make events of looks at all threads, as an agent of ours sends them.

A thread's time since the look before is what it was seen doing: a look at a fixed rate knows no
more. Times are nanoseconds of our CLOCK_MONOTONIC; the first look is when it came.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from ..model import Module, ThreadState, Verdict
from ..wire.abi import (
    FRAME_KIND_MODULE,
    FRAME_KIND_RUNTIME,
    FRAME_KIND_SHIFT,
    FRAME_MODULE_SHIFT,
)
from ..wire.events import INTERVAL_DTYPE, Batch, ModuleUpdate, ThreadUpdate, Trace
from .images import ImageFacts
from .looks import LoadedModule, Look

RUNNING = 0  # agent.js, STATES
GAP_NS = 1_000_000_000  # nobody knows what happened in a longer time between two looks
MAX_TRACES = 1 << 20  # known at once
_MAX_MODULES = 0xFFFF
_RUNTIME = FRAME_KIND_RUNTIME << FRAME_KIND_SHIFT


class Batches:
    """See the module.

    Args:
        facts: returns what the file says of itself that is loaded at an address.

    Attributes:
        gap_ns: time between looks that is in no interval.
        period_ns: between two looks, as asked for.
    """

    def __init__(self, facts: Callable[[int], ImageFacts]) -> None:
        self._facts = facts
        self._loaded: dict[int, LoadedModule] = {}  # by base
        self._bases: list[int] = []
        self._modules: dict[int, Module] = {}  # those that occur in a stack, by base
        self._n_modules = 0
        self._news: list[ModuleUpdate] = []
        self._threads: dict[int, tuple[int, str]] = {}  # by tid: thread_id and name
        self._seen_ns: dict[int, int] = {}  # when a thread was last seen, by tid
        self._n_threads = self._n_traces = self._n_batches = 0
        self._traces: dict[tuple[bytes, bool], int] = {}
        self._first_us = self._first_ns = self._last_us = 0
        self.gap_ns = self.period_ns = self._looked_ns = 0
        self._absent: set[int] = set()  # tids that were missing in the last look

    def load(self, modules: Sequence[LoadedModule], gone: Sequence[int]) -> None:
        """Note that files were loaded, and others unloaded."""
        for base in (*gone, *(each.base for each in modules)):
            self._loaded.pop(base, None)
            module = self._modules.pop(base, None)
            if module is not None:
                self._news.append(ModuleUpdate(module, gone=True))
        self._loaded |= {each.base: each for each in modules}
        self._bases = sorted(self._loaded)
        self._traces.clear()  # their addresses may be of other files

    def pause(self) -> None:
        """Forget when threads were last seen: the time until the next look is in no interval."""
        self._seen_ns.clear()
        self._looked_ns = 0

    def batch(self, look: Look, names: dict[int, str], arrived_ns: int) -> Batch:
        """Return the events of a look.

        Args:
            look: it.
            names: of threads, as far as they are new.
            arrived_ns: now.
        """
        if not self._first_ns:
            self._first_us, self._first_ns = look.time_us, arrived_ns
        # A clock that is set back would make times negative; one that jumps is not from now.
        self._last_us = max(self._last_us, look.time_us)
        now_ns = min(self._first_ns + 1000 * (self._last_us - self._first_us), arrived_ns)
        threads = self._updates(look, names, now_ns)
        traces: list[Trace] = []
        rows = []
        for tid, state, is_whole, frames in look.threads:
            if not len(frames):
                continue  # its next look stands for this time, too
            # Of a thread that is new, the time since the last look counts.
            before_ns = self._seen_ns.get(tid, self._looked_ns)
            self._seen_ns[tid] = now_ns
            if not before_ns or now_ns <= before_ns:
                continue
            wall_ns = now_ns - before_ns
            if wall_ns > max(GAP_NS, 4 * self.period_ns):
                self.gap_ns += wall_ns
                continue
            runs = state == RUNNING
            trace = self._trace(frames, traces, is_whole=is_whole)
            kind = ThreadState.RUNNING if runs else ThreadState.BLOCKED
            rows.append((before_ns, wall_ns, wall_ns * runs, self._threads[tid][0], trace, kind))
        self._looked_ns = now_ns
        intervals = np.zeros(len(rows), INTERVAL_DTYPE)
        columns = ("t0_ns", "wall_ns", "cpu_ns", "thread_id", "trace_id", "state")
        for name, column in zip(columns, zip(*rows, strict=True), strict=False):
            intervals[name] = column
        intervals["sysno"], intervals["samples"] = -1, 1
        news, self._news = self._news, []
        self._n_batches += 1
        return Batch(self._n_batches, now_ns, news, threads, [], traces, intervals)

    def _updates(self, look: Look, names: dict[int, str], now_ns: int) -> list[ThreadUpdate]:
        found = []
        for each in look.threads:
            known = self._threads.get(each.tid)
            name = names.get(each.tid) or (known[1] if known else "") or f"thread {each.tid}"
            if known is None or known[1] != name:
                if known is None:
                    self._n_threads += 1
                number = known[0] if known else self._n_threads
                self._threads[each.tid] = number, name
                found.append(_update(number, each.tid, name, now_ns))
        present = {each.tid for each in look.threads}
        absent = self._threads.keys() - present
        gone, self._absent = sorted(absent & self._absent), absent - self._absent
        for tid in gone:
            number, name = self._threads.pop(tid)
            self._seen_ns.pop(tid, None)
            found.append(_update(number, tid, name, now_ns, exited=True))
        return found

    def _trace(self, frames: npt.NDArray[np.uint64], traces: list[Trace], *, is_whole: bool) -> int:
        key = frames.tobytes(), is_whole
        number = self._traces.get(key)
        if number is None:
            if len(self._traces) >= MAX_TRACES:
                self._traces.clear()
            self._n_traces += 1
            number = self._traces[key] = self._n_traces
            encoded = [self._frame(addr - (n > 0)) for n, addr in enumerate(frames.tolist())]
            verdict = Verdict.GUESSED if is_whole else Verdict.BAD_MEMORY
            traces.append(Trace(number, verdict, 0, np.array(encoded, np.uint64)))
        return number

    def _frame(self, addr: int) -> int:
        """Return the encoded frame of an address: of a caller, the one before it returns to."""
        at = bisect_right(self._bases, addr) - 1
        base = self._bases[at] if at >= 0 else -1
        is_inside = base >= 0 and addr < base + self._loaded[base].size
        module = self._module(base) if is_inside else None
        if module is None:
            return _RUNTIME | max(addr, 0) & ((1 << 48) - 1)
        file_addr = (addr - module.load_bias) & ((1 << FRAME_MODULE_SHIFT) - 1)
        number = FRAME_KIND_MODULE << FRAME_KIND_SHIFT | module.module_id << FRAME_MODULE_SHIFT
        return number | file_addr

    def _module(self, base: int) -> Module | None:
        """Return the file that is loaded at an address, which the device is asked for once."""
        module = self._modules.get(base)
        if module is None and self._n_modules < _MAX_MODULES:
            self._n_modules += 1
            loaded, facts = self._loaded[base], self._facts(base)
            module = self._modules[base] = Module(
                *(self._n_modules, loaded.path, base - facts.link_base),
                *(base, base + loaded.size, facts.build_id),
            )
            self._news.append(ModuleUpdate(module, gone=False))
        return module


def _update(number: int, tid: int, name: str, now_ns: int, *, exited: bool = False) -> ThreadUpdate:
    return ThreadUpdate(
        *(number, tid % (1 << 31), name, now_ns),
        exited=exited,
        hidden=False,
        signals_blocked=False,
    )
