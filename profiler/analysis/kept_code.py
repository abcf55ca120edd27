"""Keep the texts and instructions of what was sampled in a recording, and answer from them.

All lines that have a place in a stack are kept, with their surroundings, and the instructions of
the heaviest functions: a recording opens on machines that have neither the sources nor the program.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..model import Clock, FrameKind, Function, SymbolSource
from ..profile.store import Profile
from ..recording.chunks import Chunk
from ..symbols.locate.source_text import SourceText
from ..symbols.names.table import SymbolTable
from .annotation import CodeRow
from .code_source import CodeSource, Listing
from .function_sums import top_functions
from .function_weights import places
from .node_weights import node_weights
from .selection import Selection
from .source_lines import CONTEXT_LINES
from .tree_builder import TreeBuilder
from .tree_view import TreeIndex

TEXT, CODE = "TEXT", "CODE"
MAX_TEXT = 32_000_000  # characters; stored, a fifth of that
MAX_LISTED = 200  # functions, by self weight, and as many by total weight
LISTED_S = 2.0  # the CPU time that their instructions may take
NOT_KEPT = "the recording has the instructions of its heaviest functions only"
NO_TEXT = "the recording does not have this file"
MAX_LINES = 1 << 24  # of all files


def code_chunks(profile: Profile, table: SymbolTable, code: CodeSource) -> Iterator[Chunk]:
    """Return what a recording keeps of the code.

    Args:
        profile: the recording.
        table: its names, all found.
        code: the code of the target.
    """
    yield Chunk(TEXT, {"texts": list(_texts(profile, table, code))})
    yield from _listings(profile, table, code)


def _texts(profile: Profile, table: SymbolTable, code: CodeSource) -> Iterator[list[Any]]:
    pool = table.pool(profile.n_addresses)
    functions, files = table.functions, table.line_files
    columns = (np.array(each, np.int64) for each in (pool.functions, pool.line_files, pool.lines))
    wanted: dict[tuple[str, str], tuple[Function, set[int]]] = {}
    rows: list[list[int]] = np.unique(np.stack(list(columns)), axis=1).T.tolist()
    for number, in_file, line in rows:
        function = functions[number]
        file = files[in_file] or function.file
        wanted.setdefault((function.module, file), (function, set()))[1].add(line)
    left = MAX_TEXT
    for (module, file), (function, lines) in wanted.items():
        text = code.text(function, file)
        shown: list[int] = []
        if text.lines is not None and left > 0:
            shown = _around(lines, len(text.lines))
            left -= sum(len(text.lines[line - 1]) for line in shown)
        yield [
            *(module, file, text.note),
            None if text.lines is None else len(text.lines),
            _runs(shown),
            [text.lines[line - 1] for line in shown] if text.lines is not None else [],
        ]


def _around(lines: Iterable[int], length: int) -> list[int]:
    near: set[int] = set()
    for line in lines:
        if line:
            near.update(range(max(1, line - CONTEXT_LINES), min(line + CONTEXT_LINES, length) + 1))
    return sorted(near)


def _runs(lines: Sequence[int]) -> list[list[int]]:
    """Return lines in order as pairs: the first one of each run, and how many there are."""
    runs: list[list[int]] = []
    for line in lines:
        if runs and line == sum(runs[-1]):
            runs[-1][1] += 1
        else:
            runs.append([line, 1])
    return runs


def _listings(profile: Profile, table: SymbolTable, code: CodeSource) -> Iterator[Chunk]:
    begin_s = time.thread_time()
    weights = node_weights(profile, table, Selection(Clock.WALL, None))
    for number in _heaviest(profile, table):
        if time.thread_time() - begin_s > LISTED_S:
            return
        function = table.functions[number]
        found = places(profile, weights, [number])
        for module_id in np.unique(found.module_id).tolist():
            if module_id <= 0:
                continue
            addrs = found.addr[found.module_id == module_id]
            facts: dict[str, Any] = {"function": number, "module": module_id}
            try:
                rows, facts["notes"] = code.listing(function, module_id, addrs)
            except Exception as error:  # a bad file must not raise: the page reports it
                yield Chunk(CODE, {**facts, "error": str(error)})
                continue
            yield _chunk(facts, rows)


def _heaviest(profile: Profile, table: SymbolTable) -> list[int]:
    chosen: dict[int, None] = {}
    builder = TreeBuilder(profile, table)
    for clock in (Clock.CPU, Clock.WALL):
        tree = builder.build(Selection(clock, None))
        kinds = (FrameKind.NATIVE, FrameKind.INLINED)
        is_native = np.array([each.kind in kinds for each in tree.functions], bool)
        for by_self in (True, False):
            found = top_functions(
                TreeIndex(tree), 0, MAX_LISTED, by_self=by_self, matching=is_native
            )
            chosen |= dict.fromkeys(found.function.tolist())
    return list(chosen)


def _chunk(facts: dict[str, Any], rows: Sequence[CodeRow]) -> Chunk:
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
        table: its names.
        sources: the source of names of each module.

    Raises:
        ValueError: something in them makes no sense.
    """

    def __init__(
        self, chunks: Sequence[Chunk], table: SymbolTable, sources: list[SymbolSource]
    ) -> None:
        self._sources = sources
        self._texts: dict[tuple[str, str], SourceText] = {}
        self._listings: dict[tuple[Function, int], Chunk] = {}
        functions, n_lines = table.functions, 0
        for chunk in chunks:
            if chunk.kind == TEXT:
                for each in chunk.facts.get("texts", []):
                    module, file, text = _text_of(each, MAX_LINES - n_lines)
                    n_lines += len(text.lines or ())
                    self._texts[module, file] = text
            elif chunk.kind == CODE:
                match chunk.facts:
                    case {"function": int(number), "module": int(module_id)}:
                        if 0 <= number < len(functions):
                            self._listings[functions[number], module_id] = chunk

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
            raise LookupError(NOT_KEPT)
        if "error" in chunk.facts:
            raise LookupError(str(chunk.facts["error"]))
        return Listing(_rows(chunk), [str(each) for each in chunk.facts.get("notes", [])])


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


def _rows(chunk: Chunk) -> list[CodeRow]:
    texts = chunk.facts.get("texts", [])
    lengths = chunk.column("bytes", "i8").tolist()
    data, at = chunk.column("data", "u1").tobytes(), 0
    columns = [
        chunk.column(name, "i8").tolist()
        for name in ("addr", "line", "text", "target", "file", "inlined")
    ]
    rows = []
    try:
        for length, (addr, line, *numbers) in zip(lengths, zip(*columns, strict=True), strict=True):
            text, target, file, inlined = (str(texts[number]) for number in numbers)
            code = data[at : at + length]
            rows.append(CodeRow(addr, code, text, target, 0, 0, file, line, inlined))
            at += length
    except (IndexError, TypeError, ValueError) as error:
        raise LookupError("what the recording has of it is damaged") from error
    return rows
