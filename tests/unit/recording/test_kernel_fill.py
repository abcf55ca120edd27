"""CPU time without a stack has those that the kernel has seen meanwhile, to the nanosecond."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from flametap.model import Thread, ThreadState, Verdict
from flametap.recording.kernel_fill import ASKED_FROM_NS, KernelFill
from flametap.recording.kernel_samples import UNKNOWN, Place, Seen, Stack
from flametap.recording.kernel_traces import KernelTraces
from flametap.recording.numbers import Numbers
from flametap.wire.events import INTERVAL_DTYPE, Batch

MS = 1_000_000
THREAD, TID = 3, 812
WORK = Stack((Place("/bin/x", "ab", 0x10), Place("/bin/x", "ab", 0x20)), Verdict.COMPLETE)
OTHER = Stack((Place("/bin/x", "ab", 0x30),), Verdict.COMPLETE)


class FakeSampler:
    """Has seen what a test says."""

    def __init__(self) -> None:
        self.watched: list[int] = []
        self.seen: list[Seen] = []

    def watch(self, tid: int) -> None:
        self.watched.append(tid)

    def of_thread(self, tid: int, from_ns: int, until_ns: int) -> list[Seen]:
        assert tid == TID
        return [each for each in self.seen if from_ns < each.time_ns <= until_ns]


@pytest.fixture
def sampler() -> FakeSampler:
    return FakeSampler()


@pytest.fixture
def fill(sampler: FakeSampler) -> KernelFill:
    threads = {THREAD: Thread(THREAD, TID, "scan"), THREAD + 1: Thread(THREAD + 1, 0, "[ended]")}
    found = KernelFill(KernelTraces(Numbers()), lambda: threads, lambda: sampler)
    found.fill(batch((0, ASKED_FROM_NS, 0)))
    return found


def batch(*rows: tuple[int, int, int], thread: int = THREAD) -> Batch:
    """Intervals of a thread: start and CPU time, nanoseconds, and trace."""
    found = np.zeros(len(rows), INTERVAL_DTYPE)
    for row, (start_ns, cpu_ns, trace) in zip(found, rows, strict=True):
        row["t0_ns"], row["wall_ns"], row["cpu_ns"] = start_ns, cpu_ns, cpu_ns
        row["thread_id"], row["trace_id"], row["state"] = thread, trace, ThreadState.RUNNING
    return Batch(0, 0, [], [], [], [], found)


def by_stack(filled: Batch) -> Counter[tuple[int, ...]]:
    """The CPU time of each stack, by the file_addrs of its frames."""
    frames = {
        each.trace_id: tuple(int(frame) & 0xFF for frame in each.frames) for each in filled.traces
    }
    found: Counter[tuple[int, ...]] = Counter()
    for row in filled.intervals:
        found[frames.get(int(row["trace_id"]), ())] += int(row["cpu_ns"])
    return found


def test_thread_that_has_used_some_is_watched(fill: KernelFill, sampler: FakeSampler) -> None:
    assert sampler.watched == [TID]
    fill.fill(batch((0, ASKED_FROM_NS, 0)))
    fill.fill(batch((0, ASKED_FROM_NS, 0), thread=THREAD + 1))  # no thread of its own
    fill.fill(batch((0, ASKED_FROM_NS, 0), thread=THREAD + 2))  # not known yet
    fill.fill(batch((0, ASKED_FROM_NS - 1, 0), (0, 1, 7), thread=THREAD + 3))
    assert sampler.watched == [TID]


def test_each_sample_has_an_equal_part(fill: KernelFill, sampler: FakeSampler) -> None:
    rows = (1000 * MS, 7 * MS, 0), (1010 * MS, 4 * MS, 9), (1020 * MS, 3 * MS, 0)
    times = (1001, WORK), (1004, WORK), (1006, OTHER), (1022, WORK), (1023, UNKNOWN)
    sampler.seen = [Seen(at * MS, 2 * MS, stack) for at, stack in times]
    filled = fill.fill(batch(*rows))
    assert by_stack(filled) == {(0x10, 0x20): 6 * MS, (0x30,): 2 * MS, (): (2 + 4) * MS}
    assert filled.intervals["samples"].sum() == len(times) == fill.n_samples
    assert fill.sampled_ns == 10 * MS
    kept = filled.intervals[filled.intervals["trace_id"] == 9]
    assert kept["t0_ns"].tolist() == [1010 * MS]
    ends_ns = filled.intervals["t0_ns"] + filled.intervals["wall_ns"]
    assert (filled.intervals["t0_ns"][1:] >= ends_ns[:-1]).all()
    assert [each.module.path for each in filled.modules] == ["/bin/x"]
    again = fill.fill(batch(*rows))
    assert not again.traces
    assert not again.modules


def test_sums_stay_whatever_was_seen(fill: KernelFill, sampler: FakeSampler) -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        rows = [(int(at) * MS, int(rng.integers(1, 9 * MS)), 0) for at in range(0, 100, 10)]
        times = np.sort(rng.integers(1, 100 * MS, int(rng.integers(1, 60))))
        sampler.seen = [Seen(int(at), MS, WORK if rng.random() < 0.5 else OTHER) for at in times]
        filled = fill.fill(batch(*rows))
        for field in ("cpu_ns", "wall_ns"):
            assert int(filled.intervals[field].sum()) == sum(row[1] for row in rows)


def test_too_little_for_a_sample_has_the_nearest(fill: KernelFill, sampler: FakeSampler) -> None:
    sampler.seen = [Seen(1001 * MS, 2 * MS, WORK)]
    fill.fill(batch((1000 * MS, 2 * MS, 0)))
    near = fill.fill(batch((1200 * MS, MS // 2, 0)))
    assert near.intervals["trace_id"].tolist() != [0]
    far = fill.fill(batch((9000 * MS, MS // 2, 0)))
    assert far.intervals["trace_id"].tolist() == [0]


def test_nothing_changes_where_the_kernel_may_not_sample() -> None:
    threads = {THREAD: Thread(THREAD, TID, "scan")}
    fill = KernelFill(KernelTraces(Numbers()), lambda: threads, lambda: None)
    given = batch((0, ASKED_FROM_NS, 0), (9, 5, 3))
    assert fill.fill(given) is given
    assert fill.fill(batch()).intervals.tolist() == []
