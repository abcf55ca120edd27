"""Parse what requests say about threads: ids with ranges, and the part of the list to send."""

from __future__ import annotations

import re

from flask import abort

from .encode_threads import MAX_ROWS, ORDERS, ThreadQuery

MAX_THREADS = 1 << 20  # in one request
MAX_DIGITS = 9
HINT = "must be ids of threads, such as 1-8,12"


def parse_thread_ids(args: dict[str, str], name: str = "threads") -> set[int]:
    """Return the ids in an argument, such as ``1-8,12``.

    Raises:
        BadRequest: the argument is invalid; the message names it.
    """
    ids: set[int] = set()
    count = 0
    for part in filter(None, args.get(name, "").split(",")):
        found = re.fullmatch(r"(\d{1,10})(?:-(\d{1,10}))?", part, re.ASCII)
        if not found:
            abort(400, f"{name} {HINT}")
        first, last = int(found[1]), int(found[2] or found[1])
        count += last - first + 1
        if not first <= last < 2**32 or count > MAX_THREADS:
            abort(400, f"{name} {HINT}")
        ids.update(range(first, last + 1))
    return ids


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
        tuple(sorted(parse_thread_ids(args, "ids"))[:MAX_ROWS]),
    )


def _row(args: dict[str, str], name: str, default: int) -> int:
    text = args.get(name, str(default))
    if not re.fullmatch(r"\d+", text, re.ASCII) or len(text) > MAX_DIGITS:
        abort(400, f"{name} must be a number of rows")
    return int(text)
