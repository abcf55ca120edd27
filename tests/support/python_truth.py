"""Compare the stacks of a recording with what the program noted itself: targets/python_truth.py.

The program notes the moment at which each of its functions begins and ends. While a thread is in
our handler it does not go on, so its last note before the sample's moment says exactly which
functions ran. A note is taken inside of the function: the sample may show a function

- that has begun, and is noted next;
- that was the last one to be noted as ended, and has not returned yet.

All else is a disagreement. The agent dates a sample by the processor's counter, ``CLOCK_ERROR_NS``
around the true moment: a stack that was right within that time is right.
"""

from __future__ import annotations

import itertools
import json
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from flametap.capture.live import Capture
from flametap.model import Frame, FrameKind, ThreadState

SCRIPT = Path(__file__).parents[1] / "targets" / "python_truth.py"
MADE = "<made>"
CLOCK_ERROR_NS = 5_000
# The agent reads Python's list of threads ten times a second, and for new ones; a busy machine may
# keep it from that for a while.
STATES_KNOWN_NS = 1_000_000_000
# The C function that has to lie between a function and its caller.
BETWEEN = {
    ("sorting", "key_of"): "list_sort",
    ("mapping", "key_of"): "map_next",
    ("reducing", "add"): "functools_reduce",
    ("substituting", "replaced"): "pattern_subx",
    ("summing", "numbers"): "builtin_sum",
    ("through_c", "from_c"): "truth_call",
    ("running_coroutines", "awaiting"): "gen_send_ex",
}

ROUND = 37  # the number of a function that no other calls

Stack = tuple[int, ...]  # numbers of functions, root first


@dataclass
class Sample:
    """A stack of the recording."""

    tid: int
    state: ThreadState
    start_ns: int
    end_ns: int  # when it was taken, of a thread that ran
    frames: list[Frame]  # root first


@dataclass
class Book:
    """What a thread noted."""

    time_ns: list[int]
    function: list[int]  # negative: it ended

    def covers(self, begin_ns: int, end_ns: int) -> bool:
        """Return whether a time lies between the first and the last note."""
        return self.time_ns[0] <= begin_ns and end_ns <= self.time_ns[-1]

    def at(self, moment_ns: int) -> int:
        """Return the last note before a moment."""
        return bisect_right(self.time_ns, moment_ns) - 1

    def around(self, begin_ns: int, end_ns: int) -> range:
        """Return the notes of a time, and of CLOCK_ERROR_NS before and after it."""
        return range(self.at(begin_ns - CLOCK_ERROR_NS), self.at(end_ns + CLOCK_ERROR_NS) + 1)

    def stack(self, at: int) -> Stack:
        """Return the functions that ran after note ``at``; () before the first."""
        ended, found = 0, []
        while at >= 0 and self.function[at] != -ROUND:
            if self.function[at] < 0:
                ended += 1
            elif ended:
                ended -= 1
            else:
                found.append(self.function[at])
            at -= 1
        return tuple(reversed(found))

    def possible(self, at: int, together: frozenset[int]) -> set[Stack]:
        """Return the stacks that may be seen between notes ``at`` and ``at + 1``."""
        before, after = self.stack(at), self.stack(at)
        found = {before}
        for back in range(at, -1, -1):
            function = -self.function[back]
            if function < 0:
                break
            before = (*before, function)
            found.add(before)
            if function not in together:
                break
        for on in range(at + 1, len(self.function)):
            function = self.function[on]
            if function < 0:
                break
            after = (*after, function)
            found.add(after)
            if function not in together:
                break
        return found


