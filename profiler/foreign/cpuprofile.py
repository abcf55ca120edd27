"""Read V8's CPU profiles: of ``node --cpu-prof``, Deno, and the developer tools of Chromium.

A sample lasts until the next one, the last one as long as they do on average. So the developer
tools have it; they sort samples whose times run back. Where the profile ends with its last sample,
that has no length, as in speedscope. In files of our own it lasts until the end.

Unlike in DevTools, what V8 itself does, such as "(program)" and "(garbage collector)", stays where
the file has it, and is no part of what ran before. "(root)" is left out.

Profiles without samples have how often each function was met.

Source: js_protocol.pdl of the Chrome DevTools Protocol, CPUProfileDataModel.ts of DevTools.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..model import Frame, FrameKind
from ..recording.recording import Recording
from .builder import Builder, Known
from .columns import NONE, Floats, Int64s, distinct, floats, line_of, whole
from .prefix_stacks import PrefixStacks

_NS_PER_US = 1_000.0
_US_PER_S = 1e6
_SAME_US = 0.5  # times are whole microseconds
_ROOT = "(root)"
_IS_OWN = "flametap"  # a key
_FILE = "file://"
_WASM = "wasm://"


def matches(data: Any) -> bool:
    """Tell whether what a JSON file has in it is of this format."""
    if not isinstance(data, dict):
        return False
    is_old = isinstance(data.get("head"), dict) and "hitCount" in data["head"]
    nodes = data.get("nodes")
    return is_old or (
        isinstance(nodes, list)
        and bool(nodes)
        and isinstance(nodes[0], dict)
        and ("callFrame" in nodes[0] or "functionName" in nodes[0])
    )


def read(data: dict[str, Any], builder: Builder) -> Recording:
    """Return the recording of a file. Raises InputError, or whatever impossible contents raise."""
    thread = builder.thread(0, str(data.get("title") or ""))
    is_timed = add_profile(builder, thread, data)
    kind = "time" if is_timed else "samples"
    return builder.finish(Known("V8 CPU profile", weights=kind, has_moments=is_timed))


def add_profile(
    builder: Builder, thread: int, profile: dict[str, Any], start_us: float | None = None
) -> bool:
    """Add the samples of a profile to a thread.

    Args:
        builder: gets them.
        thread: its number.
        profile: as the protocol has it.
        start_us: what times are counted from; the start of the profile if None.

    Returns:
        Whether it has samples with times. If not, their numbers are the weights.
    """
    nodes = profile.get("nodes") or _flat(profile["head"])
    row_of = {each["id"]: row for row, each in enumerate(nodes)}
    frames = [_frame(builder, each) for each in nodes]
    stacks = PrefixStacks(builder, _parents(nodes, row_of), frames.__getitem__)
    if not profile.get("samples"):
        hits = whole(floats([each.get("hitCount") or 0 for each in nodes]))
        some = np.flatnonzero(hits)
        builder.add(thread, stacks.nodes(some), hits[some], samples=hits[some])
        return False
    rows = _rows(floats(profile["samples"]), row_of)
    times_us = _times_us(profile, len(rows), start_us)
    if bool((np.diff(times_us) < 0).any()):
        order = np.argsort(times_us[:-1], kind="stable")
        rows, times_us = rows[order], np.append(times_us[:-1][order], times_us[-1])
    t0 = whole(times_us, _NS_PER_US)
    wall = np.maximum(np.diff(t0), 0)
    builder.add(thread, stacks.nodes(rows), wall, t0=t0[:-1])
    return True


def _flat(head: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the nodes of the old form, where they are within each other. Lines count from 1."""
    found, left = [], [(head, None)]
    while left:
        node, parent = left.pop()
        line = node.get("lineNumber")
        found.append({**node, "parent": parent, "lineNumber": (line or 0) - 1, "children": None})
        left += [(each, node["id"]) for each in node.get("children") or []]
    return found


def _parents(nodes: list[dict[str, Any]], row_of: dict[Any, int]) -> Int64s:
    """Return the row of the caller of each node, -1 for none."""
    found = [NONE] * len(nodes)
    for row, node in enumerate(nodes):
        for child in node.get("children") or ():
            callee = row_of.get(child)
            if callee is not None:
                found[callee] = row
        parent = node.get("parent")
        if parent is not None:
            found[row] = row_of[parent]
    return np.array(found, np.int64)


def _rows(ids: Floats, row_of: dict[Any, int]) -> Int64s:
    """Return the row of each node by its number."""
    numbers = whole(ids)
    if int(numbers.min()) < 0:
        raise LookupError("a sample is of a node that is not there")
    used, which = distinct(numbers, int(numbers.max()) + 1)
    return np.array([row_of[each] for each in used.tolist()], np.int64)[which]


def _times_us(profile: dict[str, Any], count: int, start_us: float | None) -> Floats:
    """Return when each sample was taken, and when the last one ends."""
    begin = float(profile.get("startTime") or 0)
    is_old = "timestamps" in profile
    if is_old:
        begin *= _US_PER_S
    origin = begin if start_us is None else start_us
    if is_old:
        times = floats(profile["timestamps"]) - origin
    elif profile.get("timeDeltas") is not None:
        times = np.cumsum(floats(profile["timeDeltas"])) + (begin - origin)
    else:
        end = float(profile.get("endTime") or 0)
        return np.linspace(begin - origin, max(begin, end) - origin, count + 1)
    if len(times) == count + 1:
        return times
    if len(times) != count:
        raise ValueError("there are not as many times as samples")
    whole(times, _NS_PER_US)  # no NaN is in them
    last, first = float(times.max()), float(times.min())
    end = float(profile.get("endTime") or 0) * (_US_PER_S if is_old else 1) - origin
    if count > 1 and not (_IS_OWN in profile or abs(end - last) < _SAME_US):
        end = last + (last - first) / (count - 1)
    return np.append(times, max(last, end))


def _frame(builder: Builder, node: dict[str, Any]) -> int | None:
    """Return the frame of a node; None for the root of all."""
    call = node.get("callFrame") or node
    name, file = str(call.get("functionName") or ""), str(call.get("url") or "")
    if name == _ROOT:
        return None
    number = call.get("lineNumber")
    line = line_of(number + 1) if isinstance(number, int) else 0
    file = file.removeprefix(_FILE)
    kind = FrameKind.JAVASCRIPT
    if file.startswith(_WASM) or not (file or line):
        kind = FrameKind.NATIVE
        if name.startswith("("):
            kind = FrameKind.SYNTHETIC
    if not name:
        short = file.rsplit("/", 1)[-1]
        name = f"(anonymous) {short}:{line}" if short and line else "(anonymous)"
    return builder.frame(Frame(builder.function(name, file=file, kind=kind), line))
