"""Define what readers of names have in common: the pieces of code that they know, by address."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from .code_ranges import CodeRanges, Found, Int64s
from .growing_file import AppendedFile, Growth


class CodeReader:
    """Names of generated code from one source.

    Attributes:
        kind: what the source is called.
    """

    kind = ""

    def __init__(self) -> None:
        self._ranges = CodeRanges()

    def __len__(self) -> int:
        return len(self._ranges)

    @property
    def has_lines(self) -> bool:
        """True if any function has source lines."""
        return False

    @property
    def dropped(self) -> int:
        """Number of pieces of code that were removed because there are too many."""
        return self._ranges.dropped

    def look(self) -> Growth:
        """Check whether there is more to read; what is not valid any more is discarded."""
        raise NotImplementedError

    def read_more(self) -> bool:
        """Read some of it; return False if nothing is left."""
        raise NotImplementedError

    def find(self, addresses: npt.NDArray[np.uint64], seen_ns: Int64s) -> Found:
        """Find the key of the code at each address at the time when it was seen, as far as the
        source has times.
        """
        return self._ranges.find(addresses, seen_ns)

    def name(self, key: int, start: int) -> str:
        """Return the name for a key; ``""`` if there is none (any more).

        Args:
            key: a key from :meth:`find`.
            start: the start of its range.
        """
        raise NotImplementedError

    def notes(self) -> Iterator[str]:
        """Tell what is missing."""
        raise NotImplementedError

    def close(self) -> None:
        """Close what is open. Idempotent."""
        raise NotImplementedError


class FileReader(CodeReader):
    """The names in a file to which a runtime keeps writing."""

    def __init__(self, file: AppendedFile) -> None:
        super().__init__()
        self.file = file

    def notes(self) -> Iterator[str]:
        """Tell what is missing."""
        if self.file.refusal:
            yield f"{self.file.path} is not used: {self.file.refusal}"
        yield from self._notes_on_content()
        if self.dropped:
            yield f"the oldest {self.dropped:,} entries of {self.file.path} are left out"

    def _notes_on_content(self) -> Iterator[str]:
        raise NotImplementedError

    def close(self) -> None:
        """Close the file. Idempotent."""
        self.file.close()
