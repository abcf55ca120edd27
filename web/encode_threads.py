"""Choose and encode the threads that the page's list shows: one page of a list that may be long.

The answer to a threads request (weights in nanoseconds)::

    count           int     of all threads
    matching        int     of those whose name matches
    error           null, or why the filter cannot be used
    rows            one object per thread, in the order asked for, from ``offset`` on:
                    model.ThreadInfo; or one per group of threads: {name, thread_ids: "1-8,12" (as
                    ``threads`` of a selection), count, weights and GIL times as of a thread,
                    exited: all have, waits_in, is_mixed: they wait in different calls}
    row_count       int     of rows in all
    most_ns         int     the largest weight, for the bars: {cpu_ns, wall_ns, off_cpu_ns}
    gil             {held_ns, awaited_ns, waiting: int}   of all threads
    matching_ids    "1-8,12"   of all that match, as ``threads`` of a selection
    known           [model.ThreadInfo]   of the ids asked for with ``ids``
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from flametap.model import ThreadInfo
from flametap.tree.search import SearchError, compile_text

SUMS = ("cpu_ns", "wall_ns", "off_cpu_ns", "gil_held_ns", "gil_awaited_ns")
# Orders of the list → what is compared, and whether the largest come first.
ORDERS = {
    "cpu": ("cpu_ns", True),
    "wall": ("wall_ns", True),
    "off-cpu": ("off_cpu_ns", True),
    "held": ("gil_held_ns", True),
    "awaited": ("gil_awaited_ns", True),
    "name": ("name", False),
    "tid": ("tid", False),
    "waits": ("waits_in", False),
}
MAX_ROWS = 500  # in one answer


@dataclass(frozen=True)
class ThreadQuery:
    """One part of the list of threads that a page requests."""

    order: str = "cpu"  # a key of ORDERS
    filter: str = ""
    is_grouped: bool = False
    offset: int = 0
    limit: int = 60
    ids: tuple[int, ...] = ()  # threads to name, in the list or not


def format_ids(ids: Iterable[int]) -> str:
    """Return ids as text: neighbours as a range, ``1-8,12``."""
    parts: list[list[int]] = []
    for each in sorted(ids):
        if parts and each == parts[-1][1] + 1:
            parts[-1][1] = each
        else:
            parts.append([each, each])
    return ",".join(str(a) if a == b else f"{a}{',' if b == a + 1 else '-'}{b}" for a, b in parts)


def encode_threads(threads: Sequence[ThreadInfo], query: ThreadQuery) -> dict[str, Any]:
    """Return the answer to a threads request, for orjson."""
    error, matching = None, threads
    if query.filter:
        try:
            matches = compile_text(query.filter)
            matching = [each for each in threads if matches(each.name) or matches(str(each.tid))]
        except SearchError as problem:
            error, matching = str(problem), []
    rows: list[Any] = _groups(matching) if query.is_grouped else list(matching)
    get: Callable[[Any, str], Any] = dict.__getitem__ if query.is_grouped else getattr
    key, is_descending = ORDERS[query.order]
    key = "name" if query.is_grouped and key == "tid" else key
    if key in SUMS:
        rows.sort(key=lambda row: get(row, key), reverse=is_descending)
    else:
        rows.sort(key=lambda row: _sortable(get(row, key)))
    wanted = set(query.ids[:MAX_ROWS])
    return {
        "count": len(threads),
        "matching": len(matching),
        "error": error,
        "rows": rows[query.offset : query.offset + min(query.limit, MAX_ROWS)],
        "row_count": len(rows),
        "most_ns": {name: max((get(row, name) for row in rows), default=0) for name in SUMS[:3]},
        "gil": {
            "held_ns": sum(each.gil_held_ns for each in threads),
            "awaited_ns": sum(each.gil_awaited_ns for each in threads),
            "waiting": sum(each.gil_awaited_ns > 0 for each in threads),
        },
        "matching_ids": format_ids(each.thread_id for each in matching) if query.filter else "",
        "known": [each for each in threads if each.thread_id in wanted],
    }


@functools.lru_cache(maxsize=1 << 15)
def _sortable(value: Any) -> Any:
    """Return what a value is sorted by: texts as people expect, worker-9 before worker-10."""
    if not isinstance(value, str):
        return value
    parts = re.split(r"(\d{1,18})", value.casefold(), flags=re.ASCII)
    return [(part, 0) if at % 2 == 0 else ("", int(part)) for at, part in enumerate(parts)]


def _groups(threads: Iterable[ThreadInfo]) -> list[dict[str, Any]]:
    """Return one row for all threads whose names differ only in numbers."""
    members: dict[str, list[ThreadInfo]] = {}
    for each in threads:
        members.setdefault(re.sub(r"\d+", "#", each.name, flags=re.ASCII), []).append(each)
    rows = []
    for pattern, group in members.items():
        waits = Counter(each.waits_in for each in group if not each.exited)
        row = {
            "name": pattern if len({each.name for each in group}) > 1 else group[0].name,
            "thread_ids": format_ids(each.thread_id for each in group),
            "count": len(group),
            "exited": all(each.exited for each in group),
            "waits_in": waits.most_common(1)[0][0] if len(waits) == 1 else "",
            "is_mixed": len(waits) > 1,
        }
        rows.append(row | {name: sum(getattr(each, name) for each in group) for name in SUMS})
    return rows
