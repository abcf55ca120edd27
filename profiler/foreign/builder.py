"""Make a recording of what a file of another profiler says.

Such a file has stacks with weights. It may lack all else: threads, moments, lines, the clock. What
it lacks is said in the state of the recording (``model.Status``), so that no reader shows it.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..model import Clock, Frame, FrameKind, Function, Status, Thread, ThreadState
from ..recording.figures import counted
from ..recording.names.table import SymbolTable
from ..recording.profile.budget import ADDRESS_BYTES, NODE_BYTES, TABLES_BYTES, THREAD_BYTES
from ..recording.profile.gains import GainMark, Gains
from ..recording.profile.interval_chunk import MAX_SUM_NS, ROW_DTYPE
from ..recording.profile.intervals import NewRows
from ..recording.profile.stack_columns import FIRST, StackColumns
from ..recording.profile.store import Profile
from ..recording.recording import Recording
from ..recording.writer import RecordingWriter
from ..wire.abi import FRAME_KIND_MANAGED, FRAME_KIND_SHIFT, MAX_FRAMES
from .columns import Int64s, distinct

NS_OF = {"nanoseconds": 1, "microseconds": 1_000, "milliseconds": 1_000_000, "seconds": 10**9}
"""Units of time, as files name them."""

ROOT = 0
START_NS = 1  # of the recording: 0 means that there is nothing
WEIGHTLESS = "it has no weights"

_MAX_NODES = TABLES_BYTES // NODE_BYTES
_MAX_ADDRESSES = TABLES_BYTES // ADDRESS_BYTES
_MAX_THREADS = TABLES_BYTES // 8 // THREAD_BYTES
_MAX_INLINED = 1 << 21  # frames, in all functions
_MAX_NAME = 1 << 14  # characters
_MAX_CHARACTERS = 1 << 28  # of all names
_MAX_SAMPLES = 1 << 31
_NO_CALL = 0xFFFF  # -1 in 16 bits
_KINDS = {
    (".py", ".pyx", ".pyi"): FrameKind.PYTHON,
    (".js", ".mjs", ".cjs", ".ts", ".tsx", ".jsx"): FrameKind.JAVASCRIPT,
    (".java", ".kt", ".scala", ".groovy", ".clj"): FrameKind.JAVA,
    (".rb",): FrameKind.RUBY,
}


@dataclass
class Known:
    """What a file says of all its stacks.

    Attributes:
        source: the format, and by whom it was written if that is known: "speedscope, by py-spy".
        clocks: those whose weights it has. Time of an unknown clock is of the wall clock, and
            ``weights`` is "time".
        weights: what is counted if it is none of our clocks: "time", "samples", "bytes" …
        has_moments: it says when each stack was seen.
        program: of which it is; "" if that is not known.
        pid: the same; 0 if not known.
        started_s: the time of day of its start, seconds since 1970; 0 if not known.
        notes: what the user should know, a line each.
    """

    source: str
    clocks: Sequence[Clock] = (Clock.WALL,)
    weights: str = ""
    has_moments: bool = False
    program: str = ""
    pid: int = 0
    started_s: float = 0.0
    notes: list[str] = field(default_factory=list)


def kind_of(file: str) -> FrameKind:
    """Return the language of a function by the name of its source file."""
    lower = file.lower()
    return next((kind for ends, kind in _KINDS.items() if lower.endswith(ends)), FrameKind.NATIVE)


class Builder:
    """Collects what a file says; see the module docstring.

    Args:
        name: of the file, for messages.

    All methods raise InputError if the file has more than fits into memory.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._functions: dict[tuple[str, str, str, FrameKind], Function] = {}
        self._addresses: dict[tuple[Frame, ...], int] = {}
        self._threads: dict[Hashable, Thread] = {}
        self._nodes: dict[int, int] = {}  # parent << 32 | address → node
        self._parent, self._address, self._depth = array("i"), array("i"), array("i")
        self._columns: list[tuple[npt.NDArray[Any], ...]] = []
        self._n_deep = self._n_inlined = 0
        self._n_characters = 0

    def function(
        self, name: str, module: str = "", file: str = "", kind: FrameKind | None = None
    ) -> Function:
        """Return a function. Without a kind, it has the one that the name of its file means."""
        key = name, module, file, kind_of(file) if kind is None else kind
        found = self._functions.get(key)
        if found is None:
            self._n_characters += len(name) + len(module) + len(file)
            if self._n_characters > _MAX_CHARACTERS:
                raise self.too_many("names")
            found = Function(_short(name), _short(module), _short(file), key[3])
            self._functions[key] = found
        return found

    def frame(self, *frames: Frame) -> int:
        """Return the number of a frame: of a function, and those inlined into it, outermost first.

        A file without addresses has one for each function and line.
        """
        n_known = len(self._addresses)
        found = self._addresses.setdefault(frames, n_known)
        if found == n_known:
            self._n_inlined += len(frames) - 1
            if found >= _MAX_ADDRESSES or self._n_inlined > _MAX_INLINED:
                raise self.too_many("functions")
        return found

    def child(self, caller: int, frame: int) -> int:
        """Return the number of the stack of a frame and its caller's stack, ``ROOT`` for none.

        Of stacks that are deeper than all that we show, the innermost frames are left out.
        """
        key = caller << 32 | frame
        found = self._nodes.get(key)
        if found is not None:
            return found
        depth = self._depth[caller - FIRST.n_nodes] if caller else 0
        if depth >= MAX_FRAMES:
            self._n_deep += 1
            return caller
        found = self._nodes[key] = FIRST.n_nodes + len(self._parent)
        if len(self._nodes) >= _MAX_NODES:
            raise self.too_many("different stacks")
        self._parent.append(caller)
        self._address.append(frame)
        self._depth.append(depth + 1)
        return found

    def stack(self, frames: Iterable[int]) -> int:
        """Return the number of a stack of frames, root first."""
        node, child = ROOT, self.child
        for frame in frames:
            node = child(node, frame)
        return node

    def thread(self, key: Hashable, name: str, tid: int = 0) -> int:
        """Return the number of a thread.

        Args:
            key: by which the file tells it from others.
            name: of it; "" if the file does not know it.
            tid: the kernel's number; 0 if the file does not know it.
        """
        found = self._threads.get(key)
        if found is None:
            number = len(self._threads) + 1
            if number >= _MAX_THREADS:
                raise self.too_many("threads")
            found = self._threads[key] = Thread(number, tid % (1 << 31), _short(name), exited=True)
        return found.thread_id

    def add(
        self,
        thread: int,
        node: Sequence[int] | Int64s,
        wall: Sequence[int] | Int64s,
        *,
        t0: Sequence[int] | Int64s | None = None,
        cpu: Sequence[int] | Int64s | None = None,
        samples: Sequence[int] | Int64s | int = 1,
        state: ThreadState = ThreadState.RUNNING,
    ) -> None:
        """Add what a thread did, in columns of one length.

        Args:
            thread: its number.
            node: stacks.
            wall: their weights by the wall clock, nanoseconds or whatever is counted.
            t0: when each began, nanoseconds since any moment; None if that is not known.
            cpu: the weights by the CPU clock; None if they are those of the wall clock.
            samples: how many stacks were taken.
            state: asleep, it has no CPU time.
        """
        count = len(node)
        walls = self._weights(wall)
        columns = (
            np.full(count, thread, np.int64),
            np.asarray(node, np.int64),
            np.full(count, state, np.int64),
            np.zeros(count, np.int64) if t0 is None else self._times(t0),
            walls,
            walls if cpu is None else self._weights(cpu),
            self._weights(np.full(count, samples) if isinstance(samples, int) else samples),
        )
        if len({len(each) for each in columns}) != 1:
            raise self.damaged("its columns have different lengths")
        self._columns.append(columns)

    def _weights(self, weights: Sequence[int] | Int64s) -> Int64s:
        found = self._times(weights)
        if len(found) and int(found.min()) < 0:
            raise self.damaged("a weight is negative")
        return found

    def _times(self, times: Sequence[int] | Int64s) -> Int64s:
        try:
            found = np.asarray(times, np.int64)
        except (OverflowError, ValueError, TypeError) as error:
            raise self.damaged("a number makes no sense") from error
        # The sum of all has to fit into 64 bits, and so has the distance of two moments.
        if len(found) and float(np.abs(found.astype(np.float64)).max()) >= MAX_SUM_NS:
            raise self.damaged("a number is too large")
        return found

    def damaged(self, why: str) -> InputError:
        """Return the error that the file makes no sense."""
        return InputError(f"{self._name} is damaged: {why}", "write it again with its own tool")

    def too_many(self, what: str) -> InputError:
        """Return the error that the file has more of something than fits into memory."""
        return InputError(
            f"{self._name} has more {what} than fit into memory", "write a shorter time of it"
        )

    def finish(self, known: Known) -> Recording:
        """Return the recording. Raises InputError if there is nothing in it."""
        columns = [np.concatenate(each) for each in zip(*self._columns, strict=True)] or None
        if columns is not None:
            if known.weights == "samples":
                columns[6] = np.minimum(columns[4], _MAX_SAMPLES - 1)
            counts = (columns[4] > 0) | (columns[5] > 0) | (columns[6] > 0)
            columns = [each[counts] for each in columns]
        if columns is None or not len(columns[0]):
            raise InputError(f"{self._name} has no samples", "record again with its own tool")
        total = float(columns[4].sum(dtype=np.float64) + columns[5].sum(dtype=np.float64))
        if total >= MAX_SUM_NS or int(columns[6].max()) >= _MAX_SAMPLES:
            raise self.damaged("its weights are too large")
        gains = self._gains(columns, has_moments=known.has_moments)
        functions = list(self._addresses)
        try:
            return _recording(gains, functions, self._status(known, gains))
        except ValueError as error:
            raise InputError(f"{self._name}: {error}", "write a shorter time of it") from error

    def _gains(self, columns: list[Int64s], *, has_moments: bool) -> Gains:
        thread, node, state, t0, wall, cpu, samples = columns
        nodes, stack = distinct(node, FIRST.n_nodes + len(self._parent))
        # Of a thread, in order of time; without moments, one after another.
        order = np.lexsort((t0, thread)) if has_moments else np.argsort(thread, kind="stable")
        thread, stack, state, t0 = thread[order], stack[order], state[order], t0[order]
        wall, cpu, samples = wall[order], cpu[order], samples[order]
        if has_moments:
            t0 = t0 - int(t0.min()) + START_NS
        else:
            t0 = _one_after_another(thread, wall) + START_NS
        n_threads, n_stacks = len(self._threads) + 1, len(nodes)
        keys, cell = distinct((thread * n_stacks + stack) << 3 | state, n_threads * n_stacks << 3)
        stack_of = (keys >> 3) % n_stacks + FIRST.n_stacks
        what = stack_of << 19 | _NO_CALL << 3 | keys & 7  # ``totals.Cells``
        rows = np.zeros(len(thread), ROW_DTYPE)
        rows["t0_ns"], rows["wall_ns"], rows["cpu_ns"] = t0, wall, cpu
        rows["samples"], rows["cell"] = samples, cell
        number = np.arange(len(self._addresses), dtype=np.uint64)
        none = np.zeros(len(nodes), np.uint8)
        stacks = StackColumns(
            addresses=number | np.uint64(FRAME_KIND_MANAGED << FRAME_KIND_SHIFT),
            parent=np.array(self._parent, np.int32),
            address=np.array(self._address, np.int32),
            depth=np.array(self._depth, np.int32),
            node=nodes.astype(np.int32),
            verdict=none,
            managed=none,
            marks=none,
            fault=none.astype(np.int32),
        )
        end_ns = int((t0 + wall).max())
        new = NewRows(((keys >> 3) // n_stacks).astype(np.uint32), what, rows, rows[:0], end_ns)
        return Gains(stacks, new, list(self._threads.values()), [], [], START_NS, GainMark())

    def _status(self, known: Known, gains: Gains) -> Status:
        notes = list(known.notes)
        if self._n_deep:
            deep = counted(self._n_deep, "frame")
            notes.append(f"{deep} deeper than {MAX_FRAMES:,} in a stack are left out")
        weight = max(int(gains.rows.ended[each].sum()) for each in ("wall_ns", "cpu_ns"))
        samples = int(gains.rows.ended["samples"].sum())
        program = _short(str(known.program))
        return Status(
            known.pid,
            program,
            "ended",
            program=program,
            started_s=known.started_s,
            duration_ns=gains.rows.now_ns - START_NS,
            samples=samples,
            effective_rate_hz=1e9 * samples / max(weight, 1),  # what a sample stands for
            is_final=True,
            notes=notes,
            source=_short(str(known.source)),
            clocks=[each.value for each in known.clocks],
            weights=_short(str(known.weights)),
            has_moments=known.has_moments,
        )


def _one_after_another(thread: Int64s, wall: Int64s) -> Int64s:
    """Return the start of each row if the rows of each thread come one after another."""
    before = np.cumsum(wall) - wall
    is_first = np.ones(len(thread), bool)
    is_first[1:] = thread[1:] != thread[:-1]
    first = np.maximum.accumulate(np.where(is_first, np.arange(len(thread)), 0))
    return np.asarray(before - before[first])


def _short(name: str) -> str:
    return name if len(name) <= _MAX_NAME else f"{name[:_MAX_NAME]}…"


def _recording(gains: Gains, frames: Sequence[tuple[Frame, ...]], status: Status) -> Recording:
    def filled(prepare: Callable[[Profile], None]) -> Recording:
        profile = Profile()
        prepare(profile)
        names = SymbolTable(profile.locate)
        profile.extend(gains)
        profile.settle()
        names.set_many(range(len(frames)), frames)
        found = Recording(profile, names, lambda: status, meta={})
        found.copy_to = copy_to
        return found

    def copy_to(file: BinaryIO) -> None:
        """Write it as a recording of our own."""
        writer = RecordingWriter(file, filled(Profile.keep_new))
        writer.finish()

    return filled(lambda profile: None)
