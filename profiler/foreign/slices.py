"""Turn slices of time, which have others within them, into stacks and their own times. Pure.

A slice that begins within another one and ends after it is cut where the other one ends: a thread
cannot be in both. (Perfetto leaves such a slice out; speedscope lets the outer one end late.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .builder import ROOT
from .columns import Int64s

ROUNDING_NS = 1_000  # times are often given in whole microseconds


class Slices(NamedTuple):
    """Slices of a thread, in columns; the order in the file decides between equals."""

    begin_ns: Int64s
    end_ns: Int64s
    frame: Int64s


class OwnTimes(NamedTuple):
    """Stacks, when each was there, and for how long."""

    t0_ns: list[int]
    node: list[int]
    wall_ns: list[int]
    n_cut: int  # slices


def own_times(slices: Slices, child: Callable[[int, int], int]) -> OwnTimes:
    """Return the time of each slice that is in no slice within it.

    Args:
        slices: of a thread.
        child: returns the stack of a caller's stack and a frame.
    """
    # Of those that begin at once, the longest has the others in it.
    order = np.lexsort((np.arange(len(slices.frame)), -slices.end_ns, slices.begin_ns))
    found = OwnTimes([], [], [], 0)
    open_nodes, open_ends = [ROOT], [1 << 62]
    now, n_cut = 0, 0

    def advance(to: int) -> None:
        nonlocal now
        if to > now:
            if len(open_nodes) > 1:
                found.t0_ns.append(now)
                found.node.append(open_nodes[-1])
                found.wall_ns.append(to - now)
            now = to

    columns = (each[order].tolist() for each in slices)
    for begin, end, frame in zip(*columns, strict=True):
        while open_ends[-1] <= begin:
            advance(open_ends.pop())
            open_nodes.pop()
        advance(begin)
        if end > open_ends[-1]:
            n_cut += end > open_ends[-1] + ROUNDING_NS
            end = open_ends[-1]
        open_nodes.append(child(open_nodes[-1], frame))
        open_ends.append(end)
    while len(open_nodes) > 1:
        advance(open_ends.pop())
        open_nodes.pop()
    return found._replace(n_cut=n_cut)
