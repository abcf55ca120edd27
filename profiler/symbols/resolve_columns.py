"""Make frames from the symbol and the inline chain at an address, for thousands at once.

The outermost function is named by the symbol if there is one. Inlined functions and lines come from
the chain. All of this is computed in columns of numbers; Python objects are made only for distinct
functions.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..model import FrameKind, Function
from ..recording.names.inline_chains import UNCLAIMED, Chains, Indexes, LineSource
from ..recording.names.packed_frames import PackedFrames
from .names.demangle import demangle_many
from .names.limits import ModuleNames
from .object.symtab import Symbol

_Texts = tuple[Indexes, list[str]]  # a column of indexes in a list of strings
_KINDS = (FrameKind.NATIVE, FrameKind.INLINED)


class FrameColumns:
    """Makes the frames of one module. Used by one thread at a time.

    Args:
        names: makes the functions.
        bodies_of: returns the start addresses of functions to which a split-off part may belong.
        inlines: whether inlined functions become frames.
    """

    def __init__(
        self, names: ModuleNames, bodies_of: Callable[[Symbol], list[int]], *, inlines: bool
    ) -> None:
        self._made = names
        self._bodies_of = bodies_of
        self._inlines = inlines
        self._functions: dict[tuple[str, str, FrameKind], Function] = {}
        self._files: dict[Symbol, str] = {}
        self._names: dict[str, tuple[str, str]] = {}

    def of(
        self,
        symbol: Indexes,
        chain: Indexes,
        symbols: list[Symbol],
        chains: Chains,
        lines: LineSource | None,
    ) -> PackedFrames:
        """Return the frames for pairs of a symbol and a chain.

        Args:
            symbol: for each pair an index into ``symbols``, -1 for none.
            chain: for each pair an index into ``chains``, -1 for none.
            symbols: the symbols.
            chains: the chains.
            lines: the source of the chains, for the source files of functions.

        Returns:
            the frames of each pair; no frames for a pair without symbol and chain.
        """
        has_chain, has_symbol = chain >= 0, symbol >= 0
        count = has_symbol.astype(np.int64)
        if has_chain.any():
            in_chain = chain[has_chain]
            outer_row = chains.first[in_chain]
            count[has_chain] = chains.count[in_chain] if self._inlines else 1
            is_claimed = np.array([name != UNCLAIMED for name in chains.symbols], bool)
            count[has_chain] *= has_symbol[has_chain] | is_claimed[chains.symbol[outer_row]]
        first = np.cumsum(count) - count
        pair = np.repeat(np.arange(len(count)), count)
        depth = np.arange(len(pair)) - first[pair]
        from_chain = has_chain[pair]
        row = np.zeros(len(pair), np.int64)
        row[from_chain] = chains.first[chain[pair[from_chain]]] + depth[from_chain]
        name = np.where(from_chain, len(symbols) + chains.symbol[row], symbol[pair])
        paths: dict[str, int] = {"": 0}
        path_of = np.array([paths.setdefault(path, len(paths)) for path in chains.files], np.int64)
        file = np.where(from_chain, path_of[chains.file[row]], 0)
        line = np.where(from_chain, chains.line[row], 0)
        outer = (depth == 0) & has_symbol[pair]
        name[outer] = symbol[pair[outer]]
        entry_files = self._entry_files(symbols, lines)
        numbers = [paths.setdefault(path, len(paths)) for path in entry_files]
        at_entry = np.array([*numbers, 0], np.int64)[symbol[pair]]
        moved = outer & (at_entry > 0) & (at_entry != file)
        # Code from an #include has lines of another file than its function.
        line_files, line_file = _compact(np.where(moved, file, 0), list(paths))
        file[moved] = at_entry[moved]
        texts = [each.name for each in symbols] + list(chains.symbols)
        function, functions = self._functions_of((name, texts), (file, list(paths)), depth > 0)
        return PackedFrames(first, count, function, line, line_file, functions, line_files)

    def _entry_files(self, symbols: list[Symbol], lines: LineSource | None) -> list[str]:
        """Return for each symbol the source file at its function's first instruction.

        That is the file of the function in all its frames: one function, one file, one box.
        """
        files = self._files
        new = [symbol for symbol in symbols if symbol not in files]
        if lines is None or not new:
            return [files.get(symbol, "") for symbol in symbols]
        files.update(zip(new, _files_at([symbol.start for symbol in new], lines), strict=True))
        for symbol in new:
            bodies = self._bodies_of(symbol)
            found = set(_files_at(bodies, lines)) if bodies else set()
            if len(found) == 1:  # otherwise several files have a private function of that name
                files[symbol] = found.pop()
        return [files[symbol] for symbol in symbols]

    def _functions_of(
        self, names: _Texts, files: _Texts, is_inlined: NDArray[np.bool_]
    ) -> tuple[Indexes, list[Function]]:
        """Return a column of function indexes and the distinct functions, from names and files."""
        width = len(files[1])
        code = (names[0] * width + files[0]) * 2 + is_inlined
        distinct, function = np.unique(code, return_inverse=True)
        keys = [
            (names[1][code // 2 // width], files[1][code // 2 % width], code % 2)
            for code in distinct.tolist()
        ]
        new = {name for name, _, _ in keys}.difference(self._names)
        if self._made.is_used_up:
            self._names.update(dict.fromkeys(new, ("", "")))
        else:
            self._names.update(demangle_many(new))
        functions = [self._function(name, file, _KINDS[kind]) for name, file, kind in keys]
        return function.astype(np.int64), functions

    def _function(self, symbol: str, file: str, kind: FrameKind) -> Function:
        function = self._functions.get((symbol, file, kind))
        if function is None:
            name, full_name = self._names[symbol]
            function = self._made.function(name, file, kind, full_name, symbol)
            self._functions[symbol, file, kind] = function
        return function


def _files_at(starts: list[int], lines: LineSource) -> list[str]:
    """Return the source file of the outermost function at each address; "" if unknown."""
    chains = lines.chains(starts)
    row = np.where(chains.of >= 0, chains.first[chains.of] if len(chains.first) else 0, 0)
    numbers: list[int] = np.where(chains.of >= 0, chains.file[row], -1).tolist()
    return [chains.files[number] if number >= 0 else "" for number in numbers]


def _compact(column: Indexes, texts: list[str]) -> tuple[list[str], Indexes]:
    """Drop the texts that a column of indexes does not use, except the first one.

    Return the remaining texts and the column of indexes into them.
    """
    used = np.unique(np.append(column, 0))
    return [texts[i] for i in used.tolist()], np.searchsorted(used, column)
