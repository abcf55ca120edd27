"""Ranges of generated code: bounds on what a search examines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from flametap.symbols.jit import code_ranges
from flametap.symbols.jit.code_ranges import ANY_TIME_NS, CodeRanges, Ranges

Indexes = NDArray[np.intp]


def test_ranges_that_all_overlap_do_not_take_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hostile map: 10^5 ranges around each address, of which the nearest ones are examined."""
    examined = []
    find_among = code_ranges._find_among

    def counted(ranges: Ranges, first: Indexes, count: Indexes, asked: Indexes, *rest: Any) -> None:
        examined.append(int(count[asked].sum()))
        find_among(ranges, first, count, asked, *rest)

    monkeypatch.setattr(code_ranges, "_find_among", counted)
    n = 100_000
    start = np.arange(n, dtype=np.uint64) % 2048 + 0x1000
    size = np.arange(n, dtype=np.uint64) % 1009 + 2048
    ranges = CodeRanges()
    ranges.add(Ranges(start, start + size, np.arange(n), np.arange(n)))
    addresses = np.full(20, 0x1000 + 2047, np.uint64)
    found = ranges.find(addresses, np.full(20, ANY_TIME_NS, np.int64))
    assert (found.key >= 0).all()
    assert sum(examined) <= 20 * code_ranges.MAX_EXAMINED
