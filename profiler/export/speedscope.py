"""Write speedscope's own JSON: one "sampled" profile per thread, in order of time.

Weights are nanoseconds of the chosen clock and add up exactly to the thread's total. One sample is
a period of time in one stack, so equal neighbours are joined. If weights are numbers of stacks
instead, a profile has one sample per stack, in no order. Losses and doubts are part of the name,
which speedscope shows at the top. The key "flametap", which other readers ignore, repeats them,
with the cost of the recording.

With a shape, each stack is written as it is shown; chains of functions are not folded.

The file is written piece by piece: profiles first, then the frames that they use. The order of keys
does not matter in JSON.

Source: speedscope's file-format-spec.ts and its JSON schema (npm speedscope 1.25.0).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import BinaryIO

import orjson

from ..model import Thread
from ..recording.profile.leaves import LeafWeights
from ..version import version
from .json_pieces import encode, text, write_numbers
from .leaf_stacks import FrameKey, LeafStacks, leaves_of, threads_with_weight
from .request import ExportRequest

_UNITS = {"": "nanoseconds", "bytes": "bytes"}  # of others, speedscope knows none
SCHEMA_URL = "https://www.speedscope.app/file-format-schema.json"


def write(request: ExportRequest, file: BinaryIO) -> None:
    """Write a profile as speedscope JSON."""
    leaves = leaves_of(request, request.selection.thread_ids)
    timeline = _timelines(request)
    frames = _Frames(LeafStacks(request))
    threads, weights = threads_with_weight(request, leaves, frames.counts)
    head = {
        "$schema": SCHEMA_URL,
        "exporter": f"flametap {version()}",
        "name": text("; ".join((f"{request.title}, {request.what}", *request.notes))),
        "activeProfileIndex": max(range(len(threads)), key=weights.__getitem__, default=0),
        "flametap": {
            "version": version(),
            "notes": [text(note) for note in request.notes],
            "cost": request.cost,
        },
    }
    file.write(encode(head)[:-1] + b',"profiles":[')
    for i, thread in enumerate(threads):
        file.write(b"," if i else b"")
        _write_thread(request, thread, timeline(thread.thread_id), frames, file)
    file.write(b'],"shared":{"frames":[')
    for i, frame in enumerate(frames.descriptions()):
        file.write((b"," if i else b"") + encode(frame))
    file.write(b"]}}")


def _timelines(request: ExportRequest) -> Callable[[int], Iterable[LeafWeights]]:
    if request.counts_samples:
        return lambda thread_id: (leaves_of(request, frozenset((thread_id,))),)
    selection = request.selection
    return request.profile.timelines(
        selection.clock, *request.between_ns, holding=selection.frames.only_gil
    )


def _write_thread(
    request: ExportRequest,
    thread: Thread,
    timeline: Iterable[LeafWeights],
    frames: _Frames,
    file: BinaryIO,
) -> None:
    head = {
        "type": "sampled",
        "name": text(f"{thread.name} ({thread.tid})"),
        "unit": _UNITS.get(request.counted, "none"),
        "startValue": 0,
    }
    file.write(encode(head)[:-1] + b',"samples":[')
    weights = array("q")
    for block in timeline:
        stacks = []
        begin = len(weights)
        columns = (block.node.tolist(), block.sysno.tolist(), block.weight.tolist())
        for node, sysno, weight in zip(*columns, strict=True):
            stack = frames.stack(node, sysno)
            if stack is not None:
                stacks.append(stack)
                weights.append(weight)
        if stacks:
            file.write((b"," if begin else b"") + b",".join(stacks))
    file.write(b'],"weights":')
    write_numbers(weights, file)
    file.write(b',"endValue":%d}' % sum(weights))


class _Frames:
    """Convert leaves to stacks of frame numbers, and collect the frames with these numbers."""

    def __init__(self, stacks: LeafStacks) -> None:
        self._stacks = stacks
        self._numbers: dict[FrameKey, int] = {}
        # Stacks recur often; the cache encodes most of them only once.
        self.stack = lru_cache(1 << 16)(self._stack)

    def counts(self, node: int, sysno: int) -> bool:
        """Return whether a leaf counts."""
        return not self._stacks.is_shaped or self.stack(node, sysno) is not None

    def _stack(self, node: int, sysno: int) -> bytes | None:
        """Return a leaf's stack, root first, as a JSON list of frame numbers; None: it is out."""
        keys = self._stacks.keys(node, sysno)
        if keys is None:
            return None
        return orjson.dumps([self._numbers.setdefault(key, len(self._numbers)) for key in keys])

    def descriptions(self) -> Iterator[dict[str, str | int]]:
        """Yield the frames in the order of their numbers.

        If the source file is unknown, "file" is the module.
        """
        for key in self._numbers:
            function = self._stacks.function(key)
            frame: dict[str, str | int] = {"name": text(function.name)}
            file, line = self._stacks.place(key)
            file = file or function.module
            if file:
                frame["file"] = text(file)
            if line:
                frame["line"] = line
            yield frame
