"""Keep texts and instructions in a recording's file, and answer from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..model import Function, SymbolSource
from ..symbols.locate.source_text import SourceText
from .chunks import Chunk
from .code_source import NO_FILE, CodeRow, Listing

TEXT, CODE = "TEXT", "CODE"
MAX_LINES = 1 << 24  # of all files
NOT_KEPT = "the recording has the instructions of its heaviest functions only"
NO_TEXT = "the recording does not have this file"


def listing_chunk(facts: dict[str, Any], rows: Sequence[CodeRow]) -> Chunk:
    """Return the instructions of a function as a chunk, beside the facts that say which it is."""
    texts: dict[str, int] = {}

    def number(text: str) -> int:
        return texts.setdefault(text, len(texts))

    named = [
        [number(text) for text in (row.text, row.target, row.file, row.inlined)] for row in rows
    ]
    columns = np.array(named, np.int64).reshape(len(rows), 4)
    return Chunk(
        CODE,
        {**facts, "texts": list(texts)},
        {
            "addr": np.array([row.addr for row in rows], np.uint64),
            "bytes": np.array([len(row.data) for row in rows], np.int64),
            "data": np.frombuffer(b"".join(row.data for row in rows), np.uint8),
            "line": np.array([row.line for row in rows], np.int64),
            "text": columns[:, 0],
            "target": columns[:, 1],
            "file": columns[:, 2],
            "inlined": columns[:, 3],
        },
    )


class KeptCode:
    """The code that a recording has. A ``CodeSource``.

    Args:
        chunks: of the recording; others than of code are left out.
        functions: of its names, by the numbers that the chunks have.
        sources: the source of names of each module.

    Attributes:
        damage: what of the chunks made no sense, and was left out; "" for nothing.
    """

    def __init__(
        self, chunks: Sequence[Chunk], functions: Sequence[Function], sources: list[SymbolSource]
    ) -> None:
        self._sources = sources
        self._texts: dict[tuple[str, str], SourceText] = {}
        self._listings: dict[tuple[Function, int], Chunk] = {}
        self._n_lines = 0
        self.damage = ""
        for chunk in chunks:
            if chunk.kind == TEXT:
                try:
                    self._take_texts(chunk)
                except ValueError as error:
                    self.damage = str(error)
            elif chunk.kind == CODE:
                match chunk.facts:
                    case {"function": int(number), "module": int(module_id)}:
                        if 0 <= number < len(functions):
                            self._listings[functions[number], module_id] = chunk

    def _take_texts(self, chunk: Chunk) -> None:
        for each in _list(chunk.facts.get("texts", [])):
            module, file, text = _text_of(each, MAX_LINES - self._n_lines)
            self._n_lines += len(text.lines or ())
            self._texts[module, file] = text

    def sources(self) -> list[SymbolSource]:
        """See ``CodeSource.sources``."""
        return self._sources

    def text(self, function: Function, file: str) -> SourceText:
        """See ``CodeSource.text``."""
        return self._texts.get((function.module, file), SourceText(None, NO_TEXT))

    def listing(self, function: Function, module_id: int, addrs: npt.NDArray[np.int64]) -> Listing:
        """See ``CodeSource.listing``."""
        chunk = self._listings.get((function, module_id))
        if chunk is None:
            raise LookupError(NOT_KEPT if module_id > 0 else NO_FILE)
        if "error" in chunk.facts:
            raise LookupError(str(chunk.facts["error"]))
        try:
            notes = [str(each) for each in _list(chunk.facts.get("notes", []))]
            return Listing(listing_rows(chunk), notes)
        except (IndexError, TypeError, ValueError) as error:
            raise LookupError("what the recording has of it is damaged") from error


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("what should be a list is none")
    return value


def _text_of(value: Any, most: int) -> tuple[str, str, SourceText]:
    match value:
        case [str(module), str(file), str(note), None, [], []]:
            return module, file, SourceText(None, note)
        case [str(module), str(file), str(note), int(length), list(runs), list(texts)]:
            if length <= most:
                return module, file, SourceText(_lines(length, runs, texts), note)
    raise ValueError("a source text makes no sense")


def _lines(length: int, runs: list[Any], texts: list[Any]) -> list[str]:
    """Return the lines of a file; those that are not kept are empty."""
    if length < 0 or not all(isinstance(each, str) for each in texts):
        raise ValueError("a source text makes no sense")
    lines, taken = [""] * length, 0
    for run in runs:
        match run:
            case [int(first), int(count)] if first > 0 and 0 <= count <= length + 1 - first:
                lines[first - 1 : first - 1 + count] = texts[taken : taken + count]
                taken += count
            case _:
                raise ValueError("a source text makes no sense")
    if len(lines) != length or taken != len(texts):
        raise ValueError("a source text makes no sense")
    return lines


def listing_rows(chunk: Chunk) -> list[CodeRow]:
    """Return the instructions of a chunk.

    Raises:
        IndexError, TypeError, ValueError: they are damaged.
    """
    texts = _list(chunk.facts.get("texts", []))
    lengths = chunk.column("bytes", "i8").tolist()
    data, at = chunk.column("data", "u1").tobytes(), 0
    columns = [
        chunk.column(name, "i8").tolist()
        for name in ("addr", "line", "text", "target", "file", "inlined")
    ]
    rows = []
    for length, (addr, line, *numbers) in zip(lengths, zip(*columns, strict=True), strict=True):
        text, target, file, inlined = (str(texts[number]) for number in numbers)
        code = data[at : at + length]
        rows.append(CodeRow(addr, code, text, target, 0, 0, file, line, inlined))
        at += length
    return rows
