"""Annotate the modules, source lines and instructions of a profile with their weights.

Every answer is computed from the current profile, for the requested clock and threads. A request
names a function as it was shown before; if better symbols have changed its name since, the answer
is for the current name. Missing or damaged files of the target never raise: a note reports them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ..model import MANAGED, NO_MODULE, Frame, FrameKind, Function, Module, SymbolSource
from ..recording.code_source import CodeRow, CodeSource
from ..recording.names.table import JIT_MODULE
from ..recording.recording import Recording
from ..symbols.locate.source_text import SourceText
from ..tree.selection import Selection
from .annotation import (
    AnnotatedCode,
    AnnotatedSource,
    ModuleSymbols,
    SymbolReport,
    rows_of,
)
from .function_weights import Places, address_weights, line_weights, places
from .module_shares import ModuleShare, module_shares
from .node_weights import NodeWeights, node_weights
from .source_lines import source_lines

MAX_ROWS = 20_000  # with more, only the surroundings of instructions with weight are shown
CONTEXT_ROWS = 40
NOT_THERE = "this function has no weight for the chosen clock and threads"
PYTHON_MODULE = "Python"  # all Python functions together, among the modules
GENERATED = "code that was generated while the program ran: it is in no file"


class CodeView:
    """Answers about the code of a profile; see the module docstring. Any thread may call.

    Args:
        recording: has the names and the code that are known so far.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._profile = recording.profile
        self._table = recording.names

    @property
    def _code(self) -> CodeSource:
        return self._recording.code

    # -- modules

    def symbols(
        self,
        selection: Selection,
    ) -> SymbolReport:
        """Return the source of each module's names, and its share of the profile."""
        weights = node_weights(self._profile, self._table, selection)
        shares = {s.module_id: s for s in module_shares(self._profile, self._table, weights)}
        sources = {source.module_id: source for source in self._code.sources()}
        modules = self._profile.modules
        for module_id in shares:
            if module_id not in sources:  # the symbolizer does not know it yet
                sources[module_id] = _unknown_source(module_id, modules.get(module_id))
        nothing = ModuleShare(0, 0, 0, 0, 0)
        rows = [
            ModuleSymbols(source, shares.get(source.module_id, nothing))
            for source in sources.values()
        ]
        rows.sort(key=lambda row: (-row.share.self_ns, -row.share.total_ns, row.source.module))
        held = sum(share.self_ns for share in shares.values())
        return SymbolReport(weights.sum_ns, weights.sum_ns - held, rows)

    # -- lines

    def lines(
        self,
        function_id: int,
        selection: Selection,
    ) -> AnnotatedSource:
        """Return the weight of each line of a function, with the source text if it is readable.

        Args:
            function_id: the table's id of it.
            selection: what is counted.
        """
        return self.sources([function_id], selection)[0]

    def sources(self, function_ids: Sequence[int], selection: Selection) -> list[AnnotatedSource]:
        """Return the same for several functions; each file is read once.

        Args:
            function_ids: the table's ids of them.
            selection: what is counted.
        """
        weights = node_weights(self._profile, self._table, selection)
        texts: dict[tuple[str, str], SourceText] = {}
        return [self._source(each, weights, texts) for each in function_ids]

    def _source(
        self, function_id: int, weights: NodeWeights, texts: dict[tuple[str, str], SourceText]
    ) -> AnnotatedSource:
        function_id = self._now(function_id, weights)
        function = self._table.functions[function_id]
        found = line_weights(weights, [function_id])
        notes = [] if len(found.line) else [NOT_THERE]
        files = [function.file, *self._table.line_files[1:]]

        def text_of(file: str) -> SourceText:
            key = function.module, file
            if key not in texts or not file:
                texts[key] = self._code.text(function, file)
            return texts[key]

        rows, about = source_lines(found, files, text_of)
        return AnnotatedSource(
            function.file,
            found.function_self_ns,
            found.function_total_ns,
            weights.sum_ns,
            rows,
            notes + about,
        )

    def line_texts(self, frames: Sequence[Frame]) -> dict[Frame, str]:
        """Return the source lines of frames, as far as their files can be read; each file once."""
        texts: dict[tuple[str, str], SourceText] = {}
        found = {}
        for frame in frames:
            key = frame.function.module, frame.file
            if key not in texts:
                texts[key] = self._code.text(frame.function, frame.file)
            lines = texts[key].lines
            if lines is not None and 0 < frame.line <= len(lines):
                found[frame] = lines[frame.line - 1].strip()
        return found

    # -- instructions

    def instructions(
        self,
        function_id: int,
        selection: Selection,
    ) -> AnnotatedCode:
        """Return the weight of each instruction of a function; arguments as for ``lines``.

        For an inlined function, return its instructions in every function that contains it.
        """
        weights = node_weights(self._profile, self._table, selection)
        function_id = self._now(function_id, weights)
        function = self._table.functions[function_id]
        if function.kind is FrameKind.TAIL_CALL:
            notes = ["it left no frame, so the addresses in it are unknown"]
            return AnnotatedCode(function.module, 0, 0, weights.sum_ns, [], notes)
        # What numba has compiled is in no file, and has machine code.
        if function.kind is FrameKind.PYTHON and function.file:
            notes = ["a Python function has no machine code: the interpreter runs it"]
            return AnnotatedCode(function.module, 0, 0, weights.sum_ns, [], notes)
        found = places(self._profile, weights, [function_id])
        none = AnnotatedCode(function.module, 0, 0, weights.sum_ns, [], [])
        if not len(found.addr):
            none.notes.append(NOT_THERE)
            return none
        module_ids, which = np.unique(found.module_id, return_inverse=True)
        by_module = np.zeros(len(module_ids), np.int64)
        np.add.at(by_module, which, found.total_ns)
        heaviest = int(np.argmax(by_module))
        module_id = int(module_ids[heaviest])
        if module_id == NO_MODULE:
            none.notes.append(GENERATED)
            return none
        notes = []
        if len(module_ids) > 1:
            notes.append(f"{function.module} is mapped more than once: this is the heaviest copy")
        mine = which == heaviest
        here = Places(
            found.address[mine], found.module_id[mine], found.addr[mine], found.total_ns[mine]
        )
        try:
            listing, left_out = self._code.listing(function, module_id, here.addr)
        except Exception as error:  # a bad file must not raise: the note reports it
            none.notes.append(f"the machine code cannot be read: {error}")
            return none
        return self._weighed(function, weights, here, listing, notes + left_out)

    def _weighed(
        self,
        function: Function,
        weights: NodeWeights,
        found: Places,
        listing: Sequence[CodeRow],
        notes: list[str],
    ) -> AnnotatedCode:
        n = len(listing)
        row = rows_of(listing, found.addr)
        keys = np.where(row >= 0, row, n)  # group n: addresses outside of all instructions
        own, total = address_weights(weights, found.address, keys, n + 1)
        whole = address_weights(weights, found.address, np.zeros(len(found.address), np.int64), 1)
        if total[n]:
            share = total[n] / max(int(whole[1][0]), 1)
            notes.append(f"{share:.1%} of its weight is at addresses that are not shown")
        kept = _kept(total[:n] > 0)
        if len(kept) < n:
            notes.append(f"{n - len(kept):,} of {n:,} instructions left out: no weight nearby")
        rows = [replace(listing[at], self_ns=int(own[at]), total_ns=int(total[at])) for at in kept]
        return AnnotatedCode(
            function.module, int(whole[0][0]), int(whole[1][0]), weights.sum_ns, rows, notes
        )

    # -- both

    def _now(self, function_id: int, weights: NodeWeights) -> int:
        """Return the current id of a function.

        A function that was shown before its debug information was read has a file by now, and
        thereby another id.
        """
        function = self._table.functions[function_id]
        if function.file or len(line_weights(weights, [function_id]).line):
            return function_id
        same = [
            (line_weights(weights, [number]).function_total_ns, number)
            for number, other in enumerate(list(self._table.functions))
            if (other.name, other.module, other.kind)
            == (function.name, function.module, function.kind)
        ]
        return max(same)[1]


def _unknown_source(module_id: int, module: Module | None) -> SymbolSource:
    """Return the source of a module's names that the symbolizer does not list."""
    if module_id == MANAGED:
        return SymbolSource(module_id, PYTHON_MODULE, "interpreter", has_lines=True)
    return SymbolSource(module_id, module.name if module else JIT_MODULE, "pending")


def _kept(weighs: npt.NDArray[np.bool_]) -> list[int]:
    """Return the rows to show: all, or if there are too many, those near rows with weight."""
    if len(weighs) <= MAX_ROWS:
        return list(range(len(weighs)))
    near = np.convolve(weighs, np.ones(2 * CONTEXT_ROWS + 1), "same") > 0.5
    kept: list[int] = np.flatnonzero(near)[:MAX_ROWS].tolist()
    return kept
