"""Read a recording from a file, whatever is in the file.

What makes no sense ends the recording there: all before it is kept, and a note says so. Of a long
recording, the intervals can stay in the file (``stored_reader``).
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import partial
from typing import BinaryIO

from ..errors import InputError
from ..model import Status
from .chunks import Chunk, ChunkReader, DamageError
from .contents import Loaded, gains_of, take_meta, take_names, take_status
from .expansion import MAX_FRAMES, n_frames
from .index import INDEX_KINDS, LAST, NODES, TABLES, index_of, places_of
from .names.table import SymbolTable
from .profile.interval_chunk import Rows
from .profile.store import Profile
from .recording import with_sums
from .stored_reader import Nodes, node_of, nodes_of
from .sums_writer import MAX_NODE_ROWS, SUMS

CUT_OFF = "the recording was cut off"
_MAX_KEPT_BYTES = 1 << 28  # of chunks of further kinds


def load(
    file: BinaryIO, name: str, others: Collection[str] = (), *, stored: bool = False
) -> Loaded:
    """Read a recording.

    Args:
        file: open for reading, at its start.
        name: its path.
        others: further kinds of chunks that are kept, up to a limit.
        stored: leave the intervals in the file, where it has sums of them.

    Raises:
        InputError: it is no recording, of a newer version, or has nothing that can be read.
        OSError: it cannot be read.
    """
    if stored:
        found = _load_index(file, name, others)
        if found is not None:
            return found
        file.seek(0)
    loading = Loading(file, name, others, is_stored=stored)
    reader = ChunkReader(file, name, loading.wants)
    loading.read(reader, reader)
    return loading.finish(reader)


def _load_index(file: BinaryIO, name: str, others: Collection[str]) -> Loaded | None:
    """Read a recording by its index; None if it has none, or one that makes no sense."""
    loading = Loading(file, name, others, is_stored=True)
    reader = ChunkReader(file, name, loading.wants)
    places: list[tuple[str, int]] | None = None
    try:
        n_bytes = file.seek(0, os.SEEK_END)
        for chunk in index_of(reader, n_bytes):
            if chunk.kind == NODES and places is None:
                loading.nodes, places = nodes_of(chunk), places_of(chunk)
            elif chunk.kind in TABLES:
                loading.read(reader, [replace(chunk, kind=chunk.kind.upper())])
            elif chunk.kind != LAST:
                return None
            if reader.damage:
                return None
        for kind, place in places or ():
            found = reader.at(place)
            if found is None or found.kind not in (kind, ""):
                return None
            loading.read(reader, [found])
        if places is None or reader.damage:
            return None
        reader.end = n_bytes
        return loading.finish(reader)
    except (DamageError, InputError):
        return None


class Loading:
    """A recording that is being read.

    Args:
        file: of the recording.
        name: its path.
        others: further kinds of chunks that are kept.
        is_stored: leave intervals in the file.
        on_change: called after each change.

    Attributes:
        found: what was read so far.
        nodes: sums of intervals that stay in the file.
    """

    def __init__(
        self,
        file: BinaryIO,
        name: str,
        others: Collection[str],
        *,
        is_stored: bool,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._file = file
        profile = Profile(on_change)
        table = SymbolTable(profile.locate, on_change)
        self.found = Loaded(profile, table, Status(0, "", ""))
        self.nodes = Nodes()
        self._name = name
        self._others = others
        self._is_stored = is_stored
        self._kept_bytes = 0
        self._pending: list[tuple[int, Rows]] = []  # by the place of their chunk
        self._n_pending = 0
        self._kept_to = 0  # intervals of chunks up to this one are in memory
        self._takers: dict[str, Callable[[Chunk], None]] = {
            "META": partial(take_meta, self.found),
            "GAIN": self._take_gains,
            "NAME": partial(take_names, self.found),
            "STAT": partial(take_status, self.found),
        }
        if is_stored:
            self._takers[SUMS] = self._take_sums

    def forget_others(self, n_chunks: int) -> None:
        """Drop the first of the further chunks that are kept: later ones say the same anew."""
        del self.found.others[:n_chunks]
        self._kept_bytes = 0

    def wants(self, kind: str, n_bytes: int) -> bool:
        """Tell whether a chunk is to be unpacked."""
        if kind in self._others:
            self._kept_bytes += n_bytes
            return self._kept_bytes <= _MAX_KEPT_BYTES
        return kind in self._takers or kind in INDEX_KINDS

    def read(self, reader: ChunkReader, chunks: Iterable[Chunk]) -> None:
        """Take chunks, up to the first that makes no sense."""
        for chunk in chunks:
            taker = self._takers.get(chunk.kind)
            try:
                if taker is not None:
                    taker(chunk)
                elif chunk.kind in self._others:
                    self.found.others.append(chunk)
            except DamageError as error:
                reader.stop(chunk, str(error))
                return
            except (ValueError, TypeError, KeyError, OverflowError) as error:
                reader.stop(chunk, str(error) or "a chunk makes no sense")
                return

    def finish(self, reader: ChunkReader) -> Loaded:
        """Return the recording, with the state that it has at the end.

        Raises:
            InputError: it has nothing that can be read.
        """
        self._takers.clear()  # they refer to this
        found = self.found
        found.end, found.damage = reader.end, reader.damage
        try:
            if self._is_stored:
                self._store()
            found.profile.settle()
        except ValueError as error:
            raise InputError(f"{self._name} is damaged: {error}", "record again") from error
        if not found.profile.start_ns:
            why = f" ({reader.damage}, at byte {reader.end:,})" if reader.damage else ""
            raise InputError(f"{self._name} has no samples{why}", "record again")
        if n_frames(found.profile, found.table) > MAX_FRAMES:
            raise InputError(f"{self._name} has more frames than fit into memory", "record again")
        if found.status.state != "ended":
            found.status = _as_far_as_known(found, reader)
        elif reader.damage:
            found.status.notes.append(_damage_note(reader))
        if found.meta.get("is_part"):
            found.status = with_sums(found.status, found.profile)
        found.status.is_final = True
        return found

    def _take_gains(self, chunk: Chunk) -> None:
        gains = gains_of(chunk)
        self.found.profile.extend(gains, with_ended=not self._is_stored)
        if self._is_stored and len(gains.rows.ended):
            self._pending.append((chunk.offset, gains.rows.ended))
            self._n_pending += len(gains.rows.ended)
            if self._n_pending > MAX_NODE_ROWS:  # no sums are of so many
                self._keep_pending()

    def _keep_pending(self) -> None:
        for place, rows in self._pending:
            self.found.profile.add_rows(rows)
            self._kept_to = place
        self._pending, self._n_pending = [], 0

    def _take_sums(self, chunk: Chunk) -> None:
        """Take the sums of the intervals before them, which stay in the file."""
        node, _ = node_of(chunk)
        first = self._pending[0][0] if self._pending else -1
        if node.level == 0 and not self._kept_to < node.rows_at <= first:
            raise DamageError("its sums are of others than the intervals before them")
        self.nodes.add_next(chunk, self.found.profile.n_cells)
        if node.level == 0:
            self._pending, self._n_pending = [], 0

    def _store(self) -> None:
        profile = self.found.profile
        if any(self.nodes.levels):
            profile.store(self.nodes.stored(self._file, self._name, profile.n_cells))
        self._keep_pending()


def _damage_note(reader: ChunkReader) -> str:
    return f"the file cannot be read beyond byte {reader.end:,}: {reader.damage}"


def _as_far_as_known(found: Loaded, reader: ChunkReader) -> Status:
    """Return the state of a recording that does not have its last one."""
    seconds = found.profile.duration_ns / 1e9
    notes = [*found.status.notes, f"{CUT_OFF} after {seconds:.2f} s: names may be missing"]
    if reader.damage:
        notes.append(_damage_note(reader))
    status = with_sums(found.status, found.profile)
    return dataclasses.replace(status, state="ended", reason=CUT_OFF, notes=notes)
