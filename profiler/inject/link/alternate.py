"""An alternate signal stack. sigaltstack(2)"""

from __future__ import annotations

from typing import NamedTuple


class Alternate(NamedTuple):
    """Where it is: runtime_addr and bytes, 0 bytes for none."""

    start: int
    size_bytes: int


REFUSED = Alternate(0, -1)
"""It can never be asked for."""
