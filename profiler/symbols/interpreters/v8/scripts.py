"""Read scripts: their names, and where their lines begin.

A script has the ends of its lines if it was asked for a line before; else they are found in its
source, which lies in memory as a string. Only the ends are kept.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from ...names.limits import Budget, cut
from .heap import Heap, Text, small_integer

_MAX_LINES = 8 << 20
_NEWLINE, _RETURN = 10, 13
_SEPARATORS = (0x2028, 0x2029)  # end lines, too
_FILE_URL = re.compile(r"file://(?:localhost)?(?=/)")
Ends = npt.NDArray[np.int32]
_NO_ENDS: Ends = np.zeros(0, np.int32)


class Script:
    """One script."""

    def __init__(self, file: str, ends: Ends) -> None:
        self.file = file
        self._ends = ends  # offset of the last character of each line

    @property
    def has_lines(self) -> bool:
        """True if lines are known."""
        return len(self._ends) > 0

    def place(self, offset: int) -> tuple[int, int]:
        """Return line and column, from 1 on, of a character; (0, 0) if unknown."""
        if not self.has_lines or offset < 0:
            return 0, 0
        index = int(np.searchsorted(self._ends, offset))
        if index >= len(self._ends):
            return 0, 0
        start = int(self._ends[index - 1]) + 1 if index else 0
        return index + 1, offset - start + 1


def read_script(heap: Heap, tagged: int, budget: Budget) -> Script:
    """Read a script.

    Args:
        heap: the heap it lies in.
        tagged: the Script.
        budget: the bytes that line ends may take.

    Raises:
        MemoryReadError: it cannot be read.
    """
    layout = heap.layout
    name = heap.text(heap.field(tagged, layout.script_name), 1 << 16)
    ends = _listed_ends(heap, heap.field(tagged, layout.script_ends))
    if not len(ends):
        source = heap.text(heap.field(tagged, layout.script_source))
        ends = _NO_ENDS if source is None else ends_of(source)
    if not budget.take(ends.nbytes):
        ends = _NO_ENDS
    return Script(file_of(str(name or "")), ends)


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
