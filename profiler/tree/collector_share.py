"""Sum the garbage collections of a call tree, and find what made them run. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..model import FrameKind, Function
from ..recording.names.table import COLLECTION
from .calltree import CallTree


@dataclass(frozen=True)
class CollectorShare:
    """The garbage collector's part of a call tree."""

    ns: int
    trigger: Function | None  # the Python function below which most of it is
    trigger_ns: int  # how much


def collector_share(tree: CallTree) -> CollectorShare | None:
    """Return the garbage collector's part; None if it did not run."""
    functions = tree.functions
    is_collection = np.array([each == COLLECTION for each in functions], bool)
    nodes = np.flatnonzero(np.append(is_collection, False)[tree.function])
    sums: dict[int, int] = {}
    for node in nodes.tolist():
        at, trigger = int(tree.parent[node]), -1
        while at > 0:
            function = int(tree.function[at])
            if trigger < 0 and functions[function].kind is FrameKind.PYTHON:
                trigger = function
            if is_collection[function]:
                break  # a collection within one counts once
            at = int(tree.parent[at])
        else:
            sums[trigger] = sums.get(trigger, 0) + int(tree.total_ns[node])
    if not sums:
        return None
    heaviest = max((each for each in sums if each >= 0), key=lambda each: sums[each], default=-1)
    trigger_function = None if heaviest < 0 else functions[heaviest]
    trigger_ns = 0 if heaviest < 0 else sums[heaviest]
    return CollectorShare(sum(sums.values()), trigger_function, trigger_ns)
