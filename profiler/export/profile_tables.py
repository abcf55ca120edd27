"""Number what the samples of a profile refer to: for pprof, and for OpenTelemetry's profiles.

Locations, functions, mappings and texts are numbered as they are met. Number 0 is of none of them,
and of the empty text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..model import MANAGED_KINDS, NO_MODULE, FrameKind, Module
from ..tree.shown_frames import Call
from .json_pieces import text
from .leaf_stacks import OF_ALL_CLOCKS, LeafStacks
from .request import ExportRequest

ADDR_MAX = (1 << 64) - 1


Lines = tuple[tuple[int, int], ...]
"""Functions and line numbers, the inlined ones first."""
_Location = tuple[int, int, Lines, FrameKind]  # by module_id and runtime_addr


class NumberedLocation(NamedTuple):
    """An address, or a frame that has none."""

    number: int
    mapping: int
    addr: int
    lines: Lines
    kind: FrameKind  # of an interpreted program's function, else native


class NumberedFunction(NamedTuple):
    """A function; its texts by their numbers."""

    number: int
    name: int
    full_name: int
    file: int


class ProfileTables:
    """See the module. What would be written the same has one number.

    Args:
        request: what is written.

    Attributes:
        strings: all texts, by their numbers.
    """

    def __init__(self, request: ExportRequest) -> None:
        self._profile, self._names = request.profile, request.names
        self._leaves = LeafStacks(request, OF_ALL_CLOCKS)
        self._stacks: dict[tuple[int, int], tuple[int, ...] | None] = {}  # by leaf
        self._calls: dict[Call, int] = {}
        self._locations: dict[_Location, int] = {}
        self._of_lines: dict[tuple[int, int], int] = {}  # functions by id, and the line's file
        self._functions: dict[tuple[int, int, int], int] = {}
        self.strings = {"": 0}

    def string(self, words: str) -> int:
        """Return the number of a text."""
        return self.strings.setdefault(text(words), len(self.strings))

    def stack(self, node: int, sysno: int) -> tuple[int, ...] | None:
        """Return the locations of a leaf, innermost first; None: it does not count."""
        key = node, sysno
        if key not in self._stacks:
            calls = self._leaves.calls(node, sysno)
            self._stacks[key] = (
                None if calls is None else tuple(map(self._location, reversed(calls)))
            )
        return self._stacks[key]

    def mappings(self) -> Iterator[tuple[int, Module]]:
        """Yield the files that have been met, the program first."""
        modules = self._profile.modules
        for module_id, number in self._mapping_numbers().items():
            yield number, modules[module_id]

    def locations(self) -> Iterator[NumberedLocation]:
        """Yield the locations that have been met."""
        mappings = self._mapping_numbers()
        for (module_id, addr, lines, kind), number in self._locations.items():
            yield NumberedLocation(number, mappings.get(module_id, 0), addr, lines, kind)

    def functions(self) -> Iterator[NumberedFunction]:
        """Yield the functions of all locations."""
        for texts, number in self._functions.items():
            yield NumberedFunction(number, *texts)

    def _location(self, call: Call) -> int:
        if call not in self._calls:
            address, frames = call
            lines = tuple(
                (self._function(function, file), line) for function, line, file in reversed(frames)
            )
            kind = self._names.functions[frames[0][0]].kind
            kind = kind if kind in MANAGED_KINDS else FrameKind.NATIVE
            key = *self._leaves.code(address), lines, kind
            self._calls[call] = self._locations.setdefault(key, len(self._locations) + 1)
        return self._calls[call]

    def _function(self, function_id: int, file: int) -> int:
        key = function_id, file
        if key not in self._of_lines:
            function, path = self._names.functions[function_id], self._names.line_files[file]
            names = function.name, function.full_name or function.name, path or function.file
            texts = self.string(names[0]), self.string(names[1]), self.string(names[2])
            self._of_lines[key] = self._functions.setdefault(texts, len(self._functions) + 1)
        return self._of_lines[key]

    def _mapping_numbers(self) -> dict[int, int]:
        # Readers take the first one for the program, which is the first module of a process.
        used = {module_id for module_id, *_ in self._locations} - {NO_MODULE}
        return {module_id: number for number, module_id in enumerate(sorted(used), 1)}


def mapped(module: Module) -> tuple[int, int, int]:
    """Return start, end and offset of a mapping in a file whose addresses are its offsets.

    What is loaded where it was linked spans all addresses: readers take these as they are.
    """
    if not module.load_bias:
        return 0, ADDR_MAX, 0
    return module.start, module.end, max(0, module.start - module.load_bias)
