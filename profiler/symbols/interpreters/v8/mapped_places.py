"""Say what places in a script were made from, by its source map."""

from __future__ import annotations

from typing import NamedTuple

from ...debuginfo.source_map_table import SourceMapTable
from .map_link import source_file


class Spot(NamedTuple):
    """A place in a file; line and column count from 1, 0 if unknown."""

    file: str
    line: int
    column: int


class SourceMap:
    """What one script was made from.

    Args:
        table: the map.
        folder: where its sources are looked for.
        modified_ns: when the map was written (Unix, ns); 0 if it is in the script.
    """

    def __init__(self, table: SourceMapTable, folder: str, modified_ns: int) -> None:
        self._table = table
        self.modified_ns = modified_ns
        self.files = [source_file(each, folder) if each else "" for each in table.sources]
        self._numbers = {file: number for number, file in enumerate(self.files) if file}

    @property
    def only_file(self) -> str:
        """The file that all is made from; "" if there are several."""
        return next(iter(self._numbers)) if len(self._numbers) == 1 else ""

    def spot(self, line: int, column: int) -> Spot | None:
        """Return what a place in the script was made from; None if the map does not say."""
        found = self._table.origin(line, column)
        return None if found is None else Spot(self.files[found.source], found.line, found.column)

    def name(self, line: int, column: int) -> str:
        """Return what the source calls what stands exactly there; "" if the map does not say."""
        found = self._table.origin(line, column)
        return "" if found is None else found.name

    def text(self, file: str) -> str | None:
        """Return the text of a source, if the map has it."""
        number = self._numbers.get(file)
        return None if number is None else self._table.text(number)
