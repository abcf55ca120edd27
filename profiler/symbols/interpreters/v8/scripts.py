"""Read scripts: their names, where their lines begin, and which source map they name.

A script has the ends of its lines if it was asked for a line before; else they are found in its
source, which lies in memory as a string. The source is kept only if it names a map.
"""

from __future__ import annotations

import itertools
import re
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from ...names.limits import Budget, cut
from .heap import Heap, Text, small_integer
from .map_link import identifier_of, link_of, name_of
from .mapped_places import SourceMap, Spot
from .paths import is_built_in

_MAX_LINES = 8 << 20
_NEWLINE, _RETURN = 10, 13
_SEPARATORS = (0x2028, 0x2029)  # end lines, too
_FILE_URL = re.compile(r"file://(?:localhost)?(?=/)")
Ends = npt.NDArray[np.int32]
_NO_ENDS: Ends = np.zeros(0, np.int32)
_SHORT = 2  # names of variables that are no longer are a minifier's
_numbers = itertools.count(1)


class Script:
    """One script.

    Args:
        file: its name.
        ends: offset of the last character of each line.
        source: its text, if it names a map.
        link: the URL of that map; "" for none.
        first: where in the file it begins, line and column from 0 on: a piece of a larger one, or
            with code around it that its author did not write.

    Attributes:
        key: tells it apart from all others whose maps are awaited; "" if it awaits none.
        map: what its code was made from; None if it is not known.
    """

    def __init__(
        self,
        file: str,
        ends: Ends,
        source: Text | None = None,
        link: str = "",
        first: tuple[int, int] = (0, 0),
    ) -> None:
        self.file = file
        self.source = source
        self.link = link
        self.key = f"source map {next(_numbers)}" if link else ""
        self.map: SourceMap | None = None
        self._ends = ends
        self._first_line, self._first_column = first

    @property
    def has_lines(self) -> bool:
        """True if lines are known."""
        return len(self._ends) > 0

    @property
    def line_count(self) -> int:
        """The number of its lines; 0 if it is unknown."""
        return len(self._ends)

    def place(self, offset: int) -> tuple[int, int]:
        """Return line and column in the file, from 1 on, of a character; (0, 0) if unknown."""
        if not self.has_lines or offset < 0:
            return 0, 0
        index = int(np.searchsorted(self._ends, offset))
        if index >= len(self._ends):
            return 0, 0
        start = int(self._ends[index - 1]) + 1 if index else -self._first_column
        return max(index + self._first_line, 0) + 1, max(offset - start, 0) + 1

    def spot(self, offset: int) -> Spot:
        """Return the place of a character, in the source that it was made from if that is known."""
        line, column = self.place(offset)
        found = None if self.map is None else self.map.spot(line, column)
        return Spot(self.file, line, column) if found is None else found

    def spot_of_all(self) -> Spot:
        """Return where the script begins: in its source, if it was made from one file."""
        file = "" if self.map is None else self.map.only_file
        return Spot(file, 1, 1) if file else Spot(self.file, *self.place(0))

    def name(self, name: str, start: int) -> str:
        """Return what the source calls a function.

        Args:
            name: what the engine calls it.
            start: the offset at which it begins.
        """
        if self.map is None or self.source is None or not name:
            return name
        holder, _, own = name.rpartition(".")
        found = self.map.name(*self.place(identifier_of(self.source, own, start)))
        # The engine puts the variable before it to which the function was given: "e.run".
        return found or (own if len(holder.partition(".")[0]) <= _SHORT else name)


def read_script(heap: Heap, tagged: int, budget: Budget) -> Script:
    """Read a script.

    Args:
        heap: the heap it lies in.
        tagged: the Script.
        budget: the bytes that line ends, and the sources that are kept, may take.

    Raises:
        MemoryReadError: it cannot be read.
    """
    layout = heap.layout
    file = file_of(str(heap.text(heap.field(tagged, layout.script_name), 1 << 16) or ""))
    ends = _listed_ends(heap, heap.field(tagged, layout.script_ends))
    first = (
        small_integer(heap.field(tagged, layout.script_first_line)) or 0,
        small_integer(heap.field(tagged, layout.script_first_column)) or 0,
    )
    link, source, may_name = "", None, not is_built_in(file)
    if may_name or not len(ends):
        source = heap.text(heap.field(tagged, layout.script_source))
    if source is not None:
        ends = ends if len(ends) else ends_of(source)
        link = link_of(source) if may_name else ""
        file = file or file_of(name_of(source))
    if not budget.take(ends.nbytes):
        return Script(file, _NO_ENDS, first=first)
    if source is None or not link or not budget.take(len(source.raw)):
        return Script(file, ends, first=first)
    return Script(file, ends, source, link, first)


def file_of(name: str) -> str:
    """Return the file that a script's name stands for: modules have a URL."""
    if found := _FILE_URL.match(name):
        name = unquote(name[found.end() :])
    return cut("".join(c if c.isprintable() else "?" for c in name))


def ends_of(source: Text) -> Ends:
    """Return the offset of the last character of each line of a source."""
    characters = np.frombuffer(source.raw, np.uint16 if source.is_wide else np.uint8)
    is_end = characters == _NEWLINE
    returns = np.flatnonzero(characters == _RETURN)
    if len(returns):
        following = np.minimum(returns + 1, len(characters) - 1)
        is_end[returns] = (characters[following] != _NEWLINE) | (following == returns)
    if source.is_wide:
        is_end |= np.isin(characters, _SEPARATORS)
    ends = np.flatnonzero(is_end)[:_MAX_LINES]
    return np.append(ends, len(characters)).astype(np.int32)


def _listed_ends(heap: Heap, tagged: int) -> Ends:
    if heap.kind(tagged) != heap.layout.fixed_array_kind:
        return _NO_ENDS
    count = heap.array_length(tagged, _MAX_LINES)
    words = np.array(heap.words_of(tagged, count) if count else (), np.uint64)
    if not len(words) or (words & np.uint64(0xFFFFFFFF)).any():
        return _NO_ENDS
    ends = (words >> np.uint64(32)).astype(np.int64)
    if ends[-1] >> 31 or (np.diff(ends) < 0).any():
        return _NO_ENDS
    listed: Ends = ends.astype(np.int32)
    return listed


__all__ = ["Script", "ends_of", "file_of", "read_script", "small_integer"]
