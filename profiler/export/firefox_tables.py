"""Collect what all threads of a file for Firefox Profiler share: stacks, frames, functions, names.

See ``firefox`` for the source of the format.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, BinaryIO

from ..model import FrameKind, Function
from ..symbols.interpreters.function_origin import origin_of
from ..symbols.interpreters.origin import Origin
from .folded import ALL
from .json_pieces import encode, text, write_numbers
from .leaf_stacks import FrameKey, LeafStacks

_OTHER = "Other"
_KERNEL = "Kernel"
_CATEGORY_OF = {
    Origin.PROJECT: "Yours",
    Origin.LIBRARY: "Library",
    Origin.STDLIB: "Standard library",
    Origin.INTERPRETER: "Interpreter",
    Origin.NATIVE: "Native",
}
# The viewer has no other colours. Its default is the first grey one.
_COLORS = {
    _OTHER: "grey",
    "Yours": "yellow",
    "Library": "green",
    "Standard library": "lightblue",
    "Interpreter": "darkgrey",
    "Native": "blue",
    _KERNEL: "orange",
}
_NUMBERS = {name: number for number, name in enumerate(_COLORS)}
CATEGORIES = [
    {"name": name, "color": color, "subcategories": [_OTHER]} for name, color in _COLORS.items()
]
"""Whose code a function is."""

# Of stacks of which no function is left.
_WHOLE = Function(ALL, "", kind=FrameKind.SYNTHETIC)
_WHOLE_KEY = (-1, 0)
_LIBRARY_RESOURCE = 1  # ResourceType.Library
_NONE = -1


class Tables:
    """Collect the stacks of leaves, and what they refer to, by number."""

    def __init__(self, stacks: LeafStacks) -> None:
        self._leaves = stacks
        self._frames: dict[FrameKey, int] = {}
        # (number of the caller's stack, number of the frame) → number of the stack.
        self._stacks: dict[tuple[int, int], int] = {}
        self._known: dict[tuple[int, int], int] = {}  # by leaf

    def stack(self, node: int, sysno: int) -> int:
        """Return the number of a leaf's stack; -1: it does not count."""
        known = self._known.get((node, sysno))
        if known is None:
            known = self._known[node, sysno] = self._add(self._leaves.keys(node, sysno))
        return known

    def _add(self, keys: Sequence[FrameKey] | None) -> int:
        stack = _NONE
        if keys is None:
            return stack
        for key in keys or (_WHOLE_KEY,):
            frame = self._frames.setdefault(key, len(self._frames))
            stack = self._stacks.setdefault((stack, frame), len(self._stacks))
        return stack

    @property
    def has_javascript(self) -> bool:
        """True if some function is JavaScript."""
        kinds = {self._leaves.function(key).kind for key in self._frames if key != _WHOLE_KEY}
        return FrameKind.JAVASCRIPT in kinds

    def write(self, file: BinaryIO) -> None:
        """Write the tables as a JSON object."""
        frames = array("q", (frame for _, frame in self._stacks))
        # How far up the table the caller's stack is; 0 for none.
        offsets = array(
            "q", (i - above if above >= 0 else 0 for i, (above, _) in enumerate(self._stacks))
        )
        file.write(b'{"stackTable":{"frame":')
        write_numbers(frames, file)
        file.write(b',"prefixOffset":')
        write_numbers(offsets, file)
        file.write(b',"length":%d}' % len(offsets))
        for name, table in self._tables().items():
            file.write(b"," + encode(name) + b":" + encode(table))
        file.write(b"}")

    def _tables(self) -> dict[str, Any]:
        strings, functions, resources, sources = (_Numbers() for _ in range(4))
        frames = _Columns(
            *("address", "lib", "inlineDepth", "category", "subcategory", "func"),
            *("nativeSymbol", "innerWindowID", "line", "column", "originalLocation"),
        )
        funcs = _Columns(
            *("name", "isJS", "relevantForJS", "resource", "source"),
            *("lineNumber", "columnNumber", "originalLocation"),
        )
        for key in self._frames:
            function, (file, line) = _WHOLE, ("", 0)
            if key != _WHOLE_KEY:
                function, (file, line) = self._leaves.function(key), self._leaves.place(key)
            number = functions[function]
            if number == len(funcs):
                is_js = function.kind is FrameKind.JAVASCRIPT
                module = resources[function.module] if function.module else _NONE
                source = sources[file] if file else None
                name = strings[text(function.name)]
                funcs.add(name, is_js, False, module, source, None, None, None)
            category = _category(function)
            frames.add(_NONE, _NONE, 0, category, 0, number, None, 0, line or None, None, None)
        modules = _Columns("name", "host", "type")
        for name in resources:
            modules.add(strings[text(name)], None, _LIBRARY_RESOURCE)
        files = _Columns("id", "filename", "startLine", "startColumn", "sourceMapURL", "content")
        for name in sources:
            files.add(None, strings[text(name)], 1, 1, None, None)
        return {
            "frameTable": frames.table(),
            "funcTable": funcs.table(),
            "resourceTable": modules.table(),
            "sources": files.table(),
            "nativeSymbols": _Columns("libIndex", "address", "name", "functionSize").table(),
            "sourceLocationTable": _Columns("source", "line", "column").table(),
            "stringArray": list(strings),
        }


def _category(function: Function) -> int:
    if function.kind is FrameKind.SYSCALL:
        return _NUMBERS[_KERNEL]
    if function.kind in (FrameKind.SYNTHETIC, FrameKind.FOLDED):
        return _NUMBERS[_OTHER]
    return _NUMBERS[_CATEGORY_OF[origin_of(function)]]


class _Numbers(dict[Any, int]):
    """Number values in the order in which they are first asked for."""

    def __missing__(self, value: Any) -> int:
        number = self[value] = len(self)
        return number


class _Columns:
    """A table in columns."""

    def __init__(self, *names: str) -> None:
        self._columns: dict[str, list[Any]] = {name: [] for name in names}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def add(self, *values: Any) -> None:
        """Append a row."""
        for column, value in zip(self._columns.values(), values, strict=True):
            column.append(value)
        self._length += 1

    def table(self) -> dict[str, Any]:
        """Return the columns with their length."""
        return {**self._columns, "length": self._length}
