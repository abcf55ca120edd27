"""Damage recordings at every level: bytes, chunks, facts, columns. Pure.

Most inputs have right checksums, so that what looks at the contents is reached.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import zstandard

from flametap.recording.chunks import narrow
from recording_oddities import ODD_NUMBERS, ODD_VALUES, WHOLE
from recording_pieces import Piece, joined, made, packed, pieces_of, sealed, stored
from recording_places import misplaced, missummed, mistimed, relocated

_KINDS = (
    *(b"META", b"GAIN", b"NAME", b"STAT", b"TEXT", b"CODE", b"\xff\0\n<"),
    *(b"SUMS", b"LOCK", b"gain", b"name", b"node", b"LAST"),
)
_ONE_IN = 1_500  # inputs has that many of something: they take long


def damaged(choose: random.Random, given: Sequence[bytes], many: int) -> bytes:
    """Return the file that follows from the state of ``choose``.

    Args:
        choose: makes all choices.
        given: the seeds.
        many: of a thing, where there are very many.
    """
    pieces = list(pieces_of(choose.choice(given)))
    if choose.randrange(_ONE_IN) == 0:
        return joined(relocated(choose.choice(WHOLE)(pieces, many)))
    for _ in range(choose.choice((1, 1, 1, 2, 2, 3, 6))):
        change = choose.choice(_CHANGES)
        change(pieces, choose, given)
        if not pieces:
            break
    data = joined(relocated(pieces) if choose.random() < 0.8 else pieces)
    if choose.random() < 0.1:
        data = _bytes_changed(bytearray(data), choose)
    if choose.random() < 0.05:
        data = data[: choose.randrange(len(data) + 1)]
    return data


# ---- changes: each changes the list of chunks, of which there is one at least

Change = Callable[[list[Piece], random.Random, Sequence[bytes]], None]


def _move(pieces: list[Piece], choose: random.Random, given: Sequence[bytes]) -> None:
    """Drop, repeat, swap or borrow chunks."""
    at, other = choose.randrange(len(pieces)), choose.randrange(len(pieces))
    what = choose.randrange(5)
    if what == 0:
        del pieces[at]
    elif what == 1:
        pieces.insert(other, pieces[at])
    elif what == 2:
        pieces[at], pieces[other] = pieces[other], pieces[at]
    elif what == 3:
        pieces[at] = choose.choice(pieces_of(choose.choice(given)))
    else:
        del pieces[at:]


def _frame(pieces: list[Piece], choose: random.Random, given: Sequence[bytes]) -> None:
    """Change what a chunk says of itself, or how it is stored."""
    del given
    at = choose.randrange(len(pieces))
    piece = pieces[at]
    payload = packed(piece.facts, piece.columns)
    what = choose.randrange(6)
    if what == 0:
        pieces[at] = made(replace(piece, kind=choose.choice(_KINDS)))
    elif what == 1:
        pieces[at] = made(replace(piece, process=choose.choice((1, 7, (1 << 32) - 1))))
    elif what == 2:
        length = choose.choice((0, 1, 3, 4, len(payload) - 1, len(payload) + 1, (1 << 26)))
        pieces[at] = stored(piece, payload, length)
    elif what == 3:
        pieces[at] = stored(piece, payload[: choose.randrange(len(payload) + 1)])
    elif what == 4:
        frame = zstandard.ZstdCompressor(write_content_size=False).compress(payload)
        frames = (b"", frame, frame[: len(frame) // 2], b"\x50\x2a\x4d\x18\0\0\0\0", frame * 2)
        pieces[at] = sealed(piece, choose.choice(frames), len(payload))
    else:
        pieces[at] = stored(piece, _bytes_changed(bytearray(payload), choose))


def _described(pieces: list[Piece], choose: random.Random, given: Sequence[bytes]) -> None:
    """Say something else of the columns than what they are."""
    del given
    at = choose.randrange(len(pieces))
    piece = pieces[at]
    described: list[Any] = [
        [name, narrow(each).dtype.str, len(each)] for name, each in piece.columns.items()
    ]
    types = ("<i8", "<u8", "<i4", "<u2", "|u1", "<f8", "|O", "", "V4", 3)
    for _ in range(choose.choice((1, 1, 3))):
        what = choose.randrange(5)
        odd = choose.choice((0, 1, True, -1, 1 << 24, 1 << 60, 1 << 63, 1 << 64, None, "3", 2.0))
        if what == 0 or not described:
            described.append(["more", choose.choice(types), odd])
        elif what == 1:
            described[choose.randrange(len(described))] = odd
        elif what == 2:
            described.insert(0, choose.choice(described))
        else:
            each = choose.choice(described)
            if isinstance(each, list):
                each[1 if what == 3 else 2] = choose.choice(types) if what == 3 else odd
    found: Any = choose.choice((None, 5, "columns", {})) if choose.random() < 0.05 else described
    payload = packed(piece.facts, piece.columns, found)
    pieces[at] = stored(piece, payload)


def _fact(pieces: list[Piece], choose: random.Random, given: Sequence[bytes]) -> None:
    """Change a fact of a chunk, however deep it lies."""
    del given
    at = choose.randrange(len(pieces))
    facts = json.loads(json.dumps(pieces[at].facts))
    for _ in range(choose.choice((1, 1, 2, 5))):
        _change_inside(facts, choose)
    pieces[at] = made(replace(pieces[at], facts=facts))


def _change_inside(value: Any, choose: random.Random) -> None:
    while True:
        keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = choose.choice(keys)
        inner = value[key]
        if not isinstance(inner, (dict, list)) or not inner or choose.random() < 0.1:
            break
        value = inner
    what = choose.random()
    if what < 0.7:
        value[key] = copy.deepcopy(choose.choice(ODD_VALUES))
    elif what < 0.8:
        del value[key]
    elif isinstance(value, list):
        value.insert(key, copy.deepcopy(choose.choice((inner, *ODD_VALUES))))
    else:
        value["" if what < 0.9 else "odd"] = copy.deepcopy(inner)


def _one_with_columns(pieces: list[Piece], choose: random.Random) -> int | None:
    some = [at for at, each in enumerate(pieces) if each.columns]
    return choose.choice(some) if some else None


def _column(pieces: list[Piece], choose: random.Random, given: Sequence[bytes]) -> None:
    """Change numbers of columns, or how many there are."""
    del given
    at = _one_with_columns(pieces, choose)
    if at is None:
        return
    columns = dict(pieces[at].columns)
    for name in choose.sample(sorted(columns), min(choose.choice((1, 1, 2, 4)), len(columns))):
        columns[name] = _numbers(columns[name], choose)
    pieces[at] = made(replace(pieces[at], columns=columns))


def _numbers(column: Any, choose: random.Random) -> Any:
    what, n = choose.randrange(8), len(column)
    if not n:
        return column
    if what == 0:
        return column[: choose.randrange(n + 1)]
    if what == 1:
        return np.concatenate((column, column[: choose.choice((1, n))]))
    if what == 2:
        return column[::-1]
    odd = choose.choice(ODD_NUMBERS)
    changed = column.astype(np.uint64 if odd >= 1 << 63 else np.int64)
    if what == 3:
        changed[:] = odd
    elif what == 4:
        changed[choose.randrange(n)] += np.asarray(choose.choice((1, 2, 3)), changed.dtype)
    elif what == 5:
        changed[choose.randrange(n)] = changed[choose.randrange(n)]
    else:
        for _ in range(choose.choice((1, 1, 4))):
            changed[choose.randrange(n)] = odd
    return changed


def _rows(pieces: list[Piece], choose: random.Random, given: Sequence[bytes]) -> None:
    """Drop or repeat the same rows of all columns that belong together."""
    del given
    at = _one_with_columns(pieces, choose)
    if at is None:
        return
    columns = dict(pieces[at].columns)
    group = choose.choice(sorted({name.partition(".")[0] for name in columns}))
    names = [name for name in columns if name.partition(".")[0] == group]
    n = min(len(columns[name]) for name in names)
    if not n:
        return
    rows = np.array([choose.randrange(n) for _ in range(choose.choice((1, n, 2 * n)))])
    for name in names:
        columns[name] = columns[name][rows if choose.random() < 0.99 else rows[:1]]
    pieces[at] = made(replace(pieces[at], columns=columns))


def _bytes_changed(data: bytearray, choose: random.Random) -> bytes:
    for _ in range(choose.choice((1, 1, 2, 8))):
        if not data:
            break
        at = choose.randrange(len(data))
        what = choose.randrange(4)
        if what == 0:
            data[at] ^= 1 << choose.randrange(8)
        elif what == 1:
            data[at : at + choose.choice((1, 4, 8))] = b""
        elif what == 2:
            data[at:at] = bytes(choose.choice(((0,), (255,) * 4, (0xED, 0xA0, 0x80), (27,))))
        else:
            data[at] = choose.randrange(256)
    return bytes(data)


_CHANGES: tuple[Change, ...] = (
    *(_column,) * 6,
    *(_fact,) * 5,
    *(_rows,) * 2,
    *(_move,) * 2,
    _frame,
    _described,
    *(misplaced,) * 2,
    *(mistimed,) * 2,
    missummed,
)
