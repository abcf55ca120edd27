"""Parse the arguments of requests for lanes and heat maps."""

from __future__ import annotations

import re

from flask import abort

from flametap.model import Split
from flametap.timeline.heat import MAX_COLUMNS, HeatQuery
from flametap.timeline.lanes import MAX_BINS, MAX_LANES, LaneQuery

from .arguments import NS_PER_MS

MAX_DIGITS = 12
MAX_IDS = 64


def parse_lane_query(args: dict[str, str], thread_ids: frozenset[int] | None) -> LaneQuery:
    """Parse the arguments of a lanes request. Clamp numbers to their range.

    Args:
        args: of the request.
        thread_ids: of its selection.

    Raises:
        BadRequest: an argument is invalid; the message names it.
    """
    return LaneQuery(
        start_ns=(_number(args, "from") or 0) * NS_PER_MS,
        end_ns=None if (end := _number(args, "to")) is None else end * NS_PER_MS,
        n_bins=_clamped(args, "bins", LaneQuery.n_bins, 1, MAX_BINS),
        level=_number(args, "level", 32),
        thread_ids=thread_ids,
        n_lanes=_clamped(args, "lanes", LaneQuery.n_lanes, 0, MAX_LANES),
        skip=_number(args, "skip") or 0,
        also=_ids(args, "also"),
        only=_ids(args, "only"),
        with_idle=args.get("idle") == "1",
        overview_bins=_clamped(args, "overview", 0, 0, MAX_BINS),
        split=_split(args),
    )


def parse_heat_query(args: dict[str, str], thread_ids: frozenset[int] | None) -> HeatQuery:
    """Parse the arguments of a heat map request; as ``parse_lane_query``."""
    kind = args.get("kind", HeatQuery.kind)
    if kind not in ("cpu", "waits"):
        abort(400, "kind must be cpu or waits")
    return HeatQuery(
        kind=kind,
        start_ns=(_number(args, "from") or 0) * NS_PER_MS,
        end_ns=None if (end := _number(args, "to")) is None else end * NS_PER_MS,
        n_columns=_clamped(args, "columns", HeatQuery.n_columns, 1, MAX_COLUMNS),
        thread_ids=thread_ids,
    )


def _split(args: dict[str, str]) -> Split:
    try:
        return Split(args.get("split", Split.THREAD.value))
    except ValueError:
        abort(400, f"split must be one of {', '.join(each.value for each in Split if each.value)}")


def _number(args: dict[str, str], name: str, most: int = 1 << 40) -> int | None:
    text = args.get(name, "")
    if not text:
        return None
    if not re.fullmatch(r"\d+", text, re.ASCII) or len(text) > MAX_DIGITS:
        abort(400, f"{name} must be a whole number")
    return min(int(text), most)


def _clamped(args: dict[str, str], name: str, default: int, low: int, high: int) -> int:
    number = _number(args, name)
    return default if number is None else min(max(number, low), high)


def _ids(args: dict[str, str], name: str) -> tuple[int, ...]:
    text = args.get(name, "")
    if not text:
        return ()
    parts = text.split(",")
    is_id = all(re.fullmatch(r"\d{1,10}", part, re.ASCII) for part in parts)
    if not is_id or len(parts) > MAX_IDS:
        abort(400, f"{name} must be at most {MAX_IDS} ids of threads")
    return tuple(int(part) for part in parts)
