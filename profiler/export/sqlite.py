"""Write an SQLite database, for questions that no view answers; ``docs/sql.md`` has examples.

An *interval* is a piece of a thread's time in one stack, doing one thing. A *stack* is a frame and
the stack of its caller. Times are nanoseconds since the start of the recording; of a range, only
what is inside. With a shape, stacks are as they are shown, without lines and addresses.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import numpy as np

from ..linux.syscalls import syscall_name
from ..locks.held_waits import HeldWaits
from ..model import Clock, Process, ThreadState
from ..recording.profile.interval_chunk import Block, cut
from ..recording.profile.totals import weigh
from ..tree.shown_frames import Call
from ..version import version
from .cell_leaves import CellLeaves, cell_leaves
from .json_pieces import text
from .leaf_stacks import OF_ALL_CLOCKS, LeafStacks
from .request import ExportRequest
from .time_rows import STATES, gil_of, lock_when_running, wait_of

_SCHEMA = """
pragma journal_mode = off;
pragma synchronous = off;
create table meta (name text, value text);
create table processes (
    process_id integer primary key, pid integer, command text, program text,
    started_s real, duration_ns integer, state text, reason text
);
create table threads (
    thread_id integer primary key, process_id integer, tid integer, name text, has_exited integer
);
create table modules (module_id integer primary key, path text, build_id text);
create table functions (
    function_id integer primary key, name text, full_name text, module text, file text, kind text
);
create table frames (
    frame_id integer primary key, function_id integer, file text, line integer,
    module_id integer, addr integer
);
create table stacks (
    stack_id integer primary key, caller_id integer, frame_id integer, depth integer
);
create table stack_functions (
    stack_id integer, function_id integer, primary key (stack_id, function_id)
) without rowid;
create table doing (doing_id integer primary key, state text, wait text, syscall text, gil text);
create table intervals (
    thread_id integer, stack_id integer, doing_id integer,
    start_ns integer, wall_ns integer, cpu_ns integer, off_cpu_ns integer
);
create table locks (
    thread_id integer, stack_id integer, start_ns integer, wait_ns integer,
    holder_thread_id integer
);
create view samples as
    select thread_id, tid, threads.name as thread, stack_id, functions.name as function,
        module, state, wait, syscall, gil, start_ns, wall_ns, cpu_ns, off_cpu_ns
    from intervals
        join threads using (thread_id) join doing using (doing_id) join stacks using (stack_id)
        join frames using (frame_id) join functions using (function_id);
