"""What no recorder writes: odd numbers and texts, and very many of a thing. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from recording_pieces import Piece, made

ODD_NUMBERS = (
    *(0, 1, 2, 3, 4, 7, 8, 63, 127, 128, 255, 256, 2047, 2050, 32_767, 32_768, 65_535, 65_536),
    *((1 << 24) - 1, 1 << 24, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 40, 1 << 53),
    *((1 << 60) - 1, 1 << 60, (1 << 62) - 1, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1),
    *(-1, -2, -128, -(1 << 31), -(1 << 40), -(1 << 62), -(1 << 63)),
    *(0x0200_0001_0000_0005, 0x0100_0000_0000_0000, 0xFFFF_FFFF_FFFF, 0xFFFF_FFFF_FFFE),
)
ODD_TEXTS = (
    "",
    " ",
    "\x1b[31mred\x1b]0;title\x07",
    "line\nfeed\r\t\0\x7f\x9b2J",
    "<script>alert(1)</script><img src=x onerror=alert(1)>&amp;\"'",
    "]]></svg><!--",
    "\u202egnal\u2066\u200f\u2028\ufeff",
    "\ud800",
    "\udcff\udc80",
    "\U000e0100\ufffe\U0010ffff",
    "a;b 1\nc 2",
    "../../../etc/passwd",
    "/proc/self/mem",
    "x" * 5_000,
    "é" * 300 + "((((((" * 50,
    "native",
    "python",
    "folded",
    "synthetic",
    "ended",
    "recording",
    "%s%n{0}{x}",
)
ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, [], {}, [[]], [[[[[[]]]]]], {"": {}}, [None] * 7, [0] * 6),
    *(0.5, -0.0, 1e300, -1e300, 1e-300, 5e18, float("nan"), float("inf"), 1 << 64, -(1 << 70)),
    *ODD_NUMBERS,
    *ODD_TEXTS,
)
DEPTH = 2_000  # of a stack, less than the limit


def _last(pieces: Sequence[Piece], kind: bytes) -> int:
    return max((at for at, each in enumerate(pieces) if each.kind == kind), default=0)


def _with(pieces: list[Piece], kind: bytes, facts: Any, **columns: Any) -> list[Piece]:
    """Return the chunks with one more of a kind, behind the last."""
    named = {name.replace("__", "."): np.asarray(each) for name, each in columns.items()}
    at = _last(pieces, kind) + 1
    return [*pieces[:at], made(Piece(kind, 0, facts, named, b"")), *pieces[at:]]


def _gain(pieces: list[Piece], more: dict[str, Any], **columns: Any) -> list[Piece]:
    last = pieces[_last(pieces, b"GAIN")].facts
    facts = {"start_ns": last["start_ns"], "now_ns": last["now_ns"], **more}
    return _with(pieces, b"GAIN", facts, **columns)


def _numbers_before(pieces: Sequence[Piece], column: str, first: int) -> int:
    return first + sum(len(each.columns.get(column, ())) for each in pieces)


def wide_trie(pieces: list[Piece], many: int) -> list[Piece]:
    """Half as many nodes below the root: half a million find room."""
    zeros = np.zeros(many // 2, np.int64)
    columns = {"stacks__parent": zeros, "stacks__address": zeros, "stacks__depth": zeros + 1}
    return _gain(pieces, {}, **columns)


def too_wide_trie(pieces: list[Piece], many: int) -> list[Piece]:
    """A million nodes find none."""
    return wide_trie(pieces, 2 * many)


def too_deep_trie(pieces: list[Piece], many: int) -> list[Piece]:
    """A chain of nodes."""
    parent = np.arange(many) + _numbers_before(pieces, "stacks.parent", 4) - 1
    parent[0] = 0
    columns = {"stacks__parent": parent, "stacks__address": np.zeros(many, np.int64)}
    return _gain(pieces, {}, **columns, stacks__depth=np.arange(many) + 1)


def deep_stacks(pieces: list[Piece], many: int) -> list[Piece]:
    """Very deep stacks that have weight."""
    n_stacks = many // 5 // DEPTH
    before = _numbers_before(pieces, "stacks.parent", 4)
    number = np.arange(before, before + n_stacks * DEPTH).reshape(n_stacks, DEPTH)
    parent = number - 1
    parent[:, 0] = 0
    depth = np.broadcast_to(np.arange(1, DEPTH + 1), number.shape)
    stack = _numbers_before(pieces, "stacks.node", 2) + np.arange(n_stacks)
    cell = _numbers_before(pieces, "cells.what", 0) + np.arange(n_stacks)
    start_ns = pieces[_last(pieces, b"GAIN")].facts["start_ns"]
    zeros, ones = np.zeros(n_stacks, np.int64), np.ones(n_stacks, np.int64)
    rows = dict.fromkeys(("holder_id", "awaited_lock", "held_lock"), zeros)
    rows |= {"t0_ns": zeros, "wall_ns": ones * 10**6, "cpu_ns": ones * 10**6, "samples": ones}
    rows["t0_ns"] = np.append([start_ns], zeros[1:])
    return _gain(
        pieces,
        {},
        stacks__parent=parent.ravel(),
        stacks__address=np.zeros(number.size, np.int64),
        stacks__depth=depth.ravel(),
        stacks__node=number[:, -1],
        **{f"stacks__{name}": zeros for name in ("verdict", "managed", "marks", "fault")},
        cells__thread_id=ones,
        cells__what=stack << 19 | 0xFFFF << 3 | 1,
        **{f"rows__{name}": each for name, each in rows.items()},
        rows__cell=cell,
    )


def shared_frames(pieces: list[Piece], many: int) -> list[Piece]:
    """Each address has the same frames, very many."""
    n_addresses = _numbers_before(pieces, "stacks.addresses", 0)
    n_frames = min(many // 10, 1_000)
    zeros, ones = np.zeros(n_addresses, np.int64), np.ones(n_addresses, np.int64)
    columns: dict[str, Any] = dict.fromkeys(("function", "line", "file"), np.zeros(n_frames, int))
    columns |= {"address": np.arange(n_addresses), "first": zeros}
    return _with(pieces, b"NAME", {}, **columns, count=ones * n_frames, is_named=ones)


def many_threads(pieces: list[Piece], many: int) -> list[Piece]:
    """Threads, of which some have intervals."""
    threads = [[number, number, "t", 0, False, False, ""] for number in range(1, many // 10)]
    return _gain(pieces, {"threads": threads})


def long_names(pieces: list[Piece], many: int) -> list[Piece]:
    """Some functions with very long names."""
    name = "<b>\x1b[1m" * (many // 7)
    functions = [[name, f"m{number}", name, "native", name] for number in range(3)]
    return _with(pieces, b"NAME", {"functions": functions})


def many_lines(pieces: list[Piece], many: int) -> list[Piece]:
    """A text of so many lines, of which none is kept."""
    return _with(pieces, b"TEXT", {"texts": [["m", "f.c", "", many, [], []]]})


def nested(pieces: list[Piece], many: int) -> list[Piece]:
    """Lists in lists, as deep as Python's own JSON writes them."""
    del many
    value: list[Any] = []
    for _ in range(900):
        value = [value]
    return _with(pieces, b"STAT", {"notes": value})


