"""What the threads of the made-up server do over time: they work and wait, with bursts of work.

The stacks of working threads follow each other such that any time has nearly the same share of
each: a sequence of the golden ratio, not chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

import wire
from flametap.wire import abi
from flametap.wire.events import INTERVAL_DTYPE
from made_graph import LOCK, MAIN_WAITS, WAITS, WORKER_WAITS
from made_stacks import GOLDEN, START_NS, Stacks
from wire import Rows

STEP_NS = 10_000_000
STEPS_A_SECOND = 10**9 // STEP_NS
PIECE_NS = 1_000_000  # the longest time in one stack
MOST_STEPS = 400  # in one batch
HOLDER, LOCK_NUMBER = 3, 1  # the thread that holds the lock that others wait for


class Schedule:
    """The intervals of threads.

    Args:
        stacks: what they run.
        n_threads: their number; their ids are 1, 2, … The first is the main thread.
        load: the share of the usual CPU time that they use; 0 for threads that only wait.
        changes: second → factors for the time of functions, by name, from then on.
    """

    def __init__(
        self,
        stacks: Stacks,
        n_threads: int,
        load: float = 1.0,
        changes: Mapping[int, Mapping[str, float]] | None = None,
    ) -> None:
        self._stacks = stacks
        self._load = load / (1 + np.arange(1, n_threads + 1) / 3)
        self._changes = dict(changes or {})
        self._chance = np.random.default_rng(11)
        self._steps = 0
        self._drawn = [0, 0]  # stacks of the main thread, and of all others
        self._sums = [np.cumsum(each) for each in stacks.weights]
        self._open = np.empty(0, INTERVAL_DTYPE)  # the waits that go on, as they are now
        kinds = [MAIN_WAITS, *(WORKER_WAITS[at % 4] for at in range(2, n_threads + 1))]
        numbers = np.array([[WAITS.index(wait) for wait in kind] for kind in kinds[:n_threads]])
        self._waits = numbers.reshape(n_threads, 2)

    @property
    def now_ns(self) -> int:
        """The time up to which intervals have been made."""
        return START_NS + self._steps * STEP_NS

    def fitting(self, steps: int) -> int:
        """Return how many of the next steps fit into one batch, without a change in it."""
        until = [at * STEPS_A_SECOND - self._steps for at in self._changes]
        return min(steps, MOST_STEPS, *(each for each in until if each > 0))

    def advance(self, steps: int) -> Rows:
        """Return the intervals of the next steps; the last wait of a thread goes on.

        Args:
            steps: what ``fitting`` has returned.
        """
        self._change(self._steps // STEPS_A_SECOND)
        second = np.arange(self._steps, self._steps + steps) / STEPS_A_SECOND
        t0 = START_NS + np.arange(self._steps, self._steps + steps)[:, None] * STEP_NS
        chance = self._chance.random((steps, len(self._load)))
        is_burst = (second % 10 < 2.5)[:, None]
        load = np.where(is_burst, 0.85, 0.35) * self._load
        ran = np.where(chance < 2 * load, STEP_NS * np.minimum(1, load * (0.5 + chance)), 0)
        ran = ran.astype(np.int64)
        queued = np.where(is_burst & (chance < 0.4), (STEP_NS - ran) * chance * 0.6, 0)
        queued = queued.astype(np.int64) if self._load.any() else np.zeros_like(ran)
        waits = self._waiting(t0 + ran + queued, STEP_NS - ran - queued, chance)
        running = self._running(t0, ran)
        self._steps += steps
        closed, self._open = self._open, self._last(waits)
        rows = np.concatenate((closed, running, self._queued(t0 + ran, queued, running), waits))
        rows = rows[np.argsort(rows["t0_ns"], kind="stable")]
        going_on = np.isin(rows["thread_id"], self._open["thread_id"])
        going_on &= rows["t0_ns"] + rows["wall_ns"] == self.now_ns
        rows["flags"][going_on] = abi.INTERVAL_OPEN
        return rows

    def _change(self, second: int) -> None:
        for at in [at for at in self._changes if at <= second]:
            factors = self._changes.pop(at)
            factor = np.array([factors.get(name, 1.0) for name in self._stacks.names])
            self._sums = [np.cumsum(each * factor) for each in self._stacks.weights]

    def _running(self, t0: npt.NDArray[np.int64], ran: npt.NDArray[np.int64]) -> Rows:
        """Running threads: a row for each piece, in order of time."""
        count = -(-ran.ravel() // PIECE_NS)
        cell = np.repeat(np.arange(ran.size), count)
        piece = np.arange(len(cell)) - np.repeat(np.cumsum(count) - count, count)
        thread = cell % ran.shape[1] + 1
        rows = _rows(len(cell), wire.RUNNING, thread)
        rows["t0_ns"] = t0.ravel()[cell // ran.shape[1]] + piece * PIECE_NS
        rows["wall_ns"] = np.minimum(PIECE_NS, ran.ravel()[cell] - piece * PIECE_NS)
        rows["cpu_ns"] = rows["wall_ns"]
        rows["held_lock"][(thread == HOLDER) & (piece == 0)] = LOCK_NUMBER
        for kind, is_mine in enumerate((thread == 1, thread > 1)):
            numbers = self._drawn[kind] + np.arange(1, 1 + np.count_nonzero(is_mine))
            self._drawn[kind] += len(numbers)
            sums = self._sums[kind]
            place = numbers * GOLDEN % 1 * sums[-1]
            rows["trace_id"][is_mine] = 1 + np.searchsorted(sums, place, side="right")
        return rows

    def _queued(
        self, t0: npt.NDArray[np.int64], wall: npt.NDArray[np.int64], running: Rows
    ) -> Rows:
        """Threads that wait for a CPU: in a stack in which one of their kind has just run."""
        step, thread = np.nonzero(wall)
        rows = _rows(len(step), wire.QUEUED, thread + 1)
        rows["t0_ns"], rows["wall_ns"] = t0[step, thread], wall[step, thread]
        for is_main in (True, False):
            stacks = running["trace_id"][(running["thread_id"] == 1) == is_main]
            mine = np.flatnonzero((thread == 0) == is_main)
            if len(stacks):
                rows["trace_id"][mine] = stacks[np.arange(len(mine)) % len(stacks)]
        return rows

    def _waiting(
        self,
        t0: npt.NDArray[np.int64],
        wall: npt.NDArray[np.int64],
        chance: npt.NDArray[np.float64],
    ) -> Rows:
        """Threads asleep, each mostly in the same call."""
        is_rare = chance >= 0.8
        is_rare[-1] = False
        step, thread = np.nonzero(wall)
        number = self._waits[thread, is_rare[step, thread].astype(int)]
        rows = _rows(len(step), wire.PARKED, thread + 1)
        rows["t0_ns"], rows["wall_ns"] = t0[step, thread], wall[step, thread]
        rows["trace_id"] = self._stacks.first_wait + number
        rows["sysno"] = np.array([wait.sysno for wait in WAITS])[number]
        if len(self._load) >= HOLDER:
            is_locked = number == WAITS.index(LOCK)
            rows["awaited_lock"][is_locked] = LOCK_NUMBER
            rows["holder_id"][is_locked] = HOLDER
        return rows

    def _last(self, waits: Rows) -> Rows:
        """The waits that have not ended."""
        found: Rows = waits[waits["t0_ns"] + waits["wall_ns"] == self.now_ns]
        return found


def _rows(count: int, state: int, thread: Sequence[int] | npt.NDArray[np.int64]) -> Rows:
    rows = np.zeros(count, INTERVAL_DTYPE)
    rows["thread_id"], rows["state"], rows["sysno"], rows["samples"] = thread, state, -1, 1
    return rows
