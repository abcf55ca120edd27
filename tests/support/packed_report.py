"""Read the data of an HTML report, a number at a time: not as the exporter writes it."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

DATA = re.compile(r'<script type="application/json" id="report-data">(.*?)</script>', re.DOTALL)


@dataclass(frozen=True)
class Report:
    """What is in the file, unpacked as far as JSON goes."""

    data: dict[str, Any]
    names: dict[str, Any]

    @property
    def clock(self) -> str:
        """The clock with which the report opens."""
        return str(self.data["clock"])

    def part(self, name: str) -> Any:
        """Return a part that not every report has: its ``times`` or ``code``."""
        return json.loads(_inflate(self.data[name]))

    def stacks(self, clock: str) -> Counter[tuple[str, ...]]:
        """Stacks, root first, by name → their own weight."""
        return self._stacks(self.data["trees"][clock], 6, 2)

    def sides(self, clock: str) -> tuple[Counter[tuple[str, ...]], Counter[tuple[str, ...]]]:
        """The same of both recordings of a comparison: the report's, and the other one's."""
        tree = self.data["compared"]["trees"][clock]
        return self._stacks(tree, 7, 2), self._stacks(tree, 7, 6)

    def _stacks(self, tree: str, n_columns: int, weights: int) -> Counter[tuple[str, ...]]:
        numbers = _numbers(_inflate(tree))
        count = next(numbers)
        columns = [[next(numbers) for _ in range(count)] for _ in range(n_columns)]
        assert next(numbers, None) is None
        child_count, function, own_ns = columns[0], columns[1], columns[weights]
        paths: list[tuple[str, ...]] = [()]
        found: Counter[tuple[str, ...]] = Counter()
        for node in range(count):
            if own_ns[node]:
                found[paths[node]] += own_ns[node]
            for child in range(len(paths), len(paths) + child_count[node]):
                name = self.names["functions"]["name"][function[child] - 1]
                paths.append((*paths[node], name))
        assert len(paths) == count
        return found


def read(html: str) -> Report:
    """Read a report."""
    (text,) = DATA.findall(html)
    data = json.loads(text)
    return Report(data, json.loads(_inflate(data["names"])))


def _inflate(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text), -15)


def _numbers(data: bytes) -> Iterator[int]:
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield value
            value = shift = 0
