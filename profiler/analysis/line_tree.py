"""Split the functions of a call tree by their lines. Pure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .calltree import CallTree


def by_line(tree: CallTree) -> tuple[CallTree, list[str]]:
    """Return a tree with a function for each line that nodes are at, and names of these.

    A node has one line: that of its heaviest address.
    """
    places: dict[tuple[int, int, int], int] = {}
    columns = (tree.function.tolist(), tree.line_file.tolist(), tree.line.tolist())
    number = [
        places.setdefault(place, len(places)) if place[0] >= 0 else -1
        for place in zip(*columns, strict=True)
    ]
    functions = [tree.functions[function] for function, _, _ in places]
    names = [
        f"{tree.functions[function].name} "
        f"({_short(tree.line_files[file] or tree.functions[function].file)}:{line})"
        if line
        else tree.functions[function].name
        for function, file, line in places
    ]
    return replace(tree, function=np.array(number, np.int32), functions=functions), names


def _short(path: str) -> str:
    """Return a file with the folder that it is in."""
    return "/".join(path.split("/")[-2:]) or "?"
