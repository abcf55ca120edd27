"""Parse the arguments of requests: what is counted, which view of it, which function."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from flask import abort

from flametap.model import Clock, Split, ThreadInfo
from flametap.tree.frame_filter import FrameFilter, Language
from flametap.tree.selection import Selection, Span
from flametap.tree.spelling import find_threads, id_range, parse_path, split

from .encode import ViewQuery
from .view_query import FILE, REST, baseline_of, shape_of

MAX_WIDTH_PX = 20_000.0
NS_PER_MS = 1_000_000
MAX_RANGE_CHARACTERS = 32
MAX_THREADS = 1 << 20  # in one request
MAX_ROWS = 4096  # the agent stops at 2048 frames; inlined functions add rows

ThreadList = Callable[[], Sequence[ThreadInfo]]


def parse_view_query(args: dict[str, str], threads: ThreadList = lambda: ()) -> ViewQuery:
    """Parse the arguments of a view request. Clamp numbers to their range.

    Args:
        args: of the request.
        threads: returns the threads that there are, by whose names some may be chosen.

    Raises:
        BadRequest: an argument is invalid; the message names it.
    """

    def number(name: str, default: float, low: float, high: float) -> float:
        try:
            value = float(args.get(name, default))
        except ValueError:
            value = math.nan
        if math.isnan(value):
            abort(400, f"{name} must be a number")
        return min(max(value, low), high)

    table = args.get("table", "")
    if table not in ("", "self", "total"):
        abort(400, "table must be self or total")
    return ViewQuery(
        selection=parse_selection(args, threads),
        shape=shape_of(args),
        baseline=baseline_of(args, _parse_span(args, "compare", (REST, FILE))),
        revision=int(number("revision", 0, 0, 2**53)),
        zoom=parse_path(args.get("zoom", "")),
        width_px=number("width", ViewQuery.width_px, 1, MAX_WIDTH_PX),
        last_row=int(number("rows", ViewQuery.last_row, 1, MAX_ROWS)),
        search=args.get("q", ""),
        table=table,
        table_first=int(number("table_first", 0, 0, 2**31)),
        table_rows=int(number("table_rows", ViewQuery.table_rows, 1, MAX_ROWS)),
        run=_parse_run(args),
        have=int(number("have", 0, 0, 2**53)) if "have" in args else None,
    )


def _parse_run(args: dict[str, str]) -> tuple[int, int] | None:
    ends = parse_numbers(args, "run", "-")
    if len(ends) not in (0, 2):
        abort(400, "run must be two ids of functions, ID-ID")
    return (ends[0], ends[1]) if ends else None


def parse_selection(args: dict[str, str], threads: ThreadList = lambda: ()) -> Selection:
    """Parse what is counted.

    Args:
        args: of the request.
        threads: returns the threads that there are, by whose names some may be chosen.

    Raises:
        BadRequest: an argument is invalid; the message names it.
    """
    try:
        clock = Clock(args.get("clock", Clock.CPU.value))
    except ValueError:
        abort(400, f"clock must be one of {', '.join(each.value for each in Clock)}")
    chosen = _parse_threads(args.get("threads", ""), threads)
    try:
        language = Language(args.get("language", Language.ALL.value))
    except ValueError:
        abort(400, f"language must be one of {', '.join(each.value for each in Language)}")
    for name in ("plumbing", "gil"):
        if args.get(name, "0") not in ("0", "1"):
            abort(400, f"{name} must be 0 or 1")
    try:
        split = Split(args.get("by", ""))
    except ValueError:
        abort(400, f"by must be one of {', '.join(each.value for each in Split if each.value)}")
    frames = FrameFilter(language, args.get("plumbing") == "1", args.get("gil") == "1")
    span = _parse_span(args)
    return Selection(clock, frozenset(chosen) if chosen else None, frames, span, split)


def _parse_threads(text: str, threads: ThreadList) -> list[int]:
    parts = split(text, ",") if text else []
    ranges = [ids for part in parts if (ids := id_range(part)) is not None]
    is_good = all(id_range(part) or re.fullmatch(r".*@\d*", part) for part in parts)
    if not is_good or sum(map(len, ranges)) > MAX_THREADS:
        abort(400, "threads must be ids of threads (1-8,12), or name@tid")
    is_named = len(ranges) < len(parts)
    return find_threads(text, threads() if is_named else ())[0] if text else []


def _parse_span(
    args: dict[str, str], name: str = "range", others: Sequence[re.Pattern[str]] = ()
) -> Span | None:
    """Return a range of time; None if there is none, or the text is like one of ``others``."""
    text = args.get(name, "")
    if not text or any(each.fullmatch(text) for each in others):
        return None
    found = re.fullmatch(r"(?:last(\d+)|(\d+)-(\d+))", text, re.ASCII)
    if not found or len(text) > MAX_RANGE_CHARACTERS:
        abort(400, f"{name} must be START-END or lastN, in milliseconds")
    last, start, end = (int(number or 0) * NS_PER_MS for number in found.groups())
    if found[1] is not None:
        return Span(-max(last, NS_PER_MS))
    if start >= end:
        abort(400, f"{name} must end after its start")
    return Span(start, end)


def parse_function(args: dict[str, str], count: int) -> int:
    """Parse the id of the function of a request.

    Args:
        args: of the request.
        count: how many functions there are.

    Raises:
        BadRequest: not one number.
        NotFound: no function has this id.
    """
    numbers = parse_numbers(args, "function", ",")
    if len(numbers) != 1:
        abort(400, "function must be the id of a function")
    if not 0 <= numbers[0] < count:
        abort(404, "there is no such function")
    return numbers[0]


def parse_numbers(args: dict[str, str], name: str, separator: str) -> tuple[int, ...]:
    """Parse an argument that is a list of numbers; empty if it is missing.

    Raises:
        BadRequest: it is something else.
    """
    text = args.get(name, "")
    try:
        return tuple(int(part) for part in text.split(separator)) if text else ()
    except ValueError:
        abort(400, f"{name} must be numbers with {separator!r} between them")
