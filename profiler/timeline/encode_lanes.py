"""Encode the lanes of a timeline, and heat maps, as JSON.

The answer to a lanes request (times in nanoseconds since the start of the recording)::

    revision        int
    duration_ns     int     of the recording
    even_ns         int     up to here only sums are known, and spread evenly
    activities      [str]   in the order of ``sums_ns``
    bins            {start_ns, step_ns, level, count}
    all             lane    all threads together
    lanes           [lane and {thread_id, tid, name, exited, thread_ids, processes: int}], the
                    busiest first; ``thread_ids`` ([int]) of a process or program, else empty
    rest            lane and {threads: int}: the other threads (processes, programs); or null
    gil             lane: the time in which a thread held the GIL, as ``cpu``; or null
    n_busy          int     threads that are not idle
    n_threads       int     all
    overview_bins, overview   bins, and a lane with ``cpu``, and beside it ``queued``, at most
                    ``scale_ns``; or null

A lane is ``{planes: {activity: str}, sums_ns: [int], scale_ns}``. A plane has a character for each
bin: ``#`` is 0, and the character 50 places further means ``scale_ns``. Activities that do not
occur have none. What is missing to ``scale_ns`` was not recorded.

The answer to a heat map request::

    revision, start_ns, step_ns
    columns rows    int
    planes          {activity: str}: a character for each cell, column by column, lowest row first
    most            float   what the highest character means: CPUs busy (by their square root), or
                            waits (by their logarithm)
"""

from __future__ import annotations

from typing import Any

from ..model import Activity
from .heat import Heat
from .lanes import FULL, Bins, Lane, Lanes

FIRST = ord("#")  # up to "U": neither quotation marks nor backslashes
_CHARACTERS = bytes(min(FIRST + number, FIRST + FULL) for number in range(256))


def encode_lanes(lanes: Lanes, revision: int) -> dict[str, Any]:
    """Encode lanes that are at least as new as a revision."""
    return {
        "revision": revision,
        "duration_ns": lanes.duration_ns,
        "even_ns": lanes.even_ns,
        "activities": [_name(activity) for activity in Activity],
        "bins": _bins(lanes.bins),
        "all": _lane(lanes.all),
        "lanes": [_thread_lane(lane) for lane in lanes.lanes],
        "rest": lanes.rest and {**_lane(lanes.rest), "threads": lanes.rest.n_threads},
        "gil": lanes.gil and _lane(lanes.gil),
        "n_busy": lanes.n_busy,
        "n_threads": lanes.all.n_threads,
        "overview_bins": lanes.overview_bins and _bins(lanes.overview_bins),
        "overview": lanes.overview and _lane(lanes.overview),
    }


def encode_heat(heat: Heat, revision: int) -> dict[str, Any]:
    """Encode a heat map that is at least as new as a revision."""
    return {
        "revision": revision,
        "start_ns": heat.start_ns,
        "step_ns": heat.step_ns,
        "columns": heat.n_columns,
        "rows": heat.n_rows,
        "planes": _planes(heat.planes),
        "most": heat.most,
    }


def _planes(planes: dict[Activity, bytes]) -> dict[str, str]:
    return {
        _name(activity): plane.translate(_CHARACTERS).decode("ascii")
        for activity, plane in planes.items()
    }


def _name(activity: Activity) -> str:
    return activity.name.lower()


def _bins(bins: Bins) -> dict[str, int]:
    return {
        "start_ns": bins.start_ns,
        "step_ns": bins.step_ns,
        "level": bins.level,
        "count": bins.count,
    }


def _lane(lane: Lane) -> dict[str, Any]:
    return {"planes": _planes(lane.planes), "sums_ns": lane.sums_ns, "scale_ns": lane.scale_ns}


def _thread_lane(lane: Lane) -> dict[str, Any]:
    thread = lane.thread
    assert thread is not None
    about = {
        "thread_id": thread.thread_id,
        "tid": thread.tid,
        "name": thread.name,
        "exited": thread.exited,
        "thread_ids": lane.thread_ids,
        "processes": lane.n_processes,
    }
    return {**about, **_lane(lane)}
