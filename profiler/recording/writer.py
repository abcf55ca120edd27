"""Append to a file what a recording gains, while it grows.

Each step appends what is new as whole chunks. So a file that is cut at any moment, because the
machine or flametap went down, has all but what came after the last step.
"""

from __future__ import annotations

import contextlib
import dataclasses
import operator
import time
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO

from ..model import Function, Module, Process, Status, Thread
from .chunks import Chunk, ChunkSizeError, encode, header
from .index import INDEXED, as_index, last_chunk, nodes_chunk
from .names.frame_pool import NameGains, NameMark
from .profile.gains import GainMark, Gains
from .recording import Recording
from .row_columns import columns_of, ended_columns
from .sums_writer import SumsWriter

NAMES_EVERY_S = 1.0
STATUS_EVERY_S = 1.0
SAVED_EARLY = "it was saved while it was made"
MAX_ROWS = 1 << 20  # intervals in a chunk


class RecordingWriter:
    """Writes one recording; see the module docstring. One thread uses it at a time.

    Args:
        file: open for writing, at its start.
        recording: without intervals so far.
        with_arguments: False leaves out the arguments of the program.
        with_index: a reader can open it without reading all of it (``index``).
    """

    def __init__(
        self,
        file: BinaryIO,
        recording: Recording,
        *,
        with_arguments: bool = True,
        with_index: bool = True,
    ) -> None:
        self._with_arguments = with_arguments
        self._file = file
        self._end = 0  # of the file so far
        self._sums = SumsWriter(recording.profile) if with_index else None
        self._places: list[tuple[str, int]] = []  # of chunks that the index names
        self._profile = recording.profile
        self._table = recording.names
        self._status = recording.status
        self._mark = GainMark()
        self._names = NameMark()
        self._names_s = self._status_s = 0.0
        self._end += file.write(header())
        self.append([Chunk("META", recording.meta)])

    def step(self) -> None:
        """Append what is new. Raises OSError."""
        now_s = time.monotonic()
        chunks: list[Chunk] = []
        gains = self._profile.take_gains(self._mark)
        self._mark = gains.mark
        if not gains.is_empty or len(gains.rows.open):
            self._append_gains(gains)
        if now_s - self._names_s >= NAMES_EVERY_S:
            self._names_s = now_s
            chunks += self._new_names()
        if now_s - self._status_s >= STATUS_EVERY_S:
            self._status_s = now_s
            chunks.append(self._state())
        self.append(chunks)

    def finish(self, more: Iterable[Chunk] = ()) -> None:
        """Append the last samples, all names, and the final state. Raises OSError.

        Args:
            more: chunks before the last one.
        """
        gains = self._profile.take_gains(self._mark)
        self._mark = gains.mark
        self._append_gains(gains, is_last=True)
        self.append(self._new_names())
        self.append(more)
        self.append([*self._new_names(), self._state()])
        self._append_index()

    def _append_index(self) -> None:
        if self._sums is None or not self._sums.nodes:
            return
        at, places = self._end, self._places
        gains = self._profile.take_gains(GainMark())
        names = self._table.gains(NameMark(), gains.mark.stacks.n_addresses)
        chunks = [*gains_chunks(gains), names_chunk(names), nodes_chunk(self._sums, places)]
        with contextlib.suppress(ChunkSizeError):  # too much: the whole file has to be read
            self.append([as_index(each) for each in chunks])
            self.append([last_chunk(at)])

    def rest(self, more: Iterable[Chunk] = ()) -> Iterable[Chunk]:
        """Return what makes a copy of the file, up to the last step, a whole one.

        Args:
            more: chunks before the last one.
        """
        names = self._table.gains(self._names, self._mark.stacks.n_addresses)
        state = self._shown()
        if state.state != "ended":
            state = dataclasses.replace(state, state="ended", reason=SAVED_EARLY)
        yield from [] if names.is_empty else [names_chunk(names)]
        yield from more
        yield Chunk("STAT", dataclasses.asdict(state))

    def add(self, more: Iterable[Chunk]) -> None:
        """Append chunks that are about names, and these before. Raises OSError."""
        self.append(self._new_names())
        self.append(more)

    def append(self, chunks: Iterable[Chunk]) -> None:
        """Append chunks. Raises OSError."""
        for chunk in chunks:
            if chunk.kind == "STAT":  # the last one counts
                self._places = [each for each in self._places if each[0] != "STAT"]
            if chunk.kind in INDEXED:
                self._places.append((chunk.kind, self._end))
            self._end += self._file.write(encode(chunk))
        self._file.flush()

    def _append_gains(self, gains: Gains, *, is_last: bool = False) -> None:
        at, sums = self._end, self._sums
        self.append(gains_chunks(gains))
        if sums is None:
            return
        sums.add(gains, at)
        if sums.is_full:
            self._sums = None
        elif sums.is_due(self._end) or (is_last and sums.nodes and sums.has_rows):
            try:
                self.append(sums.make(gains.rows.now_ns, lambda: self._end))
            except ChunkSizeError:  # of very many cells: what follows has no sums
                self._sums = None
            if sums.is_full:
                self._sums = None

    def _new_names(self) -> list[Chunk]:
        gains = self._table.gains(self._names, self._mark.stacks.n_addresses)
        self._names = gains.mark
        return [] if gains.is_empty else [names_chunk(gains)]

    def _state(self) -> Chunk:
        return Chunk("STAT", dataclasses.asdict(self._shown()))

    def _shown(self) -> Status:
        status = self._status()
        if self._with_arguments:
            return status
        return dataclasses.replace(status, command=status.program or status.command.split(" ")[0])


