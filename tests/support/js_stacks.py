"""Stacks of JavaScript: as an Error of the engine has them, and as a recording has them."""

from __future__ import annotations

import re
from typing import NamedTuple

from flametap.capture.live import Capture
from flametap.model import Clock, FrameKind
from flametap.tree.calltree import build


class Frame(NamedTuple):
    """A function, "" if it has no name of its own, and its place: "file.js:12"."""

    name: str
    place: str


def of_error(text: str) -> tuple[Frame, ...]:
    """The frames of an Error's stack, leaf first, but for those of builtins, which have no place.

    Names without what the engine puts before them from the receiver.
    """
    frames = []
    for line in text.splitlines():
        found = re.match(r"\s+at (?:(.*) \()?(.*?):(\d+):\d+\)?$", line)
        if found:
            name = re.sub(r" \[as .*\]|<anonymous>", "", found[1] or "")
            name = re.sub(r"^.*[. ]", "", re.sub(r"\[(\w+)\]$", r"\1", name))
            file = found[2].removeprefix("file://")
            frames.append(Frame(name, f"{file}:{found[3]}"))
    return tuple(frames)


def of_capture(capture: Capture, thread_id: int) -> tuple[Frame, ...]:
    """The one stack of a thread that sleeps, leaf first: its JavaScript frames."""
    tree = build(capture.profile, capture.names, Clock.WALL, frozenset({thread_id}))
    frames: list[Frame] = []
    for node in range(1, len(tree.parent)):
        function = tree.functions[tree.function[node]]
        assert tree.parent[node] == node - 1, "the thread has more than one stack"
        assert function.name != "[unknown JavaScript function]"
        if function.kind is FrameKind.JAVASCRIPT:
            name = re.sub(r"^\((?:anonymous|top level)\).*", "", function.name)
            name = re.sub(r"^.*[. ]", "", name)
            frames.append(Frame(name, f"{function.file}:{int(tree.line[node])}"))
    return tuple(frames[::-1])