create view waits as select * from samples where state = 'asleep';
"""
_INDEXES = "create index intervals_of_stack on intervals (stack_id);"
_SIGNED = 1 << 63


def write(request: ExportRequest, file: BinaryIO) -> None:
    """Write a profile as an SQLite database. It is made in the temporary folder."""
    folder = tempfile.mkdtemp(prefix="flametap-")
    try:
        path = os.path.join(folder, "out.sqlite")
        try:
            database = sqlite3.connect(path)
            try:
                _Database(request, database).fill()
            finally:
                database.close()
        except sqlite3.Error as error:
            raise OSError(f"in the temporary folder: {error}") from error
        with open(path, "rb") as made:
            shutil.copyfileobj(made, file)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Database:
    """Fills a database; see the module docstring."""

    def __init__(self, request: ExportRequest, database: sqlite3.Connection) -> None:
        self._request, self._database = request, database
        self._profile, self._names = request.profile, request.names
        # Of a live recording, cells may be added meanwhile: the leaves have all of these waits.
        self._waits = HeldWaits(self._profile.lock_intervals(*request.between_ns))
        self._leaves = cell_leaves(request)
        self._stacks = LeafStacks(request, OF_ALL_CLOCKS)
        self._frames: dict[tuple[int, int, int, int], int] = {}  # function, line, file, address
        self._stack_ids: dict[tuple[int, int], int] = {}  # caller's, frame
        self._of_leaf: dict[tuple[int, int], int] = {}  # 0: it does not count
        self._doing: dict[tuple[str, str, str, str], int] = {}

    def fill(self) -> None:
        """Write all tables."""
        database, request = self._database, self._request
        database.executescript(_SCHEMA)
        status = request.status
        facts = [("flametap", version()), ("title", request.title), ("counted", request.what)]
        clocks = [clock.value for clock in filter(status.has_clock, Clock)]
        facts += [("weights", status.weights or "time"), ("clocks", " ".join(clocks))]
        facts += [("note", note) for note in request.notes]
        self._insert("meta", ([name, text(value)] for name, value in facts))
        self._insert("processes", map(self._process_row, request.processes.values()))
        wanted = request.selection.thread_ids
        threads = {
            number: each
            for number, each in self._profile.threads.items()
            if wanted is None or number in wanted
        }
        self._insert(
            "threads",
            (
                [i, each.process + 1, each.tid, text(each.name), each.exited]
                for i, each in threads.items()
            ),
        )
        modules = self._profile.modules.values()
        self._insert("modules", ([m.module_id, text(m.path), text(m.build_id)] for m in modules))
        for thread_id in threads:
            for rows in self._intervals(thread_id):
                self._insert("intervals", rows)
        self._insert("locks", self._locks(wanted))
        self._insert("doing", ([number, *each] for each, number in self._doing.items()))
        self._insert("stacks", self._stack_rows())
        self._insert("stack_functions", self._functions_of_stacks())
        self._insert("frames", self._frame_rows())
        self._insert("functions", self._function_rows())
        database.executescript(_INDEXES)
        database.commit()

    def _process_row(self, process: Process) -> list[Any]:
        status, profile = self._request.status, self._profile
        began_ns = max(0, (process.first_seen_ns or profile.start_ns) - profile.start_ns)
        ended_ns = process.ended_ns - profile.start_ns if process.ended_ns else profile.duration_ns
        started_s = status.started_s + began_ns / 1e9 if status.started_s else 0.0
        state = "ended" if process.ended_ns else status.state
        names = process.pid, text(process.command), text(process.program)
        why = text(process.reason or status.reason)
        return [process.number + 1, *names, started_s, max(0, ended_ns - began_ns), state, why]

    def _insert(self, table: str, rows: Iterable[Any]) -> None:
        """Insert rows; the first one's length is that of all."""
        rows = iter(rows)
        first = next(rows, None)
        if first is None:
            return
        command = f"insert into {table} values ({', '.join('?' * len(first))})"
        self._database.execute(command, first)
        self._database.executemany(command, rows)

    # ---- intervals

    def _intervals(self, thread_id: int) -> Iterator[Iterable[tuple[Any, ...]]]:
        """Yield the intervals of a thread, in blocks."""
        leaves, start_ns = self._leaves, self._profile.start_ns
        for chunk in leaves.chunks:
            block = self._part(chunk.read(thread_id))
            some = leaves.counts[block.cell] & ((block.wall_ns > 0) | (block.cpu_ns > 0))
            block = block.take(some)
            cell, which = np.unique(block.cell, return_inverse=True)
            stack, doing = self._columns(leaves, cell.tolist())
            off_ns = weigh(Clock.OFF_CPU, leaves.state[block.cell], block.wall_ns, block.cpu_ns)
            is_apart = leaves.is_apart[block.cell] & (block.cpu_ns > 0)
            cpu_ns = np.where(is_apart, 0, block.cpu_ns)
            yield _rows(thread_id, stack[which], doing[which], block, start_ns, cpu_ns, off_ns)
            if is_apart.any():
                apart = block.take(is_apart)
                nodes = leaves.cpu_node[apart.cell].tolist()
                stack = np.array([self._stack(node, -1) for node in nodes], np.int64)
                locks = lock_when_running(leaves.lock[apart.cell]).tolist()
                running = np.array([self._do("running", "", "", gil_of(lock)) for lock in locks])
                none = np.zeros(len(stack), np.int64)
                apart = apart._replace(wall_ns=none)
                yield _rows(thread_id, stack, running, apart, start_ns, apart.cpu_ns, none)

    def _part(self, block: Block) -> Block:
        between_ns = self._leaves.between_ns
        return block if between_ns is None else cut(block, *between_ns)

    def _columns(self, leaves: CellLeaves, cells: list[int]) -> tuple[Any, Any]:
        """Return the stack and what is done of some cells."""
        stacks, doing = [], []
        for cell in cells:
            sysno, state = int(leaves.sysno[cell]), int(leaves.state[cell])
            stacks.append(self._stack(int(leaves.node[cell]), sysno))
            wait = wait_of(state, int(leaves.activity[cell]))
            syscall = syscall_name(sysno) if sysno >= 0 and state == ThreadState.PARKED else ""
            gil = gil_of(int(leaves.lock[cell]))
            doing.append(self._do(STATES[ThreadState(state)], wait, syscall, gil))
        return np.array(stacks, np.int64), np.array(doing, np.int64)

    def _do(self, state: str, wait: str, syscall: str, gil: str) -> int:
        return self._doing.setdefault((state, wait, syscall, gil), len(self._doing) + 1)

    def _locks(self, wanted: frozenset[int] | None) -> Iterator[tuple[int, ...]]:
        """Yield the waits for locks whose holder is known."""
        waits = self._waits
        block, holders = waits.with_holder()
        columns = block.cell, block.t0_ns - self._profile.start_ns, block.wall_ns, holders
        for cell, start_ns, wait_ns, holder in zip(*(c.tolist() for c in columns), strict=True):
            thread_id = int(waits.thread_id[cell])
            stack = self._stack(int(self._leaves.node[cell]), int(self._leaves.sysno[cell]))
            is_wanted = self._leaves.counts[cell] and (wanted is None or thread_id in wanted)
            if wait_ns and stack and is_wanted:
                yield thread_id, stack, start_ns, wait_ns, holder

    # ---- stacks

    def _stack(self, node: int, sysno: int) -> int:
        """Return the number of a leaf's stack; 0: it does not count."""
        key = node, sysno
        found = self._of_leaf.get(key)
        if found is None:
            calls = self._stacks.calls(node, sysno)
            found = self._of_leaf[key] = 0 if calls is None else self._number(calls)
        return found

    def _number(self, calls: list[Call]) -> int:
        stack = 0
        for address, places in calls:
            for place in places:
                frame = self._frames.setdefault((*place, address), len(self._frames) + 1)
                stack = self._stack_ids.setdefault((stack, frame), len(self._stack_ids) + 1)
        return stack or self._stack_ids.setdefault((0, 0), len(self._stack_ids) + 1)

    def _stack_rows(self) -> Iterator[tuple[int, int | None, int, int]]:
        depth = [0]  # by stack
        for (caller, frame), stack in self._stack_ids.items():
            depth.append(depth[caller] + 1)
            yield stack, caller or None, frame, depth[stack]

    def _functions_of_stacks(self) -> Iterator[tuple[int, int]]:
        """Yield each function once of each stack in which an interval ends."""
        function = [-1, *(key[0] for key in self._frames)]
        pairs = [(0, 0), *self._stack_ids]
        for stack in sorted({each for each in self._of_leaf.values() if each}):
            found, at = set(), stack
            while at:
                at, frame = pairs[at]
                found.add(function[frame])
            for each in sorted(found - {-1}):
                yield stack, each

    def _frame_rows(self) -> Iterator[tuple[Any, ...]]:
        files, functions = self._names.line_files, self._names.functions
        yield from [(0, -1, "", 0, None, None)] if (0, 0) in self._stack_ids else []
        for (function, line, file, address), number in self._frames.items():
            module_id, addr = self._stacks.code(address)
            signed = (addr + _SIGNED) % (2 * _SIGNED) - _SIGNED
            where = text(files[file] or functions[function].file)
            yield number, function, where, line, module_id or None, signed or None

    def _function_rows(self) -> Iterator[tuple[Any, ...]]:
        if (0, 0) in self._stack_ids:
            yield -1, "[all]", "[all]", "", "", "synthetic"
        for number in sorted({key[0] for key in self._frames}):
            each = self._names.functions[number]
            names = (each.name, each.full_name or each.name, each.module, each.file)
            yield (number, *map(text, names), each.kind.value)


def _rows(
    thread_id: int, stack: Any, doing: Any, block: Block, start_ns: int, cpu_ns: Any, off_ns: Any
) -> Iterable[tuple[int, ...]]:
    """Return the rows of ``intervals`` whose stacks count."""
    counts = stack > 0
    columns = stack, doing, block.t0_ns - start_ns, block.wall_ns, cpu_ns, off_ns
    return zip(
        [thread_id] * int(counts.sum()), *(each[counts].tolist() for each in columns), strict=True
    )
