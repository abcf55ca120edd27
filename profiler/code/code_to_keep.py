"""Choose the texts and instructions of what was sampled that a recording's file keeps.

All lines that have a place in a stack are kept, with their surroundings, and the instructions of
the heaviest functions: a recording opens on machines that have neither the sources nor the program.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, zip_longest
from typing import Any

import numpy as np

from ..model import Clock, FrameKind, Function
from ..recording.chunks import Chunk
from ..recording.code_source import CodeSource
from ..recording.kept_code import CODE, TEXT, listing_chunk
from ..recording.names.table import SymbolTable
from ..recording.profile.store import Profile
from ..recording.recording import Recording
from ..symbols.locate.source_text import SourceText
from ..tree.function_sums import top_functions
from ..tree.selection import Selection
from ..tree.tree_builder import TreeBuilder
from ..tree.tree_view import TreeIndex
from .function_weights import places
from .node_weights import node_weights
from .source_lines import CONTEXT_LINES

LEFT_OUT = "source texts were left out of this recording: --no-sources"
MAX_TEXT = 32_000_000  # characters; stored, a fifth of that
MAX_LISTED = 200  # functions, by self weight, and as many by total weight
_HAVE_CODE = (FrameKind.NATIVE, FrameKind.INLINED, FrameKind.UNKNOWN)
# The CPU time that their instructions may take: the end of a recording waits for it.
LISTED_S = 0.7


def code_chunks(recording: Recording, *, with_sources: bool = True) -> Iterator[Chunk]:
    """Return what a recording's file keeps of its code, once all names are found.

    Args:
        recording: it.
        with_sources: False leaves out the texts of lines.
    """
    profile, table, code = recording.profile, recording.names, recording.code
    most = MAX_TEXT if with_sources else 0
    yield Chunk(TEXT, {"texts": list(_texts(profile, table, code, most))})
    yield from _listings(profile, table, code)


def _texts(
    profile: Profile, table: SymbolTable, code: CodeSource, left: int
) -> Iterator[list[Any]]:
    pool = table.pool(profile.n_addresses)
    functions, files = table.functions, table.line_files
    columns = (np.array(each, np.int64) for each in (pool.functions, pool.line_files, pool.lines))
    wanted: dict[tuple[str, str], tuple[Function, set[int]]] = {}
    rows: list[list[int]] = np.unique(np.stack(list(columns)), axis=1).T.tolist()
    for number, in_file, line in rows:
        function = functions[number]
        file = files[in_file] or function.file
        wanted.setdefault((function.module, file), (function, set()))[1].add(line)
    nothing = SourceText(None, LEFT_OUT)
    is_left_out = not left
    for (module, file), (function, lines) in wanted.items():
        text = nothing if is_left_out else code.text(function, file)
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
            yield listing_chunk(facts, rows)


def _heaviest(profile: Profile, table: SymbolTable) -> list[int]:
    """Return functions: the heaviest of each clock, by self weight and by total weight in turns."""
    chosen: list[list[int]] = []
    builder = TreeBuilder(profile, table)
    for clock in (Clock.CPU, Clock.WALL):
        tree = builder.build(Selection(clock, None))
        index = TreeIndex(tree)
        has_code = np.array([each.kind in _HAVE_CODE for each in tree.functions], bool)
        for by_self in (True, False):
            found = top_functions(index, 0, MAX_LISTED, by_self=by_self, matching=has_code)
            chosen.append(found.function.tolist())
    turns = chain.from_iterable(zip_longest(*chosen))
    return list(dict.fromkeys(number for number in turns if number is not None))
