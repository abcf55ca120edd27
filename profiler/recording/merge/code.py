"""Join the source texts and instructions that several recordings keep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..chunks import Chunk
from ..kept_code import CODE, TEXT, listing_chunk, listing_rows

MAX_BYTES = 1 << 27  # of all: far more than recordings keep
TEXTS_IN_CHUNK = 1 << 23  # characters


class MergedCode:
    """Source texts and instructions of several recordings, each once.

    Where two recordings have lines of one file, or instructions of one function, those of both are
    kept. If they differ, those of the first are.

    Attributes:
        has_all: False if something found no room.
    """

    def __init__(self) -> None:
        self.has_all = True
        self._texts: dict[tuple[str, str], list[Any]] = {}
        self._listings: dict[tuple[int, int], Chunk] = {}
        self._n_bytes = 0

    def add(
        self, chunks: Sequence[Chunk], functions: Sequence[int], modules: Mapping[int, int]
    ) -> None:
        """Add the chunks of a recording, which ``KeptCode`` takes.

        Args:
            chunks: texts and instructions.
            functions: the number of each of its functions in the whole.
            modules: the number of each of its modules in the whole.
        """
        for chunk in chunks:
            if chunk.kind == TEXT:
                for each in chunk.facts.get("texts", []):
                    if self._has_room(sum(map(len, each[5]))):
                        self._add_text(each)
            elif chunk.kind == CODE and self._has_room(
                sum(each.nbytes for each in chunk.columns.values())
            ):
                match chunk.facts:
                    case {"function": int(number), "module": int(module_id)}:
                        if 0 <= number < len(functions) and module_id in modules:
                            self._add_listing(chunk, functions[number], modules[module_id])

    def chunks(self) -> Iterator[Chunk]:
        """Return all of it as chunks."""
        texts: list[list[Any]] = []
        n_characters = 0
        for each in self._texts.values():
            texts.append(each)
            n_characters += sum(map(len, each[5]))
            if n_characters > TEXTS_IN_CHUNK:
                yield Chunk(TEXT, {"texts": texts})
                texts, n_characters = [], 0
        yield Chunk(TEXT, {"texts": texts})
        yield from self._listings.values()

    def _has_room(self, n_bytes: int) -> bool:
        has_room = self._n_bytes + n_bytes <= MAX_BYTES
        self._n_bytes += n_bytes if has_room else 0
        self.has_all &= has_room
        return has_room

    def _add_text(self, text: list[Any]) -> None:
        module, file, note, length, runs, texts = text
        known = self._texts.setdefault((module, file), text)
        if known is text:
            return
        if known[3] is None and length is not None:
            self._texts[module, file] = text
        elif known[3] == length is not None:
            lines = _lines(runs, texts) | _lines(known[4], known[5])
            numbers = sorted(lines)
            joined = [module, file, known[2] or note, length, _runs(numbers)]
            self._texts[module, file] = [*joined, [lines[each] for each in numbers]]

    def _add_listing(self, chunk: Chunk, function: int, module_id: int) -> None:
        facts = {**chunk.facts, "function": function, "module": module_id}
        facts.pop("columns", None)
        known = self._listings.get((function, module_id))
        if known is None or "error" in known.facts:
            self._listings[function, module_id] = replace(chunk, facts=facts, process=0)
        elif "error" not in facts:
            try:
                rows = {row.addr: row for each in (chunk, known) for row in listing_rows(each)}
            except (
                IndexError,
                TypeError,
                ValueError,
            ):  # one is damaged: the page says so of the first
                return
            facts["notes"] = list(dict.fromkeys((*_notes(known.facts), *_notes(facts))))
            in_order = [rows[addr] for addr in sorted(rows)]
            self._listings[function, module_id] = listing_chunk(facts, in_order)


def _notes(facts: Mapping[str, Any]) -> list[str]:
    notes = facts.get("notes", [])
    return [str(each) for each in notes] if isinstance(notes, list) else []


def _lines(runs: list[Any], texts: list[str]) -> dict[int, str]:
    numbers = [line for first, count in runs for line in range(first, first + count)]
    return dict(zip(numbers, texts, strict=True))


def _runs(numbers: list[int]) -> list[list[int]]:
    """Return numbers in order as pairs: the first one of each run, and how many there are."""
    if not numbers:
        return []
    starts = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 2) != 1)
    counts = np.diff(starts, append=len(numbers))
    return [[numbers[at], count] for at, count in zip(starts, counts.tolist(), strict=True)]
