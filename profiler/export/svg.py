"""Write a flame graph as SVG: a picture that stands alone, with a title on each box.

The boxes are those that the page would show at this width. Nothing in it runs: no script, no link.

Source: SVG 1.1, XML 1.0 (which characters are allowed).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import BinaryIO
from xml.sax.saxutils import escape

from ..tree.tree_view import TreeIndex, visible_boxes
from .palette import TEXT, box_color, root_color, run_color
from .request import ExportRequest

WIDTH_PX = 1400
ROW_PX = 18
HEAD_PX = 34
FOOT_PX = 8
MAX_ROWS = 4096
_LEAST_LABEL_PX = 26.0
_PADDING_PX = 4
# Of 11 px sans-serif: a little more than the average letter, so that labels stay in their boxes.
_LETTER_PX = 6.4
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write(request: ExportRequest, file: BinaryIO) -> None:
    """Write a profile as SVG."""
    index = TreeIndex(request.tree())
    functions, program = index.tree.functions, request.program

    def color(_: int, function: int) -> str:
        origin = index.origin(function) if index.has_managed else ""
        return box_color(functions[function], origin, program)

    def amount(_: int, weight: int) -> str:
        return weight_text(request, weight)

    write_graph(index, f"{request.title}: {request.what}", color, amount, file)


def write_graph(
    index: TreeIndex,
    title: str,
    color_of: Callable[[int, int], str],
    amount_of: Callable[[int, int], str],
    file: BinaryIO,
) -> None:
    """Write a flame graph.

    Args:
        index: its tree.
        title: above it.
        color_of: returns the colour of a box by its node and function.
        amount_of: returns the weight of a box in words, by its node and weight.
        file: open for writing.
    """
    for line in _lines(index, title, color_of, amount_of):
        file.write(f"{line}\n".encode())


def _lines(
    index: TreeIndex,
    title: str,
    color_of: Callable[[int, int], str],
    amount_of: Callable[[int, int], str],
) -> Iterator[str]:
    tree = index.tree
    boxes = visible_boxes(index, 0, WIDTH_PX, MAX_ROWS)
    total = max(1, int(tree.total_ns[0]))
    bottom = HEAD_PX + (boxes.deepest_row + 1) * ROW_PX
    height = bottom + FOOT_PX
    title = _text(title)
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH_PX}" height="{height}"'
        f' viewBox="0 0 {WIDTH_PX} {height}" font-family="system-ui, sans-serif" font-size="11">'
    )
    yield f"<title>{title}</title>"
    yield '<rect width="100%" height="100%" fill="#ffffff"/>'
    yield f'<text x="{_PADDING_PX}" y="21" font-size="14" fill="{TEXT}">{title}</text>'
    columns = (
        *(boxes.node, boxes.function, boxes.row),
        *(boxes.x_ns, boxes.total_ns, boxes.hidden),
    )
    for node, function, row, x_ns, ns, hidden in zip(
        *(each.tolist() for each in columns), strict=True
    ):
        left, width = x_ns * WIDTH_PX / total, ns * WIDTH_PX / total
        if function >= 0:
            name = tree.functions[function].name
            end = function if tree.chain_end is None else int(tree.chain_end[node])
            if end != function:
                name = f"{name} … {tree.functions[end].name}"
            color = color_of(node, function)
        else:
            name = f"{hidden} narrow functions" if hidden else "all"
            color = run_color() if hidden else root_color()
        top = bottom - (row + 1) * ROW_PX
        shown = width - 1 if width > 2.5 else width
        label = _label(name, width)
        yield (
            f"<g><title>{_text(f'{name}: {amount_of(node, ns)}, {ns / total:.2%}')}</title>"
            f'<rect x="{left:.2f}" y="{top}" width="{shown:.2f}" height="{ROW_PX - 1}"'
            f' fill="{color}"/>'
            + (
                f'<text x="{left + _PADDING_PX:.2f}" y="{top + 12.5}" fill="{TEXT}">'
                f"{_text(label)}</text>"
                if label
                else ""
            )
            + "</g>"
        )
    yield "</svg>"


def weight_text(request: ExportRequest, weight: int) -> str:
    """Format a weight."""
    return f"{weight} {request.counted}" if request.counted else f"{weight / 1e9:.6g} s"


def _label(name: str, width_px: float) -> str:
    if width_px < _LEAST_LABEL_PX:
        return ""
    fits = int((width_px - 2 * _PADDING_PX) / _LETTER_PX)
    if len(name) <= fits:
        return name
    return f"{name[: fits - 1]}…" if fits > 2 else ""


def _text(text: str) -> str:
    return escape(_NOT_XML.sub("\ufffd", text))
