"""Encode call trees as the JSON of a view. Columns take a third of the size of objects, and a tenth
of the time.

The answer to a view request (weights and positions in nanoseconds of the requested clock)::

    revision        int     of the tree; a request may ask for at least this revision
    total_ns        int     the whole tree: all requested threads
    zoom            {path: [function id], box: int, asked: int, run?: {x_ns total_ns count}}
                            the part of the requested path that exists, its box, requested length;
                            the requested run of its children, which fills the width
    deepest_row     int     deepest row with a box, sent or not
    last_row        int     deeper rows are not sent
    boxes           columns of equal length, rows ascending, left to right within a row;
                    the ancestors of the zoom come first (see tree_view.Boxes)
        row x_ns total_ns self_ns line parent hidden
        chain               of a tree with folded chains: the function where the box's chain ends,
                            an index into functions; -1 without one
        here_ns there_ns    of a comparison: the weights of both sides; -1 of runs
        change              … 0 noise, 1 likely more, 2 certainly more, -1 and -2 less
        line_file           index into line_files below: the file of the line if it is not the
                            function's file; else 0
        function            index into functions below, -1 for the root and runs of narrow boxes
    functions       columns: id (the tree's index of it, constant while the server runs) name
                    module file kind full_name matches (0 or 1, only with a search)
                    twin (what its spelling in a URL needs, mostly "": see names)
                    origin (of a profile with Python functions: whose code it is, see Origin)
    line_files      [str]   the first is ""
    line_tiers      [str]   the same: how the function of the box runs, mostly "" (model.Frame.tier)
    search          null, or {pattern, error: str | null, total_ns, count,
                    top: [{path: [function id], total_ns}]}   the outermost matches, heaviest first
    table           null, or {rows: {id name module file kind full_name twin origin self_ns
                    total_ns}, function_count, first: int}, a part of the table: rows from ``first``
                    on; of a comparison, all rows, and instead of the last two weights: self_here
                    self_there total_here total_there self_change total_change
    runs            columns: the box of each run, and the ids of the functions at its ends
        box first last
    names           only of an answer to a page that keeps functions: see known_functions.py
    origins         of a profile with Python functions: {total_ns, own_ns: {origin: nanoseconds}}
                    below the zoom (``runtime`` is a part of ``native``;
                    ``queued`` are waits for a CPU, ``gil`` for the GIL); else null
    nameless_ns     int     below the zoom: own time of functions without a name
    nameless_frames float   below the zoom: their share of all frames, each as often as sampled
    steps           [0 or 1] for each step of the shape: whether it means a function of the tree
    comparison      null, or {here_ns there_ns here_total_ns there_total_ns sample_ns is_share}:
                    what the weights of both sides are parts of, and their sums
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from flametap.model import Function
from flametap.tree.comparison import Sizes, Spreads, function_changes, grades, z_scores
from flametap.tree.function_sums import (
    nameless_frames,
    nameless_ns,
    origin_sums,
    top_functions,
)
from flametap.tree.search import SearchError, compile_search
from flametap.tree.selection import EVERYTHING, Selection
from flametap.tree.shape import PLAIN, Shape
from flametap.tree.spelling import FunctionNames
from flametap.tree.tree_search import find_matches, match_functions
from flametap.tree.tree_view import (
    Boxes,
    TreeIndex,
    ancestors,
    resolve_path,
    resolve_run,
    runs_of,
    visible_boxes,
)

from .comparing import Baseline

MAX_TOP_MATCHES = 200  # more than people step through with N
MAX_TABLE_ROWS = 500


@dataclass(frozen=True)
class ViewQuery:
    """One view that a page requests."""

    selection: Selection = EVERYTHING
    shape: Shape = PLAIN
    baseline: Baseline | None = None  # what it is compared with
    revision: int = 0  # at least
    zoom: tuple[int | str, ...] = ()  # function ids or spellings, root first
    width_px: float = 1000.0
    last_row: int = 400
    search: str = ""
    table: str = ""  # "self" or "total": the order of the table of functions; "" for no table
    table_first: int = 0  # the first row of the table to send …
    table_rows: int = 300  # … and how many
    # Only these children of ``zoom``: from one function to another, their ids. They fill the width.
    run: tuple[int, int] | None = None
    have: int | None = None  # of a page that keeps functions: the newest answer that it has


@dataclass(frozen=True)
class View:
    """What a view is made of.

    Attributes:
        index: the tree to show.
        listed: the tree whose functions are listed: the same, unless that is turned over.
        names: how functions are spelt.
        sizes: of a comparison, what its sides are compared by.
        spreads: how far weights vary by chance, if that is known (``function_changes``).
        steps: whether each step of the shape means a function of the tree.
    """

    index: TreeIndex
    listed: TreeIndex
    names: FunctionNames
    sizes: Sizes | None = None
    spreads: Spreads | None = None
    steps: tuple[bool, ...] = ()


def encode_view(view: View, query: ViewQuery, revision: int) -> dict[str, Any]:
    """Return the answer to a view request, for orjson (with numpy columns)."""
    index, names, tree = view.index, view.names, view.index.tree
    path = resolve_path(index, names.path(query.zoom))
    zoom = path[-1]
    run = resolve_run(index, zoom, query.run) if query.run and len(path) > len(query.zoom) else None
    boxes = visible_boxes(index, zoom, query.width_px, query.last_row, run=run)
    search, matching = _encode_search(index, zoom, query.search)
    listed_zoom = zoom if view.listed is index else 0
    return {
        "revision": revision,
        "total_ns": int(tree.total_ns[0]),
        "zoom": {
            "path": path_ids(index, zoom),
            "box": boxes.zoom_box,
            "asked": len(query.zoom),
            **({"run": _encode_run(index, run)} if run else {}),
        },
        "deepest_row": boxes.deepest_row,
        "last_row": query.last_row,
        **_encode_boxes(boxes, view, matching),
        "search": search,
        "table": _encode_table(view, listed_zoom, query, matching) if query.table else None,
        "origins": _encode_origins(view.listed, listed_zoom),
        "nameless_ns": nameless_ns(view.listed, listed_zoom),
        "nameless_frames": nameless_frames(view.listed, listed_zoom),
        "steps": view.steps,
        "comparison": encode_comparison(view),
    }


def _encode_origins(index: TreeIndex, below: int) -> dict[str, Any] | None:
    if not index.has_managed:
        return None
    total_ns = int(index.tree.total_ns[below])
    return {"total_ns": total_ns, "own_ns": origin_sums(index, below)}


def _encode_run(index: TreeIndex, run: range) -> dict[str, int]:
    """Return the place of the run that fills the width."""
    tree = index.tree
    above = ancestors(tree, int(tree.parent[run.start]))
    return {
        "x_ns": int(index.x_in_parent_ns[[*above, run.start]].sum()),
        "total_ns": int(tree.total_ns[run.start : run.stop].sum()),
        "count": len(run),
    }


def path_ids(index: TreeIndex, node: int) -> list[int]:
    """Return the functions from the root's child to a node."""
    path: list[int] = index.tree.function[ancestors(index.tree, node)[1:]].tolist()
    return path


