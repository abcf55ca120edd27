"""The heaviest functions of a recording, as a table for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..model import Clock
from .targets import shorten

if TYPE_CHECKING:
    from ..tree.calltree import CallTree

ROWS = 5
NAME_WIDTH = 60  # names of C++ templates can exceed any line; the files have them in full
MODULE_WIDTH = 40
NAMELESS_SHARE = 0.1  # of all frames; less is no matter
NAMELESS_MODULES = 3  # shown
GENERATED = "generated code"  # in place of a module


def heaviest_lines(tree: CallTree, clock: Clock, rows: int = ROWS) -> list[str]:
    """Format the functions with the most time of their own: heading, then share, name, module.

    Args:
        tree: weighted by ``clock``.
        clock: named in the heading.
        rows: the most functions to list.

    Returns:
        Lines without a full stop; none for a tree without weight.
    """
    # Imported here: it loads numpy.
    from ..tree.function_sums import top_functions
    from ..tree.tree_view import TreeIndex

    total_ns = int(tree.total_ns[0])
    top = top_functions(TreeIndex(tree), 0, rows)
    found = [
        (own_ns / total_ns, shorten(each.name, NAME_WIDTH), shorten(each.module, MODULE_WIDTH))
        for number, own_ns in zip(top.function.tolist(), top.self_ns.tolist(), strict=True)
        if own_ns
        for each in (tree.functions[number],)
    ]
    if not found:
        return []
    width = max(len(name) for _, name, _ in found)
    rows_of_text = [f"{share:>7.1%}  {name:<{width}}  {module}" for share, name, module in found]
    return [f"most {clock.value} time of their own:", *(row.rstrip() for row in rows_of_text)]


def nameless_lines(tree: CallTree, pid: int) -> list[str]:
    """Say how many frames have no name, where that matters, and in which modules most of them are.

    Args:
        tree: of the recording.
        pid: the process.
    """
    from ..tree.function_sums import nameless_frames, nameless_modules
    from ..tree.tree_view import TreeIndex

    index = TreeIndex(tree)
    share = nameless_frames(index, 0)
    if share < NAMELESS_SHARE:
        return []
    found = [shorten(module or GENERATED, MODULE_WIDTH) for module in nameless_modules(index)]
    modules = ", ".join(found[:NAMELESS_MODULES])
    return [
        f"{share:.0%} of all frames have no name, most of them in {modules}: "
        f"'flametap symbols {pid}' says what helps"
    ]
