"""Parse the arguments of a request for a part of the list of threads."""

from __future__ import annotations

import re

from flask import abort

from .encode_threads import MAX_ROWS, ORDERS, ThreadQuery

MAX_DIGITS = 9


def parse_thread_query(args: dict[str, str]) -> ThreadQuery:
    """Parse the arguments of a threads request.

    Raises:
        BadRequest: an argument is invalid; the message names it.
    """
    order = args.get("sort", ThreadQuery.order)
    if order not in ORDERS:
        abort(400, f"sort must be one of {', '.join(ORDERS)}")
    return ThreadQuery(
        order,
        args.get("filter", ""),
        args.get("group", "0") == "1",
        _row(args, "offset", 0),
        min(_row(args, "limit", ThreadQuery.limit), MAX_ROWS),
        _ids(args),
    )


def _row(args: dict[str, str], name: str, default: int) -> int:
    text = args.get(name, str(default))
    if not re.fullmatch(r"\d+", text, re.ASCII) or len(text) > MAX_DIGITS:
        abort(400, f"{name} must be a number of rows")
    return int(text)


def _ids(args: dict[str, str]) -> tuple[int, ...]:
    text = args.get("ids", "")
    if text and not re.fullmatch(r"\d{1,10}(,\d{1,10})*", text, re.ASCII):
        abort(400, "ids must be ids of threads")
    return tuple(map(int, text.split(",")))[:MAX_ROWS] if text else ()