def _encode_boxes(
    boxes: Boxes,
    view: View,
    matching: Sequence[bool] | None,
) -> dict[str, Any]:
    index, tree = view.index, view.index.tree
    local: dict[int, int] = {-1: -1}

    def indexes(functions: Sequence[int]) -> list[int]:
        return [local.setdefault(function, len(local) - 1) for function in functions]

    column = indexes(boxes.function.tolist())
    more: dict[str, Any] = {}
    if tree.chain_end is not None:
        ends = boxes.of_nodes(tree.chain_end, -1)
        ends[ends == boxes.function] = -1
        more["chain"] = indexes(ends.tolist())
    if view.sizes is not None:
        here, there = (boxes.of_nodes(side, -1) for side in index.side_totals)
        change = grades(z_scores(here, there, view.sizes))
        change[boxes.node < 0] = 0
        more.update(here_ns=here, there_ns=there, change=change)
    del local[-1]
    columns = function_columns(index, list(local), view.names)
    if matching is not None:
        columns["matches"] = [int(matching[function]) for function in local]
    files: dict[int, int] = {0: 0}
    line_file = [files.setdefault(file, len(files)) for file in boxes.line_file.tolist()]
    runs = dict(zip(("box", "first", "last"), runs_of(tree, boxes), strict=True))
    return {
        "runs": runs,
        "boxes": {
            "row": boxes.row,
            "x_ns": boxes.x_ns,
            "total_ns": boxes.total_ns,
            "self_ns": boxes.self_ns,
            "line": boxes.line,
            "line_file": line_file,
            "parent": boxes.parent,
            "hidden": boxes.hidden,
            "function": column,
            **more,
        },
        "functions": columns,
        "line_files": [tree.line_files[file] for file in files],
        "line_tiers": [tree.line_tiers[file] for file in files],
    }


