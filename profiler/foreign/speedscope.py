"""Read speedscope's JSON: of speedscope, py-spy, rbspy, Pyroscope, and many others.

Each profile of the file is a thread. Profiles in another unit than the one that the file opens with
are left out, as weights in different units cannot be added up.

Source: speedscope's file-format-spec.ts.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ..model import Frame
from ..recording.figures import counted
from ..recording.profile.interval_chunk import MAX_SUM_NS
from ..recording.recording import Recording
from .builder import NS_OF, ROOT, Builder, Known

_OTHER = {"bytes": "bytes", "none": "samples"}


def matches(data: Any) -> bool:
    """Tell whether what a JSON file has in it is of this format."""
    return isinstance(data, dict) and isinstance(data.get("shared"), dict) and "profiles" in data


def read(data: dict[str, Any], builder: Builder) -> Recording:
    """Return the recording of a file. Raises InputError, or whatever impossible contents raise."""
    frames = {at: _frame(builder, each) for at, each in enumerate(data["shared"]["frames"])}
    profiles = data["profiles"]
    first = data.get("activeProfileIndex") or 0
    unit = profiles[first if 0 <= first < len(profiles) else 0]["unit"]
    if not isinstance(unit, str):
        raise TypeError("a unit is no text")
    wanted = [each for each in profiles if each["unit"] == unit]
    for number, profile in enumerate(wanted):
        name = str(profile["name"])
        add = _add_events if profile["type"] == "evented" else _add_samples
        add(builder, builder.thread(number, name), profile, frames, NS_OF.get(unit, 1))
    exporter = str(data.get("exporter") or "")
    known = Known(
        f"speedscope, by {exporter.partition('@')[0]}" if exporter else "speedscope",
        weights="time" if unit in NS_OF else _OTHER.get(unit, unit) or "samples",
        has_moments=unit in NS_OF,
        program=str(data.get("name") or ""),
    )
    if len(wanted) < len(profiles):
        left = counted(len(profiles) - len(wanted), "profile")
        known.notes.append(f"{left} in another unit than {unit} are left out")
    return builder.finish(known)


def _frame(builder: Builder, frame: dict[str, Any]) -> int:
    function = builder.function(frame["name"], file=frame.get("file") or "")
    line = frame.get("line") or 0
    return builder.frame(Frame(function, line if isinstance(line, int) and line > 0 else 0))


def _add_samples(
    builder: Builder, thread: int, profile: dict[str, Any], frames: dict[int, int], ns: int
) -> None:
    known: dict[tuple[int, ...], int] = {}
    nodes = []
    for each in map(tuple, profile["samples"]):
        node = known.get(each)
        if node is None:
            node = known[each] = builder.stack([frames[frame] for frame in each])
        nodes.append(node)
    weights = _in_ns(profile["weights"], ns)
    start = _in_ns([profile.get("startValue") or 0], ns)
    builder.add(thread, nodes, weights, t0=start + np.cumsum(weights) - weights)


def _add_events(
    builder: Builder, thread: int, profile: dict[str, Any], frames: dict[int, int], ns: int
) -> None:
    at = _in_ns([each["at"] for each in profile["events"]], ns)
    open_frames: list[int] = []
    above = [ROOT]
    nodes = []
    for event in profile["events"]:
        frame = event["frame"]
        if event["type"] == "O":
            open_frames.append(frame)
            above.append(builder.child(above[-1], frames[frame]))
        elif not open_frames or open_frames.pop() != frame:
            raise builder.damaged(f"the frame {frame} ends and is not open")
        else:
            above.pop()
        nodes.append(above[-1])
    if open_frames:
        raise builder.damaged("a frame has no end")
    # Between two events is a stack; outside of all frames, the thread has none.
    weights = np.diff(at)
    if any(second < first for first, second in pairwise(at.tolist())):
        raise builder.damaged("its times run back")
    has_stack = np.array(nodes[:-1]) != ROOT
    builder.add(thread, np.array(nodes[:-1])[has_stack], weights[has_stack], t0=at[:-1][has_stack])


def _in_ns(numbers: list[Any], ns: int) -> Any:
    """Return numbers of a unit as whole nanoseconds, or as they are counted."""
    if any(isinstance(each, float) for each in numbers):
        found = np.asarray(numbers, np.float64) * ns
        if not (np.abs(found) < MAX_SUM_NS).all():
            raise ValueError("a number is too large, or none")
        return np.rint(found).astype(np.int64)
    whole = np.asarray(numbers, np.int64)
    if len(whole) and int(np.abs(whole).max()) >= MAX_SUM_NS // ns:
        raise ValueError("a number is too large")
    return whole * ns