@dataclass
class Tally:
    """What the comparison found: numbers of stacks, and examples of what is wrong."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def note(self, what: str, text: str) -> None:
        """Count something wrong."""
        self.counts[what] += 1
        if len(self.wrong[what]) < 5:
            self.wrong[what].append(text)


class Truth:
    """What the program in a folder noted."""

    def __init__(self, folder: Path) -> None:
        said = json.loads((folder / "functions.json").read_text("utf-8"))
        self.names: dict[int, str] = {int(at): name for at, name in said["names"].items()}
        self.numbers = {name.rpartition(".")[2]: at for at, name in self.names.items()}
        self.together = frozenset(said["together"])
        self.books: defaultdict[int, list[Book]] = defaultdict(list)
        for path in sorted(folder.glob("*.book")):
            self.books[int(path.name.partition("-")[0])].append(_read(path))
        self._source = SCRIPT.read_text("utf-8").splitlines()

    def compare(self, samples: Iterator[Sample]) -> Tally:
        """Compare all stacks that were taken between the first and the last note of a thread."""
        tally = Tally()
        for sample in samples:
            is_running = sample.state is ThreadState.RUNNING
            begin_ns = sample.end_ns if is_running else sample.start_ns
            books = self.books.get(sample.tid, [])
            book = next((b for b in books if b.covers(begin_ns, sample.end_ns)), None)
            if book is None:
                tally.counts["outside of the notes"] += 1
                continue
            kind = "running" if is_running else "waiting"
            tally.counts[kind] += 1
            python = [f for f in sample.frames if f.function.kind is FrameKind.PYTHON]
            if not any(f.function.name == "run" and f.file == str(SCRIPT) for f in python):
                if sample.end_ns < book.time_ns[0] + STATES_KNOWN_NS:
                    tally.counts[f"{kind}, without Python as the thread has just begun"] += 1
                else:
                    tally.note(f"{kind}, unexplained", f"without Python: {sample.frames}")
                continue
            shown = tuple(self.numbers[name] for f in python if (name := self._own(f)))
            true = book.stack(book.at(sample.end_ns))
            if shown == true:
                tally.counts[f"{kind}, equal"] += 1
                self._compare_between(tally, sample.frames)
            elif shown in book.possible(book.at(sample.end_ns), self.together):
                tally.counts[f"{kind}, begun or not returned"] += 1
            elif any(
                shown in book.possible(at, self.together)
                for at in book.around(begin_ns, sample.end_ns)
            ):
                # A thread that waits had its stack at some moment of the interval.
                tally.counts[f"{kind}, within the clock's error"] += 1
            else:
                names = [[self.names[at] for at in stack] for stack in (shown, true)]
                tally.note(f"{kind}, unexplained", "shown {}, true {}".format(*names))
            self._compare_names(tally, python)
            self._compare_lines(tally, python)
        return tally

    def _own(self, frame: Frame) -> str:
        """Return the bare name of one of the numbered functions; "" of another."""
        name = frame.function.name.rpartition(".")[2]
        return name if frame.file in (str(SCRIPT), MADE) and name in self.numbers else ""

    def _compare_names(self, tally: Tally, python: list[Frame]) -> None:
        for frame in python:
            name = self._own(frame)
            if name and frame.function.name not in (self.names[self.numbers[name]], name):
                tally.note("wrong name", frame.function.name)

    def _compare_lines(self, tally: Tally, python: list[Frame]) -> None:
        """A function's line names the function that it calls."""
        for caller, callee in itertools.pairwise(python):
            name = self._own(callee)
            if not self._own(caller) or not name or caller.file == MADE:
                continue
            tally.counts["lines"] += 1
            text = self._source[caller.line - 1] if caller.line else ""
            if name not in text:
                tally.note("wrong line", f"{caller.line} {text.strip()!r} calls {name}")

    def _compare_between(self, tally: Tally, frames: list[Frame]) -> None:
        own = [
            (at, name)
            for at, f in enumerate(frames)
            if f.function.kind is FrameKind.PYTHON and (name := self._own(f))
        ]
        for (start, caller), (end, callee) in itertools.pairwise(own):
            wanted = BETWEEN.get((caller, callee))
            if wanted is None:
                continue
            tally.counts["C functions between"] += 1
            names = [f.function.name for f in frames[start:end]]
            if not any(wanted in name for name in names):
                tally.note("C function missing", f"{wanted} not in {names}")


def _read(path: Path) -> Book:
    words = np.fromfile(path, np.uint64)
    words = words[: int(np.count_nonzero(words))]
    functions = (words & np.uint64(0xFFFF)).astype(np.int16)
    return Book((words >> np.uint64(16)).astype(np.int64).tolist(), functions.tolist())


def samples_of(capture: Capture) -> Iterator[Sample]:
    """Return the stacks that were taken, one by one."""
    profile, table = capture.profile, capture.names
    trie = profile.trie()
    moments = profile.moments()
    intervals, cells = moments.intervals, moments.new_cells
    stacks: dict[int, list[Frame]] = {}

    def frames_of(node: int) -> list[Frame]:
        if node not in stacks:
            address, parent = int(trie.address[node]), int(trie.parent[node])
            above = frames_of(parent) if node > 0 else []
            stacks[node] = [*above, *(table.frames(address) if node > 0 and address >= 0 else ())]
        return stacks[node]

    rows: npt.NDArray[np.void] = intervals.tail
    assert not intervals.chunks, "so many intervals that their moments are rounded"
    nodes = profile._stacks.stack_nodes()
    for row in rows:
        cell = int(row["cell"])
        thread = moments.threads.get(int(cells.thread_id[cell]))
        state = ThreadState(int(cells.state[cell]))
        if thread is None or not row["samples"] or state is ThreadState.QUEUED:
            continue
        node = int(nodes[cells.stack[cell]])
        if node <= 0:
            continue
        start = int(row["t0_ns"])
        yield Sample(thread.tid, state, start, start + int(row["wall_ns"]), frames_of(node))
