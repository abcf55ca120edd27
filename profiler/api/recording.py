"""A recording for scripts: functions, trees, threads and lanes as plain objects, in seconds."""

from __future__ import annotations

import datetime
import importlib
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from ..analysis.difference import Change, difference_of
from ..analysis.dispersion import Side
from ..analysis.views import views_of
from ..errors import OutputError, UsageError
from ..export import format_for, write_file, write_with
from ..export.request import ExportRequest
from ..export.shaping import shaping_of
from ..model import Activity, Clock, Function, Split
from ..timeline.lanes import FULL, MAX_BINS, MAX_LANES, LaneQuery
from ..tree.function_sums import top_functions
from ..tree.selection import Selection, Span
from ..tree.tree_view import TreeIndex
from .answers import FunctionTime, Lane, Node, Thread

if TYPE_CHECKING:
    from ..recording.recording import Recording as Recorded

NS_PER_S = 1e9

Threads: TypeAlias = int | str | Sequence[int] | None
"""A thread id, a regular expression for names, several ids, or None for all threads."""

Range: TypeAlias = tuple[float, float | None] | None
"""Start and end in seconds since the start of the recording; an end of None is that of it."""


class Recording:
    """What was recorded of a program: live, or from a file.

    Args:
        recorded: what was recorded.
        folder: is removed with the recording; "" for none.
    """

    def __init__(self, recorded: Recorded, folder: str = "") -> None:
        self._recorded = recorded
        if folder:
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    def __repr__(self) -> str:
        return f"<flametap.Recording of {self.command!r} ({self.pid}), {self.duration_s:.2f} s>"

    # ---- what it is of

    @property
    def pid(self) -> int:
        """The process id."""
        return self._recorded.status().pid

    @property
    def command(self) -> str:
        """The command line."""
        return self._recorded.status().command

    @property
    def started(self) -> datetime.datetime | None:
        """When it began, in local time; None if that is not known."""
        seconds = self._recorded.status().started_s
        return datetime.datetime.fromtimestamp(seconds).astimezone() if seconds else None

    @property
    def duration_s(self) -> float:
        """How long was recorded, in seconds."""
        return self._recorded.profile.duration_ns / NS_PER_S

    @property
    def notes(self) -> list[str]:
        """What limits the recording: losses, doubts, missing names."""
        return list(self._recorded.status().notes)

    @property
    def threads(self) -> list[Thread]:
        """All threads that had any time, those with the most CPU time first."""
        found = self._recorded.profile.thread_infos()
        return [
            Thread(
                each.tid,
                each.name,
                each.cpu_ns / NS_PER_S,
                each.wall_ns / NS_PER_S,
                each.off_cpu_ns / NS_PER_S,
                each.exited,
            )
            for each in sorted(found, key=lambda each: (-each.cpu_ns, each.tid))
        ]

    # ---- where the time went

    def functions(
        self, clock: str = "cpu", *, thread: Threads = None, range: Range = None
    ) -> list[FunctionTime]:
        """Return all functions with their times, those with the most time of their own first.

        Args:
            clock: "cpu", "wall" or "off-cpu".
            thread: only these threads.
            range: only this time.
        """
        tree = views_of(self._recorded).tree(self._selection(clock, thread, range))
        found = top_functions(TreeIndex(tree), 0, len(tree.functions))
        columns = (found.function.tolist(), found.self_ns.tolist(), found.total_ns.tolist())
        return [
            FunctionTime(each.name, each.module, each.file, own_ns / NS_PER_S, total_ns / NS_PER_S)
            for number, own_ns, total_ns in zip(*columns, strict=True)
            for each in (tree.functions[number],)
        ]

    def tree(self, clock: str = "cpu", *, thread: Threads = None, range: Range = None) -> Node:
        """Return the call tree; see ``functions`` for the arguments."""
        tree = views_of(self._recorded).tree(self._selection(clock, thread, range))
        root = Function("", "")
        columns = (tree.parent, tree.function, tree.line, tree.line_file)
        nodes: list[Node] = []
        for (parent, number, line, in_file), own_ns, total_ns in zip(
            zip(*(each.tolist() for each in columns), strict=True),
            tree.self_ns.tolist(),
            tree.total_ns.tolist(),
            strict=True,
        ):
            what = tree.functions[number] if number >= 0 else root
            file = str(tree.line_files[in_file] or what.file)
            node = Node(what.name, what.module, file, line, own_ns / NS_PER_S, total_ns / NS_PER_S)
            if parent >= 0:
                nodes[parent].children.append(node)
            nodes.append(node)
        return nodes[0]

    def timeline(
        self, bins: int = 600, *, thread: Threads = None, range: Range = None
    ) -> list[Lane]:
        """Return what each thread did over time, the busiest first, at most 64 of them.

        Args:
            bins: at most so many, up to 1 440.
            thread: only these threads.
            range: only this time.
        """
        selection = self._selection("wall", thread, range)
        duration_ns = self._recorded.profile.duration_ns
        start_ns, end_ns = (selection.span or Span(0)).between(0, duration_ns)
        query = LaneQuery(
            start_ns,
            end_ns,
            n_bins=max(1, min(bins, MAX_BINS)),
            thread_ids=selection.thread_ids,
            n_lanes=MAX_LANES,
            with_idle=True,
        )
        found = views_of(self._recorded).lanes(query)
        return [
            Lane(
                lane.thread.tid,
                lane.thread.name,
                found.bins.start_ns / NS_PER_S,
                found.bins.step_ns / NS_PER_S,
                {
                    Activity(activity).name.lower(): [part / FULL for part in plane]
                    for activity, plane in lane.planes.items()
                },
            )
            for lane in found.lanes
            if lane.thread is not None
        ]

    def diff(
        self,
        other: Recording,
        clock: str = "cpu",
        *,
        thread: Threads = None,
        range: Range = None,
        by_own: bool = False,
    ) -> list[Change]:
        """Return which functions take another share of the time in ``other``, the greatest first.

        A change with a ``grade`` of 0 may be chance.

        Args:
            other: the recording after.
            clock: see ``functions``.
            thread: see ``functions``.
            range: see ``functions``.
            by_own: compare the functions' own time, instead of that with what they call.
        """
        sides = [
            Side(each._recorded, each._selection(clock, thread, range)) for each in (self, other)
        ]
        found = difference_of(*sides)
        return list(found.own if by_own else found.total)

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame``: a row for each thread and stack, times in seconds.

        Columns: thread, tid, stack (names, root first, with ``;`` between them), cpu_s, wall_s,
        off_cpu_s.
        """
        pandas: Any = importlib.import_module("pandas")

        sums: dict[tuple[str, int, str], dict[str, float]] = {}
        for each in self.threads:
            for clock in Clock:
                waiting = [(self.tree(clock.value, thread=each.tid), "")]
                while waiting:
                    node, above = waiting.pop()
                    path = f"{above};{node.name}" if above else node.name
                    if node.own_s:
                        row = sums.setdefault((each.name, each.tid, path), {})
                        row[clock.value.replace("-", "_") + "_s"] = node.own_s
                    waiting.extend((child, path) for child in node.children)
        columns = ["thread", "tid", "stack", "cpu_s", "wall_s", "off_cpu_s"]
        rows = [dict(zip(columns, key, strict=False)) | times for key, times in sums.items()]
        return pandas.DataFrame(rows, columns=columns).fillna(0.0)

    # ---- files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Keep the whole recording in a file, for ``load`` and ``flametap open``.

        Raises:
            OutputError: it cannot be written.
        """
        if self._recorded.copy_to is None:
            raise OutputError("this recording is kept in no file", "export it")
        write_with(os.fspath(path), self._recorded.copy_to)

    def merge(self, *others: Recording) -> Recording:
        """Return one recording that has what this one and others have; see ``flametap merge``.

        Args:
            others: recordings of other programs, or of other times.

        Raises:
            OutputError: one is kept in no file.
            InputError: all together do not fit into one.
        """
        folder = tempfile.mkdtemp(prefix="flametap-")
        try:
            paths = []
            for number, each in enumerate((self, *others)):
                paths.append(os.path.join(folder, f"{number}.flametap"))
                each.save(paths[-1])
            whole = os.path.join(folder, "merged.flametap")
            write_with(whole, lambda file: _merge(paths, file))
            for path in paths:
                os.unlink(path)
            return load(whole, folder=folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def export(
        self,
        path: str | os.PathLike[str],
        clock: str = "cpu",
        *,
        format: str | None = None,
        thread: Threads = None,
        range: Range = None,
        by: str = "",
        shape: str = "",
    ) -> None:
        """Write a file of another format.

        Args:
            path: the file; its name tells the format.
            clock: see ``functions``.
            format: "html", "svg", "speedscope", "firefox", "pprof", "sqlite", "folded",
                "chrome", "cpuprofile", "perf-script", "jsonl" or "markdown".
            thread: see ``functions``.
            range: see ``functions``.
            by: "program", "process" or "thread": a root frame for each, in formats that do not
                separate them.
            shape: steps as in a link of the page, "hide:malloc;inverted" say.

        Raises:
            UsageError: the format is not known, or a step is none.
            OutputError: it cannot be written.
        """
        selection = replace(self._selection(clock, thread, range), split=_split(by))
        shaping = shaping_of(self._recorded, shape)
        request = ExportRequest(self._recorded, selection, shaping=shaping)
        write_file(os.fspath(path), format_for(os.fspath(path), format), request)

    def _repr_html_(self) -> str:
        """Show the report in a notebook."""
        from .report_frame import report_frame

        return report_frame(self._recorded)

    # ---- arguments

    def _selection(self, clock: str, thread: Threads, range: Range) -> Selection:
        try:
            known = Clock(clock)
        except ValueError:
            names = ", ".join(each.value for each in Clock)
            raise UsageError(f"there is no clock {clock!r}", f"clocks are {names}") from None
        return Selection(known, self._thread_ids(thread), span=_span(range))

    def _thread_ids(self, thread: Threads) -> frozenset[int] | None:
        if thread is None:
            return None
        infos = self._recorded.profile.thread_infos()
        if isinstance(thread, str):
            try:
                pattern = re.compile(thread)
            except re.error as error:
                raise UsageError(f"{thread!r} is no regular expression: {error}", "") from None
            return frozenset(each.thread_id for each in infos if pattern.search(each.name))
        tids = {thread} if isinstance(thread, int) else set(thread)
        return frozenset(each.thread_id for each in infos if each.tid in tids)


def _merge(paths: Sequence[str], file: BinaryIO) -> None:
    from ..recording.merge.whole import merge

    merge(paths, file)  # its notes are in the recording


def _split(by: str) -> Split:
    try:
        return Split(by)
    except ValueError:
        raise UsageError(f"by={by!r} is none", "program, process or thread") from None


def _span(range: Range) -> Span | None:
    if range is None:
        return None
    start_s, end_s = range
    if start_s < 0 or (end_s is not None and end_s <= start_s):
        raise UsageError(f"{range!r} is no range of time", "give (start, end) in seconds")
    return Span(round(start_s * NS_PER_S), None if end_s is None else round(end_s * NS_PER_S))


def load(path: str | os.PathLike[str], *, folder: str = "") -> Recording:
    """Open a recording that ``save`` or ``flametap record`` has made, or another profiler's file.

    Args:
        path: the file.
        folder: is removed with the recording; "" for none.

    Raises:
        InputError: it cannot be read, or is of no format that is known.
    """
    from ..foreign.opening import open_file

    return Recording(open_file(os.fspath(path)), folder)


__all__ = ["Change", "FunctionTime", "Lane", "Node", "Recording", "Thread", "load"]
