"""The heaviest functions of a recording as the table of ``flametap top``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..recording.figures import counted, duration, weight, weight_name
from .targets import shorten

if TYPE_CHECKING:
    from ..recording.recording import Recording
    from ..tree.calltree import CallTree
    from ..tree.selection import Selection
    from .output_options import OutputOptions

WIDTH = 120
NUMBERS_WIDTH = 39
MODULE_WIDTH = 30
MAX_SPLIT = 200  # functions whose lines are listed: the heaviest


def table_lines(
    recording: Recording,
    options: OutputOptions,
    rows: int,
    *,
    by: str = "own",
    by_line: bool = False,
    width: int = WIDTH,
) -> list[str]:
    """Format the table: what is recorded, a heading, and a row for each function.

    Args:
        recording: it may still grow.
        options: which part of it.
        rows: how many functions.
        by: "own" or "total".
        by_line: a row for each line.
        width: of a row, characters.
    """
    from ..analysis.views import views_of

    status, selection = recording.status(), options.selection(recording)
    tree = views_of(recording).tree(selection)
    total_ns = int(tree.total_ns[0])
    alive = sum(not each.exited for each in recording.profile.thread_infos())
    name = shorten(status.command, max(20, width - 60))
    what = f"{weight_name(status, options.clock)} {weight(status, total_ns)}"
    if not status.source:
        length, threads = duration(status.recorded_ns / 1e9), counted(alive, "thread")
        what = f"{name} ({status.pid}): {length}, {threads}, {what}"
    elif status.counted:
        what = weight(status, total_ns)
    lines = [
        what,
        "",
        "    own %   total %       own     total  " + ("line" if by_line else "function"),
    ]
    for text, module, own_ns, with_ns in _rows(
        recording, selection, tree, rows, by=by, by_line=by_line
    ):
        where = f"  {shorten(module, MODULE_WIDTH)}" if module else ""
        text = shorten(text, max(20, width - NUMBERS_WIDTH - len(where) - 2))
        shares = f"{own_ns / max(total_ns, 1):>9.2%} {with_ns / max(total_ns, 1):>9.2%}"
        weights = (weight(status, each).removesuffix(status.weights) for each in (own_ns, with_ns))
        lines.append(f"{shares} {' '.join(f'{each:>9}' for each in weights)}  {text}{where}")
    return lines


def _rows(
    recording: Recording, selection: Selection, tree: CallTree, rows: int, *, by: str, by_line: bool
) -> list[tuple[str, str, int, int]]:
    """Return name, module, own and total nanoseconds of the heaviest functions or lines."""
    from ..analysis.views import views_of
    from ..tree.function_sums import top_functions
    from ..tree.tree_view import TreeIndex

    most = MAX_SPLIT if by_line else rows
    found = top_functions(TreeIndex(tree), 0, most, by_self=by == "own")
    chosen = found.function.tolist()
    if not by_line:
        columns = (chosen, found.self_ns.tolist(), found.total_ns.tolist())
        return [
            (tree.functions[number].name, tree.functions[number].module, own_ns, total_ns)
            for number, own_ns, total_ns in zip(*columns, strict=True)
        ]
    sources = views_of(recording).sources(chosen, selection)
    lines = [
        (_place(function.name, line.file, line.line), function.module, line.self_ns, line.total_ns)
        for number, source in zip(chosen, sources, strict=True)
        for function in (tree.functions[number],)
        for line in source.lines
        if line.total_ns
    ]
    return sorted(lines, key=lambda row: (-(row[2] if by == "own" else row[3]), row[0]))[:rows]


def _place(name: str, file: str, line: int) -> str:
    """Return a function with its line, and the file of that with the folder that it is in."""
    return f"{name} ({'/'.join(file.split('/')[-2:])}:{line})" if line else name
