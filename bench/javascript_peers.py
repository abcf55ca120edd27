"""What node's own profiler and perf say of JavaScript functions, and how far that is from ours."""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import Any
from urllib.parse import unquote

TOP = 20
COLLECTS = re.compile(r"Heap::(CollectGarbage|PerformGarbage)|Scavenge|MarkCompact|Sweeper")
PLACE = re.compile(r" ((?:/|node:|file:).*):(\d+):(\d+)$")

Sums = Counter[str]
"""Self times by place: file:line:column."""


def of_profile(profile: dict[str, Any]) -> Sums:
    """Samples of node's own profiler by place."""
    nodes = {each["id"]: each for each in profile["nodes"]}
    holders = {child: each["id"] for each in nodes.values() for child in each.get("children", ())}

    def place_of(number: int) -> str:
        """Of the innermost function with a file: those without are builtins and native ones."""
        while number in nodes:
            at = nodes[number]["callFrame"]
            if file := unquote(at["url"].removeprefix("file://")):
                return f"{file}:{at['lineNumber'] + 1}:{at['columnNumber'] + 1}"
            if at["functionName"] == "(garbage collector)":
                break
            number = holders.get(number, -1)
        return ""

    places = {number: place for number in nodes if (place := place_of(number))}
    sums = Sums()
    for number in profile["samples"]:
        if number in places:
            sums[places[number]] += 1
    return sums


def of_perf(lines: list[str]) -> Sums:
    """Samples in code of functions, by place."""
    sums = Sums()
    for line in lines:
        words = line.strip().partition(" ")[2]
        if words.startswith(("JS:", "LazyCompile:", "Function:", "Script:", "Eval:")) and (
            place := PLACE.search(words)
        ):
            sums[f"{unquote(place[1].removeprefix('file://'))}:{place[2]}:{place[3]}"] += 1
    return sums


def differences(ours: Sums, theirs: Sums, wholes: tuple[int, int] | None = None) -> dict[str, Any]:
    """Compare the functions that are among the first for one of the two.

    Args:
        ours: self times by place.
        theirs: those of the other.
        wholes: what each is a part of; the sum of all if left out.
    """
    our_all, their_all = wholes or (ours.total(), theirs.total())
    places = {place for sums in (ours, theirs) for place, _ in sums.most_common(TOP)}
    our, their = 100 / max(our_all, 1), 100 / max(their_all, 1)
    found = sorted(
        ((ours[each] * our - theirs[each] * their, each) for each in places),
        key=lambda pair: -abs(pair[0]),
    )
    return {
        "theirs": their_all,
        "shared": sum(place in theirs for place, _ in ours.most_common(TOP)),
        "worst": [
            [round(points, 2), os.path.join(*place.split("/")[-3:]), round(ours[place] * our, 2)]
            for points, place in found[:6]
        ],
    }
