"""What held the interpreter's lock while other threads waited: against a naive count."""

from __future__ import annotations

import random

import numpy as np
import pytest

from flametap.model import LockState, ThreadState
from flametap.recording.profile.interval_chunk import ROW_DTYPE, Chunk
from flametap.recording.profile.lock_intervals import MIN_STEP_NS, LockIntervals

N_THREADS = 5


def snapshot(rng: random.Random, steps: int, chunks: int) -> tuple[LockIntervals, list[list[int]]]:
    """Threads that hold, await or leave the lock, each step of time; cell = 3 * thread + state.

    The second value has the cell of each thread in each step.
    """
    states = (LockState.HELD, LockState.AWAITED, LockState.RELEASED)
    cells = [[3 * t + rng.randrange(3) for _ in range(steps)] for t in range(N_THREADS)]
    made = []
    for part in range(chunks):
        first, last = steps * part // chunks, steps * (part + 1) // chunks
        rows = np.zeros(N_THREADS * (last - first), ROW_DTYPE)
        places = [(t, step) for t in range(N_THREADS) for step in range(first, last)]
        rows["cell"] = [cells[t][step] for t, step in places]
        rows["t0_ns"] = [10**9 + step * MIN_STEP_NS for _, step in places]
        rows["wall_ns"] = MIN_STEP_NS
        made.append(Chunk(rows, (rows["cell"] // 3 + 1).astype(np.uint32)))
    thread_id = np.repeat(np.arange(1, N_THREADS + 1), 3).astype(np.uint32)
    node = np.arange(3 * N_THREADS, dtype=np.int32)
    lock = np.tile(np.array(states, np.uint8), N_THREADS)
    state = np.full(len(node), ThreadState.PARKED, np.uint8)
    return LockIntervals(made, thread_id, node, state, lock), cells


@pytest.mark.parametrize("seed", range(5))
def test_overlaps_are_those_of_a_naive_count(seed: int) -> None:
    rng = random.Random(seed)
    steps = rng.randint(1, 300)
    intervals, cells = snapshot(rng, steps, rng.randint(1, min(4, steps)))
    waits = intervals.awaited
    if seed % 2:
        waits &= intervals.thread_id == 2
    expected = np.zeros(3 * N_THREADS)
    total = 0
    for step in range(steps):
        now = [cells[t][step] for t in range(N_THREADS)]
        total += sum(int(waits[cell]) for cell in now)
        for cell in now:
            if intervals.lock[cell] == LockState.HELD:
                others = [each for each in now if each // 3 != cell // 3]
                expected[cell] += sum(int(waits[each]) for each in others)
    total_ns, meanwhile = intervals.held_meanwhile(waits)
    assert total_ns == total * MIN_STEP_NS
    assert meanwhile / MIN_STEP_NS == pytest.approx(expected, abs=1e-6)


def test_long_recordings_use_a_coarser_grid() -> None:
    rows = np.zeros(2, ROW_DTYPE)
    rows["cell"], rows["t0_ns"] = (0, 1), (0, 5 * 10**14)
    rows["wall_ns"] = 10**15, 10**9  # eleven days, and a wait of a second
    lock = np.array((LockState.HELD, LockState.AWAITED), np.uint8)
    threads = np.array((1, 2), np.uint32)
    both = LockIntervals([Chunk(rows, threads)], threads, np.zeros(2, np.int32), lock, lock)
    total_ns, meanwhile = both.held_meanwhile(both.awaited)
    assert total_ns == 10**9
    assert meanwhile[0] == pytest.approx(10**9, rel=1e-6)


def test_nothing_recorded() -> None:
    none = np.zeros(0, np.uint8)
    empty = LockIntervals([], np.zeros(0, np.uint32), np.zeros(0, np.int32), none, none)
    assert empty.held_meanwhile(empty.awaited)[0] == 0
