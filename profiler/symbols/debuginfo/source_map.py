"""Read source maps: which place of a program's source a place in its JavaScript was made from.

Runs in the worker's process: a map is JSON that anybody may have written. It is flattened to a
``SourceMapTable``. A map that breaks a rule is refused as a whole: a place that is not certain
would be a wrong one.

Source: ECMA-426, "Source map format"; its index maps are those with ``sections``.
"""

from __future__ import annotations

import json
import posixpath
import re
import zlib
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...recording.names.inline_chains import LinesError
from .job import Built, DebugJob, open_input
from .source_map_table import COLUMNS, NONE, pack

MAX_MAP_BYTES = 128 << 20  # that of Visual Studio Code's largest bundle has 40 MB
MAX_MAPPINGS = 8 << 20
MAX_TEXTS_BYTES = 64 << 20  # of embedded sources, compressed
_MAX_SECTIONS = 1 << 14
_MAX_DEPTH = 4  # of sections in sections: the standard allows none
_MAX_DIGITS = 7  # of a number: more than 32 bits
_DIGITS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_COMMA, _SEMICOLON, _BAD = 64, 65, 66
_MORE, _BITS = 32, 31  # of a digit: whether another follows, and its part of the number
_END_OF_LINES = 1 << 30
_GUARD = re.compile(rb"\s*\)\]\}'[^\n]*\n")  # against inclusion as a script
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_DAMAGED = "its source map is damaged"

Numbers = npt.NDArray[np.int64]
_ENCODED = np.full(256, _BAD, np.uint8)
_ENCODED[np.frombuffer(_DIGITS, np.uint8)] = np.arange(64)
_ENCODED[ord(",")], _ENCODED[ord(";")] = _COMMA, _SEMICOLON


class _Part(NamedTuple):
    """One map: its mappings as rows of ``COLUMNS``, and what they refer to."""

    rows: Numbers
    sources: list[str]
    names: list[str]
    texts: list[str | None]


def build_source_map(job: DebugJob) -> Built:
    """Return the table for the map in a job's file. Called in the worker's process.

    Raises:
        LinesError: it is no source map, or breaks a rule.
    """
    file = open_input(job.debug)
    try:
        if file.size > MAX_MAP_BYTES:
            raise LinesError(f"its source map is larger than {MAX_MAP_BYTES >> 20} MiB")
        data = file.read(0, file.size)
    finally:
        file.close()
    return Built(table_of(data))


def table_of(data: bytes) -> bytes:
    """Return the packed table of a map.

    Raises:
        LinesError: it is no source map, or breaks a rule.
    """
    try:
        found = json.loads(data[len(guard[0]) if (guard := _GUARD.match(data)) else 0 :])
    except (ValueError, RecursionError) as error:
        raise LinesError("its source map is no JSON") from error
    parts: list[_Part] = []
    _add(found, (0, 0), parts, 0)
    rows = _joined(parts)
    sources = [each for part in parts for each in part.sources]
    names = [each for part in parts for each in part.names]
    return pack(rows, sources, names, _packed_texts(each for part in parts for each in part.texts))


def _add(found: Any, start: tuple[int, int], parts: list[_Part], depth: int) -> None:
    """Append the maps that a map consists of.

    Args:
        found: the map.
        start: the line and column where it begins, from 0 on.
        parts: receives them.
        depth: how many maps it is in.
    """
    if not isinstance(found, dict) or depth > _MAX_DEPTH:
        raise LinesError(_DAMAGED if depth else "its source map is none")
    version = found.get("version")
    if "sections" not in found:
        if version != 3:
            raise LinesError("its source map is not of version 3")
        parts.append(_moved(_part(found), start))
        return
    sections = found["sections"]
    if not isinstance(sections, list) or len(sections) + len(parts) > _MAX_SECTIONS:
        raise LinesError(_DAMAGED)
    ends: list[tuple[int, int]] = []
    for section in sections:
        offset = section.get("offset") if isinstance(section, dict) else None
        if not isinstance(offset, dict):
            raise LinesError(_DAMAGED)
        line, column = _place(offset.get("line")), _place(offset.get("column"))
        ends.append((line + start[0], column + (start[1] if line == 0 else 0)))
    if ends != sorted(ends):
        raise LinesError(_DAMAGED)
    ends.append((_END_OF_LINES, 0))
    for number, section in enumerate(sections):
        if "map" not in section:
            raise LinesError("parts of its source map are in other files")
        first = len(parts)
        _add(section["map"], ends[number], parts, depth + 1)
        for at in range(first, len(parts)):
            parts[at] = _cut(parts[at], ends[number + 1])


