"""Write folded stacks: one line per stack, ``root;…;leaf WEIGHT``.

Weights are whole microseconds, or numbers of stacks. The rounding error of one line is carried to
the next. So the lines add up to the rounded total, and the lines of a thread or of any other
subtree to its weight within a microsecond. Lines with weight 0 are omitted.

A Python function is ``qualname (short/path.py)``, with its lines ``qualname (short/path.py:LINE)``,
as py-spy writes them. In names ``;`` becomes ``:``; line ends and control characters become spaces.

Source: the format of flamegraph.pl, which inferno and speedscope read (``^(.*) (\\d+)$``).
"""

from __future__ import annotations

from typing import BinaryIO

from ..tree.calltree import CallTree, children
from ..tree.labels import label
from .request import ExportRequest

ALL = "all"  # of stacks of which no function is left
_NS_PER_US = 1000
_CLEAN = {code: " " for code in (*range(32), *range(127, 160), 0x2028, 0x2029)} | {ord(";"): ":"}


def write(request: ExportRequest, file: BinaryIO) -> None:
    """Write a profile as folded stacks."""
    write_tree(request.tree(), file, request)


def write_tree(tree: CallTree, file: BinaryIO, request: ExportRequest) -> None:
    """Write a call tree as folded stacks, depth first."""
    divisor = 1 if request.counted else _NS_PER_US
    first, count = (column.tolist() for column in children(tree))
    function, self_ns = tree.function.tolist(), tree.self_ns.tolist()
    line = tree.line.tolist() if request.by_line else [0] * len(function)
    end = function if tree.chain_end is None else tree.chain_end.tolist()
    names: dict[tuple[int, int], str] = {}
    written = total = 0
    waiting = [(0, "")]
    while waiting:
        node, above = waiting.pop()
        path = above
        if node:
            key = function[node], line[node]
            name = names.get(key)
            if name is None:
                what = tree.functions[function[node]]
                text = label(what, line[node], full_filenames=request.full_filenames)
                name = names[key] = clean(text)
            if end[node] != function[node]:
                name = f"{name} … {clean(tree.functions[end[node]].name)}"
            path = f"{above};{name}" if above else name
        if self_ns[node]:
            total += self_ns[node]
            weight = (total + divisor // 2) // divisor - written
            if weight:
                written += weight
                file.write(f"{path or ALL} {weight}\n".encode("utf-8", "replace"))
        children_of = range(first[node], first[node] + count[node])
        waiting.extend((child, path) for child in reversed(children_of))


def clean(name: str) -> str:
    """Return a name without what separates frames and lines."""
    return name.translate(_CLEAN).strip() or "?"
