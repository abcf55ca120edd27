"""Join the names of several recordings: equal functions and files get one number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from ...model import Function
from ..names.frame_pool import NameGains, NameMark
from .tables import IN_CHUNK

Item = TypeVar("Item")

TEXT_IN_CHUNK = 1 << 22  # characters: in JSON, at most six bytes each
_NONE: dict[str, Any] = {
    "functions": [],
    "files": [],
    "lost": np.empty(0, np.int64),
    "mark": NameMark(),
    **dict.fromkeys(
        (
            *("file_number", "function", "line", "file", "address", "first", "count"),
            *("is_named", "lost_first", "lost_count", "kernel", "call"),
        ),
        np.empty(0, np.int32),
    ),
}


class MergedNames:
    """The names of several recordings; see the module docstring."""

    def __init__(self) -> None:
        self._functions: dict[Function, int] = {}
        self._files: dict[tuple[str, str], int] = {("", ""): 0}
        self._n_frames = 0

    def add(self, gains: NameGains, first_address: int) -> tuple[list[int], Iterator[NameGains]]:
        """Add all names of a recording.

        Args:
            gains: they.
            first_address: the number of its first address in the whole.

        Returns:
            The number of each of its functions in the whole, and what is added, in pieces.
        """
        n_functions, n_files = len(self._functions), len(self._files)
        functions = [
            self._functions.setdefault(each, len(self._functions)) for each in gains.functions
        ]
        files = [0, *(self._files.setdefault(each, len(self._files)) for each in gains.files)]
        new_functions = [*self._functions][n_functions:]
        new_files = [*self._files][n_files:]
        number_of = np.array(files, np.int32)
        same = dict(zip(files[1:], number_of[gains.file_number].tolist(), strict=True))
        file_numbers = [same[number] for number in range(n_files, len(self._files))]
        place, address = self._n_frames, first_address
        columns: list[dict[str, Any]] = [
            {
                "function": np.array(functions, np.int32)[gains.function],
                "line": gains.line,
                "file": number_of[gains.file],
            },
            {
                "address": gains.address + np.int32(address),
                "first": gains.first + np.int32(place),
                "count": gains.count,
                "is_named": gains.is_named,
            },
            {
                "lost": gains.lost + (np.int64(address) << 32 | np.int64(address)),
                "lost_first": gains.lost_first + np.int32(place),
                "lost_count": gains.lost_count,
            },
            {"kernel": gains.kernel + np.int32(address), "call": gains.call},
        ]
        self._n_frames += len(gains.function)
        return functions, _pieces(new_functions, new_files, file_numbers, columns)


def _pieces(
    functions: Sequence[Function],
    files: Sequence[tuple[str, str]],
    file_numbers: list[int],
    columns: list[dict[str, Any]],
) -> Iterator[NameGains]:
    """Return names in pieces that fit into chunks: what is pointed at first."""
    for part in _by_size(
        functions, lambda each: len(each.name) + len(each.full_name) + len(each.file)
    ):
        yield _gains(functions=part)
    at = 0
    for some in _by_size(files, lambda each: len(each[0])):
        numbers = np.array(file_numbers[at : at + len(some)], np.int32)
        at += len(some)
        yield _gains(files=some, file_number=numbers)
    for each in columns:
        for at in range(0, len(next(iter(each.values()))), IN_CHUNK):
            rows = {name: column[at : at + IN_CHUNK] for name, column in each.items()}
            yield _gains(**rows)


def _gains(**some: Any) -> NameGains:
    """Return names that have some columns only."""
    return NameGains(**{**_NONE, **some})


def _by_size(items: Sequence[Item], size: Callable[[Item], int]) -> Iterator[list[Item]]:
    part: list[Item] = []
    n_characters = 0
    for each in items:
        part.append(each)
        n_characters += size(each) + 100  # its module, and signs between
        if n_characters > TEXT_IN_CHUNK:
            yield part
            part, n_characters = [], 0
    if part:
        yield part
