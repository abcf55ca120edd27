"""The books that targets keep of their waits (tests/targets/waits.h)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

Book = dict[str, int]


def read_books(lines: Iterable[str]) -> dict[str, Book]:
    """Read lines ``WAIT key=number key=number``; several lines of one wait are put together."""
    books: defaultdict[str, Book] = defaultdict(dict)
    for line in lines:
        name, *facts = line.split()
        for fact in facts:
            key, _, value = fact.partition("=")
            books[name][key] = int(value)
    return dict(books)
