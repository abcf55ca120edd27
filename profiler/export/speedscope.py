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

import re
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import BinaryIO

import orjson

from .. import __version__
from ..analysis.calltree import CallTree
from ..analysis.own_frames import SYNTHETIC, syscall_function
from ..analysis.shown_frames import StackReader
from ..model import FrameKind, Thread
from ..profile.leaves import LeafWeights
from ..profile.stacks import ROOT, TRUNCATED
from .request import ExportRequest

SCHEMA_URL = "https://www.speedscope.app/file-format-schema.json"
# Numbers encoded in one call: enough for speed, few enough to need little memory.
_NUMBERS_AT_ONCE = 1 << 16
# DEL and U+0080 to U+009F in UTF-8: a terminal acts on them, and JSON need not escape them.
_CONTROLS = re.compile(rb"\x7f|\xc2[\x80-\x9f]")


def write(request: ExportRequest, file: BinaryIO) -> None:
    """Write a profile as speedscope JSON."""
    profile = request.profile
    leaves = _leaves(request, request.selection.thread_ids)
    timeline = _timelines(request)
    frames = _Frames(request)  # after the timeline, so that its trie has all nodes of the latter
    weights = _thread_weights(leaves, frames)
    threads = [thread for i, thread in profile.threads.items() if weights.get(i)]
    heaviest = max(range(len(threads)), key=lambda i: weights[threads[i].thread_id], default=0)
    head = {
        "$schema": SCHEMA_URL,
        "exporter": f"flametap {__version__}",
        "name": _text("; ".join((f"{request.title}, {request.what}", *request.notes))),
        "activeProfileIndex": heaviest,
        "flametap": {
            "version": __version__,
            "notes": [_text(note) for note in request.notes],
            "cost": request.cost,
        },
    }
    file.write(_json(head)[:-1] + b',"profiles":[')
    for i, thread in enumerate(threads):
        file.write(b"," if i else b"")
        _write_thread(request, thread, timeline(thread.thread_id), frames, file)
    file.write(b'],"shared":{"frames":[')
    for i, frame in enumerate(frames.descriptions()):
        file.write((b"," if i else b"") + _json(frame))
    file.write(b"]}}")


def _leaves(request: ExportRequest, thread_ids: frozenset[int] | None) -> LeafWeights:
    clock, holding = request.selection.clock, request.selection.frames.only_gil
    if request.counts_samples:
        return request.profile.leaf_samples(clock, thread_ids, holding=holding)
    return request.profile.leaf_weights(clock, thread_ids, *request.between_ns, holding=holding)


def _thread_weights(leaves: LeafWeights, frames: _Frames) -> dict[int, int]:
    weights: dict[int, int] = {}
    columns = (leaves.thread_id, leaves.node, leaves.sysno, leaves.weight)
    for thread_id, node, sysno, weight in zip(*(each.tolist() for each in columns), strict=True):
        if not frames.is_shaped or frames.stack(node, sysno) is not None:
            weights[thread_id] = weights.get(thread_id, 0) + weight
    return weights


def _timelines(request: ExportRequest) -> Callable[[int], Iterable[LeafWeights]]:
    if request.counts_samples:
        return lambda thread_id: (_leaves(request, frozenset((thread_id,))),)
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
        "name": _text(f"{thread.name} ({thread.tid})"),
        "unit": "none" if request.counts_samples else "nanoseconds",
        "startValue": 0,
    }
    file.write(_json(head)[:-1] + b',"samples":[')
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
    file.write(b'],"weights":[')
    for at in range(0, len(weights), _NUMBERS_AT_ONCE):
        numbers = weights[at : at + _NUMBERS_AT_ONCE].tolist()
        file.write((b"," if at else b"") + orjson.dumps(numbers)[1:-1])
    file.write(b'],"endValue":%d}' % sum(weights))


class _Frames:
    """Convert leaves to stacks of frame numbers, and collect the frames with these numbers."""

    def __init__(self, request: ExportRequest) -> None:
        self._table = request.table
        self._stacks = StackReader(request.profile, request.table, request.selection.frames)
        self._kernel = request.table.kernel()
        self._has_lines = request.by_line
        # (function id, line) → frame number. The line is 0 unless a function has several frames.
        self._numbers: dict[tuple[int, int], int] = {}
        plain = _plain_tree(request)
        self._places = _heaviest_places(plain)
        self._shaped = request.shaping.stacks(plain) if request.shaping else None
        # Stacks recur often; the cache encodes most of them only once.
        self.stack = lru_cache(1 << 16)(self._stack)

    @property
    def is_shaped(self) -> bool:
        """True if some stacks may not count, or look other than they are."""
        return self._shaped is not None

    def _stack(self, node: int, sysno: int) -> bytes | None:
        """Return a leaf's stack, root first, as a JSON list of frame numbers; None: it is out."""
        keys: list[tuple[int, int]] = []
        if sysno < 0 and node > TRUNCATED:
            sysno = self._kernel.get(self._stacks.address(node), -1)
        root = self._stacks.root(node)
        if root != ROOT:
            keys.append((self._table.function_id(SYNTHETIC[root]), 0))
        places = self._stacks.places(node, or_innermost=sysno < 0)
        keys += [(function, self._line(function, line)) for function, line, _ in places]
        if sysno >= 0:
            keys.append((self._table.function_id(syscall_function(sysno)), 0))
        if self._shaped is not None:
            shaped = self._shaped([function for function, _ in keys])
            if shaped is None:
                return None
            keys = [(function, 0) for function in shaped]
        return orjson.dumps([self._numbers.setdefault(key, len(self._numbers)) for key in keys])

    def _line(self, function_id: int, line: int) -> int:
        is_python = self._table.functions[function_id].kind is FrameKind.PYTHON
        return line if self._has_lines and is_python else 0

    def descriptions(self) -> Iterator[dict[str, str | int]]:
        """Yield the frames in the order of their numbers.

        If the source file is unknown, "file" is the module.
        """
        for function_id, own_line in self._numbers:
            function = self._table.functions[function_id]
            frame: dict[str, str | int] = {"name": _text(function.name)}
            file, line = self._places.get(function_id, ("", 0))
            file = file or function.file or function.module
            if file:
                frame["file"] = _text(file)
            if own_line or line:
                frame["line"] = own_line or line
            yield frame


def _plain_tree(request: ExportRequest) -> CallTree:
    return replace(request, by_thread=False, unit="time", by_line=False, shaping=None).tree()


def _heaviest_places(tree: CallTree) -> dict[int, tuple[str, int]]:
    """Return for each function id the file and line of its heaviest node.

    The file is "" for the function's own file. Frames are merged by function, so there is one line
    for each, unless the lines of Python functions are to be separated.
    """
    columns = (tree.total_ns, tree.function, tree.line, tree.line_file)
    rows: list[tuple[int, int, int, int]]
    rows = sorted(zip(*(column.tolist() for column in columns), strict=True))
    return {function: (tree.line_files[file], line) for _, function, line, file in rows if line}


def _json(value: object) -> bytes:
    """Encode a value without control characters, so that the file can be shown in a terminal."""
    return _CONTROLS.sub(lambda found: b"\\u%04x" % found[0][-1], orjson.dumps(value))


def _text(text: str) -> str:
    # Undecodable bytes may have become lone surrogates, which JSON cannot represent.
    return text.encode("utf-8", "replace").decode("utf-8")
