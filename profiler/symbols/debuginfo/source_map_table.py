"""Look up places in a source map that was flattened in the worker's process.

The bytes come from a process that a hostile map may have taken over: they are checked, and can at
worst give wrong strings.

Layout (little-endian): u32 length of a JSON head · head · for each of ``COLUMNS`` the mappings' i32
· the embedded sources, each compressed with zlib. The mappings ascend by line and column.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...recording.names.inline_chains import LinesError
from ..names.limits import cut

# Of the code that runs: line and column. Of the source: its number, line, column, and the number
# of the name that stands there. All from 0 on.
COLUMNS = ("line", "column", "source", "source_line", "source_column", "name")
NONE = -1
MAX_TABLE_BYTES = 512 << 20
MAX_TEXT_BYTES = 16 << 20  # of one embedded source
_LENGTH = struct.Struct("<I")
_DAMAGED = "its source map gave no valid table"


class Origin(NamedTuple):
    """A place in a source."""

    source: int  # its number
    line: int  # from 1 on
    column: int  # from 1 on
    name: str  # what the source calls what stands exactly here; "" if the map does not say


class SourceMapTable:
    """A source map.

    Args:
        data: what ``pack`` made.

    Raises:
        LinesError: it is not.

    Attributes:
        sources: the names of the sources as the map has them, "" for none.
    """

    def __init__(self, data: bytes) -> None:
        try:
            (length,) = _LENGTH.unpack_from(data)
            head = json.loads(data[_LENGTH.size : _LENGTH.size + length])
            self.sources: list[str] = head["sources"]
            self._names: list[str] = head["names"]
            sizes, count = head["texts"], head["count"]
            at = _LENGTH.size + length
            columns = np.frombuffer(data, "<i4", count * len(COLUMNS), at)
            at += columns.nbytes
            if len(data) > MAX_TABLE_BYTES or len(sizes) != len(self.sources):
                raise ValueError
            self._texts: list[bytes | None] = []
            for size in sizes:
                self._texts.append(data[at : at + size] if size > 0 else None)
                at += max(size, 0)
        except (ValueError, KeyError, TypeError, struct.error, RecursionError) as error:
            raise LinesError(_DAMAGED) from error
        rows = columns.reshape(len(COLUMNS), count)
        places = rows[0].astype(np.int64) << 32 | rows[1]
        if not (
            all(isinstance(each, str) for each in (*self.sources, *self._names))
            and (np.diff(places) >= 0).all()
            and (count == 0 or int(rows.min()) >= NONE)
            and (count == 0 or int(rows[2].max()) < len(self.sources))
            and (count == 0 or int(rows[5].max()) < len(self._names))
        ):
            raise LinesError(_DAMAGED)
        self._places: npt.NDArray[np.int64] = places
        self._rows: npt.NDArray[np.int32] = rows[2:].copy()

    @property
    def size(self) -> int:
        """The bytes that it takes in memory."""
        texts = sum(len(text) for text in self._texts if text is not None)
        return int(self._places.nbytes + self._rows.nbytes) + texts

    @property
    def last_line(self) -> int:
        """The last line of the code that it speaks of, from 1 on; 0 for none."""
        return int(self._places[-1] >> 32) + 1 if len(self._places) else 0

    def origin(self, line: int, column: int) -> Origin | None:
        """Return what a place in the code, from 1 on, was made from; None if it says nothing.

        That is what the last mapping before it in its line says.
        """
        if line < 1 or column < 1:
            return None
        place = line - 1 << 32 | column - 1
        index = int(np.searchsorted(self._places, place, "right")) - 1
        if index < 0 or int(self._places[index]) >> 32 != line - 1:
            return None
        source, source_line, source_column, name = self._rows[:, index].tolist()
        if source == NONE or not self.sources[source]:
            return None
        is_exact = int(self._places[index]) == place
        text = cut(self._names[name]) if is_exact and name != NONE else ""
        return Origin(source, source_line + 1, source_column + 1, text)

    def text(self, source: int) -> str | None:
        """Return the text of a source; None if it is not embedded, or too large."""
        data = self._texts[source]
        if data is None:
            return None
        unpacker = zlib.decompressobj()
        try:
            found = unpacker.decompress(data, MAX_TEXT_BYTES)
        except zlib.error:
            return None
        return found.decode("utf-8", "replace") if unpacker.eof else None


def pack(
    rows: npt.NDArray[np.int64],
    sources: Sequence[str],
    names: Sequence[str],
    texts: Sequence[bytes | None],
) -> bytes:
    """Return the bytes of a table.

    Args:
        rows: the mappings, ascending: n × ``COLUMNS``.
        sources: their names, "" for none.
        names: of what stands in them.
        texts: of the sources, compressed; None for those that are not embedded.
    """
    sizes = [0 if text is None else len(text) for text in texts]
    head = json.dumps(
        {"sources": list(sources), "names": list(names), "texts": sizes, "count": len(rows)}
    ).encode()
    columns = np.ascontiguousarray(rows.T, "<i4").tobytes()
    return b"".join((_LENGTH.pack(len(head)), head, columns, *(text or b"" for text in texts)))
