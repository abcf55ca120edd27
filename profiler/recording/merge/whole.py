"""Merge the files of several recordings into one.

The tables (threads, modules, stacks, names) of one file after another are read as a whole, numbered
anew and appended. Then the intervals of all files are copied side by side in order of time, so that
memory does not depend on their number. Weights are copied, never computed: the sums of the whole
are those of the parts.

What is written is read again before it counts: it opens as any other recording does.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from ...errors import InputError
from ...model import SymbolSource
from ..chunks import Chunk, encode, header
from ..contents import Loaded
from ..kept_code import CODE, TEXT, KeptCode
from ..names.frame_pool import NameMark
from ..opened import STORED_BYTES
from ..profile.gains import GainMark, Gains
from ..profile.store import Profile
from ..reader import load
from ..recording import machine
from ..writer import gains_chunks, names_chunk
from .code import MergedCode
from .names import MergedNames
from .parts import Part, in_order, name, unreadable
from .places import place, settle
from .rows import merged_rows
from .status import list_of, merged_meta, merged_status, title_of
from .tables import MergedTables

_HINT = "merge fewer recordings, or parts of them"
CODE_LEFT_OUT = "some source lines and instructions found no room in the merged recording"


def merge(paths: Sequence[str], file: BinaryIO) -> list[str]:
    """Write a recording that has what several recordings have.

    Args:
        paths: of their files.
        file: a new one, open for writing; it can be opened again while it is.

    Returns:
        Notes on how they fit together; they are in the recording, too.

    Raises:
        InputError: one is no recording, or all together do not fit into one.
        OSError: the file cannot be written.
    """
    whole = _Whole(paths)
    file.write(header())
    try:
        for chunk in whole.chunks():
            file.write(encode(chunk))
    except ValueError as error:  # more in a chunk than one may have
        raise InputError(f"these recordings cannot be merged: {error}", _HINT) from error
    file.flush()
    with open(f"/proc/self/fd/{file.fileno()}", "rb") as again:
        try:
            damage = load(again, "the whole").damage
        except InputError as error:
            damage = error.message
    if damage:
        raise InputError(f"these recordings do not fit into one: {damage}", _HINT)
    return whole.notes


class _Whole:
    """What several recordings become.

    Args:
        paths: of their files.

    Attributes:
        notes: on how they fit together, once all is read.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self._files = in_order(paths)
        self._parts: list[Part] = []
        self._tables, self._names, self._code = MergedTables(), MergedNames(), MergedCode()
        self._symbols: dict[int, SymbolSource] = {}
        self._doubts: list[tuple[Part, str]] = []
        self.notes: list[str] = []
        self._trial = Profile()  # has the tables only

    def chunks(self) -> Iterator[Chunk]:
        """Return all of it. Raises InputError, and ValueError for a chunk that is too large."""
        yield Chunk("META", merged_meta([meta for _, meta in self._files], machine()))
        for path, _ in self._files:
            yield from self._tables_of(path)
        parts = self._parts
        self._trial = Profile()
        gap = settle(parts)
        name(parts)
        for gains in self._tables.rosters():
            yield from gains_chunks(gains)
        for gains in merged_rows(parts, self._tables):
            yield from gains_chunks(gains)
        yield from self._code.chunks()
        self.notes = [f"{title_of(part)}: {doubt}" for part, doubt in self._doubts]
        if gap:
            self.notes.append(gap)
        if not self._code.has_all:
            self.notes.append(CODE_LEFT_OUT)
        status = merged_status(parts, list(self._symbols.values()), self.notes)
        yield Chunk("META", list_of(parts))
        yield Chunk("STAT", dataclasses.asdict(status))

    def _tables_of(self, path: str) -> Iterator[Chunk]:
        """Read a part, and return its tables."""
        loaded = _read(path)
        part = Part.of(path, loaded)
        counts = {each.status.weights or "time by clocks" for each in (part, *self._parts)}
        if len(counts) > 1:
            raise InputError(
                f"what they count cannot be merged: {' and '.join(sorted(counts))}",
                "name files that count the same",
            )
        doubt = place(part, self._parts)
        if doubt:
            self._doubts.append((part, doubt))
        self._parts.append(part)
        first_address = self._tables.n_addresses
        n_addresses = loaded.profile.n_addresses
        module_ids, tables = self._tables.add(part, loaded.profile.take_gains(GainMark()))
        for gains in tables:
            self._try(gains, path)
            yield from gains_chunks(gains)
        functions, names = self._names.add(
            loaded.table.gains(NameMark(), n_addresses), first_address
        )
        yield from map(names_chunk, names)
        self._code.add(loaded.others, functions, module_ids)
        for each in loaded.status.symbols:
            number = module_ids.get(each.module_id)
            if number is not None:
                source = dataclasses.replace(each, module_id=number)
                self._symbols.setdefault(number, source)

    def _try(self, gains: Gains, path: str) -> None:
        """Raise InputError, before much is written, if tables do not fit into memory."""
        try:
            self._trial.extend(gains)
        except ValueError as error:
            raise InputError(f"{path} does not fit beside the others: {error}", _HINT) from error


def _read(path: str) -> Loaded:
    try:
        with open(path, "rb") as file:
            is_long = os.fstat(file.fileno()).st_size > STORED_BYTES
            loaded = load(file, path, (CODE, TEXT), stored=is_long)
    except OSError as error:
        raise unreadable(path, error) from error
    damage = KeptCode(loaded.others, loaded.table.functions, loaded.status.symbols).damage
    if damage:
        raise InputError(f"{path} is damaged: {damage}", "record again")
    return loaded