def function_columns(index: TreeIndex, ids: list[int], names: FunctionNames) -> dict[str, Any]:
    """Return functions in columns.

    Args:
        index: of their tree.
        ids: of the functions.
        names: how they are spelt.
    """
    functions = [index.tree.functions[function] for function in ids]
    columns: dict[str, Any] = {
        "id": ids,
        "name": [function.name for function in functions],
        "module": [function.module for function in functions],
        "file": [function.file for function in functions],
        "kind": [function.kind.value for function in functions],
        "full_name": [function.full_name for function in functions],
        "twin": [names.twin(function) for function in ids],
    }
    if index.has_managed:
        columns["origin"] = [index.origin(function) for function in ids]
    return columns


def _encode_search(index: TreeIndex, zoom: int, text: str) -> tuple[dict[str, Any] | None, Any]:
    """Return the ``search`` of the answer, and for each function of the tree whether it matches."""
    if not text:
        return None, None
    answer: dict[str, Any] = {"pattern": text, "error": None, "total_ns": 0, "count": 0, "top": []}
    try:
        matches: Callable[[Function], bool] = compile_search(text)
        matching = match_functions(index.tree, matches)
    except SearchError as error:
        return {**answer, "error": str(error)}, None
    found = find_matches(index, matching, zoom)
    top = found.nodes[:MAX_TOP_MATCHES].tolist()
    answer["total_ns"] = found.total_ns
    answer["count"] = len(found.nodes)
    answer["top"] = [
        {"path": path_ids(index, node), "total_ns": int(index.tree.total_ns[node])} for node in top
    ]
    return answer, matching


def encode_comparison(view: View) -> dict[str, Any] | None:
    """Return what a comparison goes by; None without one."""
    if view.sizes is None:
        return None
    here, there = (int(side[0]) for side in view.listed.side_totals)
    return {**asdict(view.sizes), "here_total_ns": here, "there_total_ns": there}


def _encode_table(view: View, zoom: int, query: ViewQuery, matching: Any) -> dict[str, Any]:
    index, by_self = view.listed, query.table == "self"
    if view.sizes is not None:
        changes = function_changes(
            index,
            zoom,
            MAX_TABLE_ROWS,
            view.sizes,
            by_self=by_self,
            matching=matching,
            spreads=view.spreads,
        )
        rows = function_columns(index, changes.function.tolist(), view.names)
        rows.update(
            self_here=changes.self_here,
            self_there=changes.self_there,
            total_here=changes.total_here,
            total_there=changes.total_there,
            self_change=changes.self_grade,
            total_change=changes.total_grade,
        )
        return {"rows": rows, "function_count": changes.function_count}
    first, count = query.table_first, min(query.table_rows, MAX_TABLE_ROWS)
    top = top_functions(index, zoom, count, first=first, by_self=by_self, matching=matching)
    rows = function_columns(index, top.function.tolist(), view.names)
    rows["self_ns"] = top.self_ns
    rows["total_ns"] = top.total_ns
    return {"rows": rows, "function_count": top.function_count, "first": first}
