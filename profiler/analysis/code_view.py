"""Annotate the modules, source lines and instructions of a profile with their weights.

Every answer is computed from the current profile, for the requested clock and threads. A request
names a function as it was shown before; if better symbols have changed its name since, the answer
is for the current name. Missing or damaged files of the target never raise: a note reports them.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..model import MANAGED, NO_MODULE, Frame, FrameKind, Function, Module, SymbolSource
from ..profile.store import Profile
from ..symbols.locate.source_text import SourceText, read_source
from ..symbols.names.table import JIT_MODULE, SymbolTable
from ..symbols.object.disassembly import Instruction, disassemble
from ..symbols.object.object_file import ObjectFile
from ..symbols.resolver import ModuleResolver
from ..symbols.symbolizer import Symbolizer
from .annotation import (
    AnnotatedCode,
    AnnotatedSource,
    CodeRow,
    ModuleSymbols,
    SymbolReport,
)
from .function_weights import Places, address_weights, line_weights, places
from .module_shares import ModuleShare, module_shares
from .node_weights import NodeWeights, node_weights
from .selection import Selection
from .source_lines import source_lines

# Most code of one function that is disassembled. CPython's interpreter loop has 60 kB, V8's largest
# builtins 100 kB.
MAX_CODE_BYTES = 1 << 20
MAX_ROWS = 20_000  # with more, only the surroundings of instructions with weight are shown
CONTEXT_ROWS = 40
MAX_LISTINGS = 4  # in the cache; a listing of 10 000 instructions has some MB
NOT_THERE = "this function has no weight for the chosen clock and threads"
PYTHON_MODULE = "Python"  # all Python functions together, among the modules
IN_NO_FILE = "its code is in no file: made while the program ran, or part of the interpreter"
GENERATED = "code that was generated while the program ran: it is in no file"


@dataclass(frozen=True, eq=False)
class _Listing:
    """A function's instructions, each with the frames at its address."""

    key: tuple[int, int]
    rows: list[tuple[Instruction, tuple[Frame, ...]]]
    notes: list[str]  # about omitted code

    def holds(self, addrs: npt.NDArray[np.int64]) -> bool:
        """Return True if one of the instructions contains each of these addresses."""
        return bool((_rows_of(self.rows, addrs) >= 0).all())