def gains_chunks(gains: Gains) -> list[Chunk]:
    """Return what a profile has gained as chunks with at most ``MAX_ROWS`` intervals each."""
    ended = gains.rows.ended
    chunks = [_gains_chunk(gains._replace(rows=gains.rows._replace(ended=ended[:MAX_ROWS])))]
    for at in range(MAX_ROWS, len(ended), MAX_ROWS):
        rows = gains.rows._replace(
            thread_id=gains.rows.thread_id[:0],
            what=gains.rows.what[:0],
            ended=ended[at : at + MAX_ROWS],
        )
        none = gains.stacks.none()
        chunks.append(_gains_chunk(gains._replace(stacks=none, rows=rows)))
    return chunks


def _gains_chunk(gains: Gains) -> Chunk:
    stacks, rows = gains.stacks, gains.rows
    columns = {
        f"stacks.{each.name}": getattr(stacks, each.name) for each in dataclasses.fields(stacks)
    }
    columns |= {"cells.thread_id": rows.thread_id, "cells.what": rows.what}
    columns |= ended_columns(rows.ended) | columns_of("open", rows.open)
    facts = {
        "start_ns": gains.start_ns,
        "now_ns": rows.now_ns,
        "processes": _fields(gains.processes),
        "threads": [_thread(each) for each in gains.threads],
        "modules": _fields(gains.modules),
        "hidden": gains.hidden,
    }
    return Chunk("GAIN", {name: each for name, each in facts.items() if each}, columns)


def names_chunk(gains: NameGains) -> Chunk:
    """Return what a table of names has gained as a chunk."""
    others = ("functions", "files", "mark")
    columns = {
        each.name: getattr(gains, each.name)
        for each in dataclasses.fields(gains)
        if each.name not in others
    }
    facts = {
        "functions": _fields(gains.functions),
        "files": [list(each) for each in gains.files],
    }
    return Chunk("NAME", facts, columns)


def _thread(thread: Thread) -> list[Any]:
    """Return its fields, the last one only where it says something.

    So earlier versions can read recordings of one process.
    """
    fields = _fields([thread])[0]
    return fields if thread.process else fields[:-1]


def _fields(values: Sequence[Function | Module | Process | Thread]) -> list[list[Any]]:
    if not values:
        return []
    get = operator.attrgetter(*(each.name for each in dataclasses.fields(values[0])))
    return [list(get(each)) for each in values]
