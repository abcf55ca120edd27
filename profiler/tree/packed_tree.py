"""Pack call trees into few bytes, for a page that has no server to ask. Pure.

A tree becomes one string of unsigned LEB128 numbers: the number of nodes, then six columns of that
length, in the tree's own breadth-first order: the number of children, the function (0 for the root,
else its number + 1), the own weight, the line, the line's file, and the function where a folded
chain ends (0 where none does, else its number + 1). A joined tree (``comparison``) has a seventh:
the own weight on the other side. All else follows from these
(``web/static/report/tree.js`` unpacks it). Trees share one list of functions: those that occur.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..model import MANAGED_KINDS, Function
from ..symbols.interpreters.function_origin import origin_of
from .calltree import CallTree

_DEFLATE_RAW = -15  # window bits of zlib for a stream without a header: "deflate-raw" in browsers


@dataclass(frozen=True)
class PackedTrees:
    """Trees of one recording; see the module docstring."""

    functions: Sequence[Function]
    ids: npt.NDArray[np.int64]  # of these functions, in the recording
    origins: Sequence[str]  # whose code each function is; empty without Python functions
    line_files: Sequence[str]  # the first is ""
    line_tiers: Sequence[str]  # the same
    trees: Sequence[bytes]  # deflated


def pack(trees: Sequence[CallTree]) -> PackedTrees:
    """Pack trees that were built with the same symbol table."""
    shown = [tree.function for tree in trees]
    shown += [tree.chain_end for tree in trees if tree.chain_end is not None]
    used = np.unique(np.concatenate(shown))
    used = used[used >= 0]
    files = np.unique(np.concatenate([np.zeros(1, np.int32), *(t.line_file for t in trees)]))
    newest = max(trees, key=lambda tree: len(tree.functions))
    functions = [newest.functions[function] for function in used.tolist()]
    has_managed = any(function.kind in MANAGED_KINDS for function in newest.functions)
    return PackedTrees(
        functions,
        used.astype(np.int64),
        [origin_of(function).value for function in functions] if has_managed else [],
        [newest.line_files[int(file)] for file in files],
        [newest.line_tiers[int(file)] for file in files],
        [deflate(_columns(tree, used, files)) for tree in trees],
    )


def _columns(tree: CallTree, used: npt.NDArray[Any], files: npt.NDArray[Any]) -> bytes:
    n = len(tree.parent)
    ends = tree.function if tree.chain_end is None else tree.chain_end
    columns = (
        np.array([n]),
        np.bincount(tree.parent[1:], minlength=n),
        np.where(tree.function < 0, 0, np.searchsorted(used, tree.function) + 1),
        tree.self_ns,
        tree.line,
        np.searchsorted(files, tree.line_file),
        np.where(ends == tree.function, 0, np.searchsorted(used, ends) + 1),
        *tree.sides[1:],
    )
    return b"".join(leb128(column) for column in columns)


def leb128(numbers: npt.NDArray[np.integer]) -> bytes:
    """Encode numbers that are not negative: 7 bits a byte, low ones first, the rest has bit 7."""
    rest = numbers.astype(np.uint64)
    planes, more = [], []
    while True:
        planes.append((rest & np.uint64(0x7F)).astype(np.uint8))
        rest = rest >> np.uint64(7)
        more.append(rest > 0)
        if not more[-1].any():
            break
    values, goes_on = np.stack(planes, axis=1), np.stack(more, axis=1)
    is_sent = np.ones(values.shape, bool)
    is_sent[:, 1:] = goes_on[:, :-1]
    encoded: bytes = (values | goes_on.astype(np.uint8) << 7)[is_sent].tobytes()
    return encoded


def deflate(data: bytes) -> bytes:
    """Compress, without a header."""
    packer = zlib.compressobj(6, zlib.DEFLATED, _DEFLATE_RAW)
    return packer.compress(data) + packer.flush()