def _rows_of(
    rows: list[tuple[Instruction, tuple[Frame, ...]]], addrs: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the row of the instruction that contains each address; -1 if none does."""
    starts = np.array([each.addr for each, _ in rows], np.int64)
    ends = starts + np.array([len(each.data) for each, _ in rows], np.int64)
    row = np.searchsorted(starts, addrs, side="right").astype(np.int64) - 1
    inside = row >= 0
    inside[inside] = addrs[inside] < ends[row[inside]]
    return np.where(inside, row, -1)


class CodeView:
    """Answers about the code of a profile; see the module docstring. Any thread may call.

    Args:
        profile: the recording so far.
        table: the names known so far.
        symbolizer: the source of the names; None before the attach.
    """

    def __init__(self, profile: Profile, table: SymbolTable, symbolizer: Symbolizer | None) -> None:
        self._profile = profile
        self._table = table
        self._symbolizer = symbolizer
        self._listings: dict[Function, _Listing] = {}  # a cache, oldest first
        self._lock = threading.Lock()

    # -- modules

    def symbols(
        self,
        selection: Selection,
    ) -> SymbolReport:
        """Return the source of each module's names, and its share of the profile."""
        weights = node_weights(self._profile, self._table, selection)
        shares = {s.module_id: s for s in module_shares(self._profile, self._table, weights)}
        found = self._symbolizer.sources() if self._symbolizer else []
        sources = {source.module_id: source for source in found}
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
                texts[key] = self._text(function, file)
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
                texts[key] = self._text(frame.function, frame.file)
            lines = texts[key].lines
            if lines is not None and 0 < frame.line <= len(lines):
                found[frame] = lines[frame.line - 1].strip()
        return found

    def _text(self, function: Function, file: str) -> SourceText:
        if not file:
            return SourceText(None, self._why_no_lines(function))
        if function.kind is FrameKind.PYTHON and file.startswith("<"):
            return SourceText(None, IN_NO_FILE)
        if self._symbolizer is None:
            return read_source(file, ())
        is_script = function.kind is FrameKind.JAVASCRIPT
        built_ns = self._symbolizer.mapped_ns(file) if is_script else self._built_ns(function)
        found = read_source(file, self._symbolizer.roots, built_ns)
        if is_script and (found.lines is None or found.note):
            return self._symbolizer.embedded_text(file) or found
        return found

    def _why_no_lines(self, function: Function) -> str:
        sources = self._symbolizer.sources() if self._symbolizer else []
        for source in sources:
            if source.module == function.module and source.note:
                return f"no lines are known: {source.note}"
        return "no lines are known"

    def _built_ns(self, function: Function) -> int:
        """Return the time of the module file's last modification (Unix, ns); 0 if unknown."""
        for module in self._profile.modules.values():
            if module.name == function.module and self._symbolizer is not None:
                work = self._symbolizer.work_on(module.module_id)
                return 0 if work is None else work.modified_ns
        return 0

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
            listing, left_out = self._listing(function, module_id, here)
        except Exception as error:  # a bad file must not raise: the note reports it
            none.notes.append(f"the machine code cannot be read: {error}")
            return none
        return self._weighed(function, weights, here, listing, notes + left_out)

    def _listing(
        self, function: Function, module_id: int, found: Places
    ) -> tuple[list[tuple[Instruction, tuple[Frame, ...]]], list[str]]:
        """Return the function's instructions, each with its frames, and notes on omitted code.

        Raises:
            LookupError: the file or the function's extent is unknown.
        """
        if self._symbolizer is None:
            raise LookupError("its file is unknown")
        work = self._symbolizer.work_on(module_id)
        if work is None or work.image is None or work.resolver is None:
            raise LookupError("its file cannot be opened")
        with self._lock:
            kept = self._listings.get(function)
        # Reuse a listing while the names are the same and it contains every address with weight.
        key = (module_id, id(work.resolver.lines))
        if kept is not None and kept.key == key and kept.holds(found.addr):
            return kept.rows, kept.notes
        with work.resolving:  # meanwhile no other thread resolves addresses of this module
            instructions, notes = _decode(work.image.elf, work.resolver, found.addr.tolist())
            frames = work.resolver.resolve_many([each.addr for each in instructions])
        listing = list(zip(instructions, frames, strict=True))
        if function.kind is FrameKind.INLINED:
            listing = [
                (each, chain)
                for each, chain in listing
                if any(frame.function == function for frame in chain)
            ]
        with self._lock:
            while len(self._listings) >= MAX_LISTINGS:
                del self._listings[next(iter(self._listings))]
            self._listings[function] = _Listing(key, listing, notes)
        return listing, notes

    def _weighed(
        self,
        function: Function,
        weights: NodeWeights,
        found: Places,
        listing: list[tuple[Instruction, tuple[Frame, ...]]],
        notes: list[str],
    ) -> AnnotatedCode:
        n = len(listing)
        row = _rows_of(listing, found.addr)
        keys = np.where(row >= 0, row, n)  # group n: addresses outside of all instructions
        own, total = address_weights(weights, found.address, keys, n + 1)
        whole = address_weights(weights, found.address, np.zeros(len(found.address), np.int64), 1)
        if total[n]:
            share = total[n] / max(int(whole[1][0]), 1)
            notes.append(f"{share:.1%} of its weight is at addresses that are not shown")
        kept = _kept(total[:n] > 0)
        if len(kept) < n:
            notes.append(f"{n - len(kept):,} of {n:,} instructions left out: no weight nearby")
        rows = [_code_row(*listing[at], int(own[at]), int(total[at])) for at in kept]
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


def _decode(
    elf: ObjectFile, resolver: ModuleResolver, seen: Sequence[int]
) -> tuple[list[Instruction], list[str]]:
    """Decode the functions at some addresses; return instructions by address, and notes.

    Raises:
        LookupError: the extent of these functions is unknown.
    """
    notes: list[str] = []
    instructions: list[Instruction] = []
    left, end = MAX_CODE_BYTES, 0
    for start, stop in resolver.spans(seen):
        start = max(start, end)  # symbols may nest
        if start >= stop:
            continue
        size = min(stop - start, left)
        if size < stop - start:
            notes.append(f"only the first {MAX_CODE_BYTES >> 10} kB of its code are shown")
        code = elf.at_addr(start, size) if size else b""
        instructions += disassemble(code, start, elf.machine, resolver.target_names)
        left, end = left - size, stop
        if not left:
            break
    if not instructions:
        raise LookupError("the start and the end of the function are unknown")
    return instructions, notes


def _kept(weighs: npt.NDArray[np.bool_]) -> list[int]:
    """Return the rows to show: all, or if there are too many, those near rows with weight."""
    if len(weighs) <= MAX_ROWS:
        return list(range(len(weighs)))
    near = np.convolve(weighs, np.ones(2 * CONTEXT_ROWS + 1), "same") > 0.5
    kept: list[int] = np.flatnonzero(near)[:MAX_ROWS].tolist()
    return kept


def _code_row(
    instruction: Instruction, frames: tuple[Frame, ...], self_ns: int, total_ns: int
) -> CodeRow:
    innermost = frames[-1]
    return CodeRow(
        instruction.addr,
        instruction.data,
        instruction.text,
        instruction.target,
        self_ns,
        total_ns,
        innermost.file,
        innermost.line,
        innermost.function.name if len(frames) > 1 else "",
    )
