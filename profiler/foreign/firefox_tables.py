"""Read what the threads of a file for Firefox Profiler refer to: stacks, frames, functions, names.

Newer files have these tables once, older ones in each thread. See ``firefox`` for the source.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ..model import Frame, FrameKind, Function
from .builder import Builder, kind_of
from .columns import NONE, Int64s, at, indices, line_of
from .prefix_stacks import PrefixStacks

Strings = list[Any]
_ADDRESS = re.compile(r"0x[0-9a-f]+")


def strings_of(tables: dict[str, Any]) -> Strings:
    """Return the names that tables refer to; none if they have none themselves."""
    found = tables.get("stringArray") or tables.get("stringTable") or []
    if not isinstance(found, list):
        raise TypeError("the names are no list")
    return found


class Tables:
    """The tables of a thread, or of all.

    Args:
        builder: gets the functions and stacks.
        own: has the tables.
        shared: has those of all threads, such as the names of files.
        strings: the names.
        libs: the modules.

    Attributes:
        n_nameless: how many functions are only addresses.
    """

    def __init__(
        self,
        builder: Builder,
        own: dict[str, Any],
        shared: dict[str, Any],
        strings: Strings,
        libs: list[Any],
    ) -> None:
        self._builder = builder
        self._frames, self._funcs = own["frameTable"], own["funcTable"]
        self._resources = own.get("resourceTable") or {}
        self._sources = shared.get("sources") or {}
        self._strings, self._libs = strings, libs
        self._known: dict[int, int] = {}  # row of the table of frames → number
        self._functions: dict[tuple[int, int, bool], Function] = {}
        self.n_nameless = 0
        stacks = own["stackTable"]
        self._frame_of: list[int] = indices(stacks["frame"], len(self._frames["func"])).tolist()
        prefix = _prefixes(stacks, len(self._frame_of))
        self._stacks = PrefixStacks(builder, prefix, self._frame)

    def rows(self, stacks: Any) -> Int64s:
        """Return the rows of a column of stacks, -1 for none."""
        return indices(stacks, len(self._frame_of))

    def nodes(self, rows: Int64s) -> Int64s:
        """Return the stacks of rows."""
        return self._stacks.nodes(rows)

    def _frame(self, stack: int) -> int | None:
        row = self._frame_of[stack]
        found = self._known.get(row)
        if found is None:
            if row < 0:
                raise LookupError("a stack has no frame")
            found = self._known[row] = self._builder.frame(self._made(row))
        return found

    def _made(self, row: int) -> Frame:
        func = at(self._frames["func"], row)
        lib = self._cell(self._frames, "lib", row)
        is_inlined = bool(self._cell(self._frames, "inlineDepth", row))
        key = func, NONE if lib is None else lib, is_inlined
        function = self._functions.get(key)
        if function is None:
            function = self._functions[key] = self._function(*key)
        line = line_of(self._cell(self._frames, "line", row))
        return Frame(function, line or line_of(self._cell(self._funcs, "lineNumber", func)))

    def _function(self, func: int, lib: int, is_inlined: bool) -> Function:
        name = self._text(at(self._funcs["name"], func))
        file, module = self._file(func), self._module(func, lib)
        kind = kind_of(file)
        if kind is FrameKind.NATIVE:
            if _ADDRESS.fullmatch(name):
                self.n_nameless += 1
                name, kind = f"{module}+{name}" if module else name, FrameKind.UNKNOWN
            elif self._cell(self._funcs, "isJS", func):
                kind = FrameKind.JAVASCRIPT
            elif is_inlined:
                kind = FrameKind.INLINED
        return self._builder.function(name, module, file, kind)

    def _file(self, func: int) -> str:
        source = self._cell(self._funcs, "source", func)
        if source is not None:
            name = at(self._sources["filename"], source)
        else:
            name = self._cell(self._funcs, "fileName", func)
        return "" if name is None else self._text(name)

    def _module(self, func: int, lib: int) -> str:
        resource = self._cell(self._funcs, "resource", func)
        if lib < 0 and resource is not None and resource >= 0:
            found = self._cell(self._resources, "lib", resource)
            if found is None:
                name = self._cell(self._resources, "name", resource)
                return "" if name is None else self._text(name)
            lib = found
        return str(at(self._libs, lib).get("name") or "") if lib >= 0 else ""

    def _text(self, number: Any) -> str:
        return str(at(self._strings, number))

    @staticmethod
    def _cell(table: dict[str, Any], column: str, row: int) -> Any:
        """Return what is in a column that may be missing; None if it is."""
        values = table.get(column)
        return None if values is None else at(values, row)


def _prefixes(stacks: dict[str, Any], count: int) -> Int64s:
    """Return the row of the caller of each stack, -1 for none."""
    if "prefixOffset" not in stacks:
        found = indices(stacks["prefix"], count)
    else:
        offset = indices(stacks["prefixOffset"], count)
        found = np.where(offset > 0, np.arange(len(offset)) - offset, NONE)
        if bool(((found < 0) & (offset > 0)).any()):
            raise ValueError("a stack refers to a caller that is not there")
    if len(found) != count:
        raise ValueError("the table of stacks has columns of different lengths")
    return found
