"""Damage what a recording says of places in its own file, and of the times of its sums. Pure."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from recording_oddities import ODD_NUMBERS
from recording_pieces import Piece, made

HEADER_BYTES = 16
TIMES = ("start_ns", "end_ns", "first_ns", "origin_ns")
BACKWARD = ("bytes", "lock_bytes")  # facts of SUMS: how far before the chunk something is
PLACES = ("offset", "rows_at", "locks_at")  # columns of the index
SUM_COLUMNS = ("cell", "bin", "row", "wall_ns", "cpu_ns", "off_ns", "samples", "number")


def relocated(pieces: Sequence[Piece]) -> list[Piece]:
    """Return the chunks with what they say of places made right, where it was right before.

    Chunks have moved when those before them were damaged: else nearly all inputs would be refused
    because of that.
    """
    moved: dict[int, int] = {}
    at, found = HEADER_BYTES, []
    for piece in pieces:
        moved.setdefault(piece.offset, at)
        piece = _relocated(piece, at, moved)
        found.append(piece)
        at += len(piece.raw)
    return found


def _relocated(piece: Piece, at: int, moved: dict[int, int]) -> Piece:
    facts, columns = dict(piece.facts), dict(piece.columns)
    if piece.kind == b"SUMS":
        for name in BACKWARD:
            before = _place(facts.get(name), piece.offset)
            if before in moved and facts[name]:
                facts[name] = at - moved[before]
    elif piece.kind == b"LAST":
        facts["index"] = moved.get(_place(facts.get("index"), 0, -1), facts.get("index"))
    elif piece.kind == b"node":
        for name in PLACES:
            if name in columns:
                columns[name] = np.array([moved.get(n, n) for n in columns[name].tolist()])
        places = facts.get("places")
        if isinstance(places, list):
            facts["places"] = [_named(each, moved) for each in places]
    else:
        return piece
    if facts == piece.facts and not piece.columns.keys() & set(PLACES):
        return piece
    try:
        return made(replace(piece, facts=facts, columns=columns))
    except (ValueError, OverflowError):
        return piece


def _place(value: Any, base: int, sign: int = 1) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        return -1
    return base - value if sign > 0 else value


def _named(value: Any, moved: dict[int, int]) -> Any:
    match value:
        case [kind, int(at)]:
            return [kind, moved.get(at, at)]
    return value


def _some(pieces: Sequence[Piece], *kinds: bytes) -> list[int]:
    return [at for at, each in enumerate(pieces) if each.kind in kinds]


def misplaced(pieces: list[Piece], choose: random.Random, given: Sequence[bytes]) -> None:
    """Say that something is where another thing is: a chunk, its middle, its end, or nothing."""
    del given
    some = _some(pieces, b"SUMS", b"node", b"node", b"LAST")
    if not some:
        return
    at = choose.choice(some)
    piece = pieces[at]
    where = choose.choice([max(each.offset, 0) for each in pieces])
    where += choose.choice((0, 0, 0, 1, -1, 20, -16))
    facts, columns = copy.deepcopy(piece.facts), dict(piece.columns)
    if piece.kind == b"SUMS":
        facts[choose.choice(BACKWARD)] = piece.offset - where
    elif piece.kind == b"LAST":
        facts["index"] = choose.choice((where, piece.offset))
    elif choose.random() < 0.5 and isinstance(facts.get("places"), list):
        kind = choose.choice(("META", "TEXT", "CODE", "STAT", "GAIN", "SUMS", "node", ""))
        for _ in range(choose.choice((1, 1, 5, 300))):
            facts["places"].insert(0, [kind, where])
    elif columns:
        name = choose.choice([each for each in PLACES if each in columns] or ["offset"])
        column = columns.get(name, np.zeros(1)).astype(np.int64)
        if len(column):
            column[choose.choice((slice(None), choose.randrange(len(column))))] = where
        columns[name] = column
    pieces[at] = made(replace(piece, facts=facts, columns=columns))


def mistimed(pieces: list[Piece], choose: random.Random, given: Sequence[bytes]) -> None:
    """Move the windows of sums, and their bins: by little, to a limit, to those of another one."""
    del given
    some = _some(pieces, b"SUMS", b"node")
    if not some:
        return
    at = choose.choice(some)
    piece = pieces[at]
    name = choose.choice((*TIMES, "level", "bins_level", "bins_level"))
    known = [each.facts.get(choose.choice(TIMES), 0) for each in pieces if each.kind == b"SUMS"]
    new = choose.choice((*known, *ODD_NUMBERS, 0, 1, 2, 3, 15, 16, 17, 31, 32, 33))
    add = choose.choice((0, 0, 0, 1, -1, 1_953_125, -(1 << 40)))
    if not isinstance(new, int) or not 0 <= new + add < 1 << 63:
        return
    if name in piece.columns and len(piece.columns[name]):
        column = piece.columns[name].astype(np.int64)
        place = choose.randrange(len(column))
        column[place] = new + add if choose.random() < 0.7 else int(column[place]) + 1
        pieces[at] = made(replace(piece, columns={**piece.columns, name: column}))
        return
    old = piece.facts.get(name, 0)
    near = choose.random() < 0.3 and isinstance(old, int)
    value = old + choose.choice((1, -1, 5)) if near else new + add
    pieces[at] = made(replace(piece, facts={**piece.facts, name: value}))


def missummed(pieces: list[Piece], choose: random.Random, given: Sequence[bytes]) -> None:
    """Let sums have odd numbers, or those of another node."""
    del given
    some = _some(pieces, b"SUMS")
    if not some:
        return
    at, other = choose.choice(some), choose.choice(some)
    columns = dict(pieces[at].columns)
    if choose.random() < 0.3:
        pieces[at] = made(replace(pieces[at], columns=pieces[other].columns))
        return
    table, name = choose.choice(("cells", "bins", "waits")), choose.choice(SUM_COLUMNS)
    column = columns.get(f"{table}.{name}")
    if column is None or not len(column):
        return
    limits = 59, 60, 61, 1 << 31, 1 << 52, 1 << 56, 1 << 58, (1 << 60) - 1
    odd = choose.choice(ODD_NUMBERS if choose.random() < 0.4 else limits)
    changed = column.astype(np.uint64 if odd >= 1 << 63 else np.int64)
    changed[choose.choice((slice(None), choose.randrange(len(column)), slice(5)))] = odd
    pieces[at] = made(replace(pieces[at], columns={**columns, f"{table}.{name}": changed}))
