"""Parse what requests say about the shape of a tree, and what it is compared with."""

from __future__ import annotations

import re
from typing import Any

from flask import abort

from flametap.tree.search import SearchError, compile_search
from flametap.tree.selection import Span
from flametap.tree.shape import Shape
from flametap.tree.shaper import ShapeError, parse_shape
from flametap.tree.spelling import parse_path

from .comparing import Baseline
from .encode_tree import MAX_NODES, MAX_ROWS, PageQuery

FILE = re.compile(r"file([1-9]\d{0,8})?", re.ASCII)  # in ``compare``: another recording
SCALES = ("share", "time")
WIDTHS = ("here", "both")
REST = re.compile("rest")


def shape_of(args: dict[str, str]) -> Shape:
    """Return the shape that a request asks for.

    Raises:
        BadRequest: a step is invalid; the message names it.
    """
    try:
        shape = parse_shape(args.get("shape", ""))
        for step in shape.steps:
            if step.target.startswith("?"):
                compile_search(step.target[1:])
    except (ShapeError, SearchError) as error:
        abort(400, str(error))
    return shape


def baseline_of(args: dict[str, str], span: Span | None) -> Baseline | None:
    """Return what a request compares with; None for nothing.

    Args:
        args: of the request.
        span: its range ``compare``, parsed; None if that is not a range.

    Raises:
        BadRequest: an argument is invalid; the message names it.
    """
    compare = args.get("compare")
    if not compare:
        return None
    scale, width = args.get("scale", SCALES[0]), args.get("width_of", WIDTHS[0])
    if scale not in SCALES:
        abort(400, f"scale must be one of {', '.join(SCALES)}")
    if width not in WIDTHS:
        abort(400, f"width_of must be one of {', '.join(WIDTHS)}")
    found = FILE.fullmatch(compare)
    file = int(found[1] or 0) if found else None
    return Baseline(span, scale == "share", width == "both", file)


def parse_pages(body: dict[str, Any]) -> tuple[list[PageQuery], PageQuery | None]:
    """Parse the body of a request for rows of the tree table.

    Returns:
        The pages, and the node whose heaviest path is wanted, too; None for none.

    Raises:
        BadRequest: the body is not as it should be; the message says how it should be.
    """
    nodes = body.get("nodes")
    if not isinstance(nodes, list) or len(nodes) > MAX_NODES:
        abort(400, f'the body must be {{"nodes": [at most {MAX_NODES} pages]}}')
    heaviest = body.get("heaviest")
    return [_page(each) for each in nodes], None if heaviest is None else _page(heaviest)


def _page(each: Any) -> PageQuery:
    if not isinstance(each, dict) or not isinstance(each.get("path"), str):
        abort(400, 'a page must be {"path": "1.2", "offset": 0, "limit": 100}')
    numbers = [each.get("offset", 0), each.get("limit", MAX_ROWS)]
    if not all(isinstance(number, int) and 0 <= number < 2**31 for number in numbers):
        abort(400, "offset and limit must be numbers")
    return PageQuery(parse_path(each["path"]), *numbers)
