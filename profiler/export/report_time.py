"""Collect what an HTML report shows over time: the lanes of the timeline, and the heat maps.

They are those of the page, in its finest resolution for the whole recording. A report of a range
has them once more for that range. ``web/static/report/time.js`` answers from them.
"""

from __future__ import annotations

from typing import Any

from ..analysis.views import views_of
from ..timeline.encode_lanes import encode_heat, encode_lanes
from ..timeline.heat import MAX_COLUMNS, HeatQuery
from ..timeline.lanes import MAX_BINS, MAX_LANES, LaneQuery
from .request import ExportRequest

REVISION = 1  # of everything in a report
OVERVIEW_BINS = 720


def times(request: ExportRequest) -> list[dict[str, Any]]:
    """Return lanes and heat maps of the whole recording, and then of the range, if there is one."""
    start_ns = request.profile.start_ns
    duration_ns = request.profile.duration_ns
    spans = [(0, duration_ns)]
    t0_ns, t1_ns = request.between_ns
    if t0_ns is not None and t1_ns is not None:
        begin_ns = min(max(0, t0_ns - start_ns), duration_ns)
        spans.append((begin_ns, max(begin_ns, min(t1_ns - start_ns, duration_ns))))
    return [_time(request, *span) for span in spans]


def _time(request: ExportRequest, start_ns: int, end_ns: int) -> dict[str, Any]:
    thread_ids = request.selection.thread_ids
    lanes = LaneQuery(
        start_ns,
        end_ns,
        n_bins=MAX_BINS,
        thread_ids=thread_ids,
        n_lanes=MAX_LANES,
        with_idle=True,
        overview_bins=OVERVIEW_BINS,
    )
    heats = {
        kind: HeatQuery(kind, start_ns, end_ns, MAX_COLUMNS, thread_ids)
        for kind in ("cpu", "waits")
    }
    views = views_of(request.recording)
    found = views.lanes(lanes)
    maps = {kind: views.heat(query) for kind, query in heats.items()}
    return {
        "start_ns": start_ns,
        "end_ns": end_ns,
        "lanes": encode_lanes(found, REVISION),
        "heat": {kind: encode_heat(heat, REVISION) for kind, heat in maps.items()},
    }