def _place(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value < _END_OF_LINES:
        raise LinesError(_DAMAGED)
    return value


def _part(found: dict[str, Any]) -> _Part:
    mappings, root = found.get("mappings"), found.get("sourceRoot") or ""
    if not isinstance(mappings, str) or not isinstance(root, str):
        raise LinesError(_DAMAGED)
    sources, names, texts = (_list(found, key) for key in ("sources", "names", "sourcesContent"))
    rows = decode(mappings.encode("ascii", "replace"))
    if len(rows) and (rows[:, 2].max() >= len(sources) or rows[:, 5].max() >= len(names)):
        raise LinesError(_DAMAGED)
    texts = (texts + [None] * len(sources))[: len(sources)]
    return _Part(
        rows,
        [_below(root, each) if isinstance(each, str) else "" for each in sources],
        [each if isinstance(each, str) else "" for each in names],
        [each if isinstance(each, str) else None for each in texts],
    )


def _list(found: dict[str, Any], key: str) -> list[Any]:
    value = found.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise LinesError(_DAMAGED)
    return value


def _below(root: str, source: str) -> str:
    """Return a source's name below the map's ``sourceRoot``."""
    if not root or _SCHEME.match(source) or source.startswith("/"):
        return source
    return f"{root.rstrip('/')}/{source}" if _SCHEME.match(root) else posixpath.join(root, source)


def decode(mappings: bytes) -> Numbers:
    """Return the mappings of a map as rows of ``COLUMNS``, ascending; ``NONE`` for what they lack.

    Raises:
        LinesError: they are none.
    """
    codes = _ENCODED[np.frombuffer(mappings, np.uint8)]
    if (codes == _BAD).any():
        raise LinesError(_DAMAGED)
    is_digit = codes < _COMMA
    if len(codes) == 0 or not is_digit.any():
        return np.zeros((0, len(COLUMNS)), np.int64)
    has_more = is_digit & (codes & _MORE != 0)
    if has_more[-1] or (has_more[:-1] & ~is_digit[1:]).any():
        raise LinesError(_DAMAGED)
    if np.count_nonzero(~is_digit) >= MAX_MAPPINGS:
        raise LinesError("its source map has too many mappings")
    digits = codes[is_digit].astype(np.int64)
    ends = np.flatnonzero(digits & _MORE == 0)
    starts = np.concatenate(([0], ends[:-1] + 1))
    if int((ends - starts).max()) >= _MAX_DIGITS:
        raise LinesError(_DAMAGED)
    place = np.arange(len(digits)) - np.repeat(starts, ends - starts + 1)
    numbers = np.add.reduceat((digits & _BITS) << 5 * place, starts)
    numbers = np.where(numbers & 1, -(numbers >> 1), numbers >> 1)
    # Which mapping, and which line, each number belongs to.
    segment = np.cumsum(~is_digit)[is_digit][ends]
    line = np.cumsum(codes == _SEMICOLON)[is_digit][ends]
    first = np.flatnonzero(np.diff(segment, prepend=-1))
    count = np.diff(first, append=len(numbers))
    if not np.isin(count, (1, 4, 5)).all():
        raise LinesError(_DAMAGED)
    rows = np.full((len(first), len(COLUMNS)), NONE, np.int64)
    rows[:, 0] = line[first]
    column = np.cumsum(numbers[first])
    begins = np.flatnonzero(np.diff(rows[:, 0], prepend=-1))  # columns count anew in each line
    before = np.concatenate(([0], column))[begins]
    rows[:, 1] = column - np.repeat(before, np.diff(begins, append=len(rows)))
    for field, least in ((1, 4), (2, 4), (3, 4), (4, 5)):
        has = count >= least
        rows[has, field + 1] = np.cumsum(numbers[first[has] + field])
        if (rows[has, field + 1] < 0).any():
            raise LinesError(_DAMAGED)
    if (rows[:, 1] < 0).any() or (rows >= _END_OF_LINES).any():
        raise LinesError(_DAMAGED)
    return rows[np.lexsort((rows[:, 1], rows[:, 0]))]


def _moved(part: _Part, start: tuple[int, int]) -> _Part:
    rows = part.rows
    if start != (0, 0):
        rows[rows[:, 0] == 0, 1] += start[1]
        rows[:, 0] += start[0]
        ahead = np.full((1, len(COLUMNS)), NONE, np.int64)  # what is before it does not go on
        ahead[0, :2] = start
        rows = np.concatenate((ahead, rows))
    return part._replace(rows=rows)


def _cut(part: _Part, end: tuple[int, int]) -> _Part:
    line, column = part.rows[:, 0], part.rows[:, 1]
    return part._replace(rows=part.rows[(line < end[0]) | ((line == end[0]) & (column < end[1]))])


def _joined(parts: list[_Part]) -> Numbers:
    sources = names = 0
    for part in parts:
        part.rows[part.rows[:, 2] != NONE, 2] += sources
        part.rows[part.rows[:, 5] != NONE, 5] += names
        sources, names = sources + len(part.sources), names + len(part.names)
    if sum(len(part.rows) for part in parts) > MAX_MAPPINGS:
        raise LinesError("its source map has too many mappings")
    rows = [part.rows for part in parts] or [np.zeros((0, len(COLUMNS)), np.int64)]
    return np.concatenate(rows)


def _packed_texts(texts: Any) -> list[bytes | None]:
    left = MAX_TEXTS_BYTES
    packed: list[bytes | None] = []
    for text in texts:
        data = None if text is None else zlib.compress(text.encode("utf-8", "replace"), 1)
        if data is not None:
            left -= len(data)
            data = data if left >= 0 else None
        packed.append(data)
    return packed
