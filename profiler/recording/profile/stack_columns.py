"""Define the rows of the tables of stacks as columns, and check those that a file gives. Pure."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...model import ManagedVerdict, Verdict
from ...wire.abi import MAX_FRAMES

_MARKS = 8  # enum mark has three bits


class Mark(NamedTuple):
    """The position up to which a reader knows the stacks; only ``Stacks`` makes one."""

    n_addresses: int = 0
    n_nodes: int = 0
    n_stacks: int = 0


FIRST = Mark(0, 4, 2)
"""The position behind what all tables of stacks begin with: see ``stacks``."""


@dataclass(frozen=True, eq=False)
class StackColumns:
    """Rows that the tables of stacks have gained: addresses, nodes of the trie, stacks."""

    addresses: npt.NDArray[np.uint64]  # encoded as on the wire
    parent: npt.NDArray[np.int32]  # of each node …
    address: npt.NDArray[np.int32]
    depth: npt.NDArray[np.int32]
    node: npt.NDArray[np.int32]  # of each stack …
    verdict: npt.NDArray[np.uint8]
    managed: npt.NDArray[np.uint8]
    marks: npt.NDArray[np.uint8]
    fault: npt.NDArray[np.int32]

    def none(self) -> StackColumns:
        """Return the same columns without rows."""
        columns = {each.name: getattr(self, each.name)[:0] for each in fields(self)}
        return StackColumns(**columns)


def check(rows: StackColumns, at: Mark, depths: npt.NDArray[np.int32]) -> None:
    """Check rows that a file gives.

    Args:
        rows: the rows.
        at: how many rows there are before them.
        depths: of the nodes before them.

    Raises:
        ValueError: a number is out of bounds.
    """
    n_nodes = at.n_nodes + len(rows.parent)
    number = np.arange(at.n_nodes, n_nodes)
    depth = np.append(depths, rows.depth)
    of_stacks = rows.node, rows.verdict, rows.managed, rows.marks, rows.fault
    for columns in ((rows.parent, rows.address, rows.depth), of_stacks):
        if len({len(each) for each in columns}) != 1:
            raise ValueError("its stacks have columns of different lengths")
    in_order = (rows.parent >= 0) & (rows.parent < number)
    if not in_order.all() or (rows.depth != depth[rows.parent] + 1).any():
        raise ValueError("a frame has no caller before it")
    if (rows.depth > MAX_FRAMES + 2).any():
        raise ValueError("a stack is too deep")
    for values, end in (
        (rows.address, at.n_addresses + len(rows.addresses)),
        (rows.node, n_nodes),
        (rows.verdict, len(Verdict)),
        (rows.managed, len(ManagedVerdict)),
        (rows.marks, _MARKS),
        (rows.fault, 1 << 16),
    ):
        if ((values < 0) | (values >= end)).any():
            raise ValueError("a stack points at something that is not there")