def many_nodes(pieces: list[Piece], many: int) -> list[Piece]:
    """An index of so many sums, one after another, all of them in one place."""
    start = np.arange(many) + 1
    columns: dict[str, Any] = dict.fromkeys(("level", "bins_level", "locks_at"), start * 0)
    columns |= {"start_ns": start, "end_ns": start + 1, "first_ns": start, "rows_at": start + 15}
    return _with(pieces, b"node", {"origin_ns": 1, "places": []}, **columns, offset=start + 999)


def many_singles(pieces: list[Piece], many: int) -> list[Piece]:
    """Sums beside each of which half as many intervals are kept: few nodes find room."""
    return _changed(pieces, "single.", many // 2)


def many_sums(pieces: list[Piece], many: int) -> list[Piece]:
    """Sums in so many bins."""
    return _changed(pieces, "bins.", many)


def _changed(pieces: list[Piece], of: str, many: int) -> list[Piece]:
    """Return chunks, of which the sums have so many rows of a table."""

    def longer(columns: dict[str, Any]) -> dict[str, Any]:
        return {
            name: np.resize(each, many) if name.startswith(of) and len(each) else each
            for name, each in columns.items()
        }

    return [
        made(replace(each, columns=longer(each.columns))) if each.kind in SUMMED else each
        for each in pieces
    ]


SUMMED = (b"SUMS", b"node")
WHOLE: tuple[Callable[[list[Piece], int], list[Piece]], ...] = (
    *(wide_trie, too_wide_trie, too_deep_trie, deep_stacks, shared_frames),
    *(many_threads, long_names, many_lines, nested),
    *(many_nodes, many_singles, many_sums),
)
"""Each returns the chunks with so many of a thing, or some part of so many."""
