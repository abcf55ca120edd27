"""How much stack a function needs with all that it may call, by gcc's call graph.

Source: gcc(1), ``-fcallgraph-info=su``: a node for each function with the bytes of its frame, its
return address included, and an edge for each call. Calls through pointers lead to a node without a
frame.
"""

from __future__ import annotations

import re

__all__ = ["deepest_bytes"]

_NODE = re.compile(r'node: \{ title: "([^"]+)" label: "[^"]*?(\d+) bytes')
_EDGE = re.compile(r'edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"')


def deepest_bytes(graph: str, function: str) -> int:
    """Return the bytes of the frames on the deepest way down from a function.

    Arguments that do not fit into registers and a leaf's red zone are not counted.

    Args:
        graph: the text of the ``.ci`` file.
        function: its name in C; there is one of that name.

    Raises:
        ValueError: the function is not there, or one of those that it calls may call itself.
    """
    frames = {name: int(size) for name, size in _NODE.findall(graph)}
    calls: dict[str, set[str]] = {}
    for caller, called in _EDGE.findall(graph):
        calls.setdefault(caller, set()).add(called)
    known: dict[str, int] = {}

    def bytes_of(name: str, callers: tuple[str, ...]) -> int:
        if name in callers:
            raise ValueError(f"{name} may call itself")
        if name not in known:
            below = (bytes_of(each, (*callers, name)) for each in calls.get(name, ()))
            known[name] = frames.get(name, 0) + max(below, default=0)
        return known[name]

    found = [name for name in frames if name.rpartition(":")[2] == function]
    if len(found) != 1:
        raise ValueError(f"{len(found)} functions are called {function}")
    return bytes_of(found[0], ())
