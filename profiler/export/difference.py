"""Write the difference of two recordings: every stack with both weights, a red and blue graph, or
the report page of the later one, which compares it with the other.

The folded stacks are those of ``difffolded.pl``: ``root;…;leaf BEFORE AFTER``, in microseconds, or
in what is counted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import BinaryIO

from ..analysis.dispersion import Dispersion, Side, translated
from ..analysis.views import views_of
from ..model import Clock
from ..recording.recording import Recording
from ..recording.summary import title
from ..tree.calltree import CallTree, children
from ..tree.comparison import join, sample_ns_of
from ..tree.labels import label
from ..tree.name_order import NameOrder
from ..tree.tree_view import TreeIndex
from . import html
from .folded import ALL, clean
from .palette import oklch
from .request import ExportRequest
from .svg import weight_text, write_graph

_NS_PER_US = 1000
_GROWN_HUE, _SHRUNK_HUE = 25, 250
_PALE, _STRONG = (0.94, 0.01), (0.74, 0.14)  # lightness and chroma


def write_folded(tree: CallTree, recording: Recording, file: BinaryIO) -> None:
    """Write every stack with its weights before and after.

    Args:
        tree: joined; its first side is the one after.
        recording: that one.
        file: open for writing.
    """
    divisor = 1 if ExportRequest(recording).counted else _NS_PER_US
    first, count = (column.tolist() for column in children(tree))
    after, before = (side.tolist() for side in tree.sides)
    function = tree.function.tolist()
    names: dict[int, str] = {}
    waiting = [(0, "")]
    while waiting:
        node, above = waiting.pop()
        path = above
        if node:
            number = function[node]
            if number not in names:
                names[number] = clean(label(tree.functions[number]))
            path = f"{above};{names[number]}" if above else names[number]
        weights = [(side[node] + divisor // 2) // divisor for side in (before, after)]
        if any(weights):
            file.write(f"{path or ALL} {weights[0]} {weights[1]}\n".encode("utf-8", "replace"))
        children_of = range(first[node], first[node] + count[node])
        waiting.extend((child, path) for child in reversed(children_of))


def write_svg(tree: CallTree, after: Recording, file: BinaryIO) -> None:
    """Write a flame graph of the later recording: red where a share grew, blue where it shrank.

    Args:
        tree: joined; its first side is that recording.
        after: the recording.
        file: open for writing.
    """
    request, index = ExportRequest(after), TreeIndex(tree)
    here, there = (
        side / max(1, int(side[0])) for side in (each.astype(float) for each in index.side_totals)
    )

    def color(node: int, _: int) -> str:
        a, b = float(here[node]), float(there[node])
        change = (a - b) / max(a, b, 1e-12)
        part = min(1.0, 2 * abs(change))
        lightness, chroma = (
            pale + part * (strong - pale) for pale, strong in zip(_PALE, _STRONG, strict=True)
        )
        return oklch(lightness, chroma, _GROWN_HUE if change > 0 else _SHRUNK_HUE)

    def amount(node: int, weight: int) -> str:
        points = 100 * (float(here[node]) - float(there[node]))
        return f"{weight_text(request, weight)}, {points:+.2f} points"

    write_graph(index, f"{title(after)}: what changed", color, amount, file)


def write_html(before: Side, after: Side, name: str, file: BinaryIO) -> None:
    """Write the report page of the later recording, compared with the earlier one.

    Args:
        before: the earlier one.
        after: the later one.
        name: of the earlier one.
        file: open for writing.
    """
    here = {clock: _tree(after, clock) for clock in Clock}
    there = {clock: translated(_tree(before, clock), after.recording) for clock in Clock}
    order = NameOrder().of(after.recording.functions)
    states = [side.recording.status() for side in (after, before)]
    compared = html.Compared(
        name,
        {clock: join(here[clock], there[clock], order) for clock in Clock},
        {clock: sample_ns_of(clock, *states) for clock in Clock},
        (after.length_ns, before.length_ns),
        {clock: _dispersion(before, after, clock).spreads for clock in Clock},
    )
    request = ExportRequest(after.recording, after.selection)
    html.write_trees(request, here, file, compared)


def _dispersion(before: Side, after: Side, clock: Clock) -> Dispersion:
    return Dispersion(*(_by(side, clock) for side in (before, after)))


def _tree(side: Side, clock: Clock) -> CallTree:
    return views_of(side.recording).tree(_by(side, clock).selection)


def _by(side: Side, clock: Clock) -> Side:
    return replace(side, selection=replace(side.selection, clock=clock))
