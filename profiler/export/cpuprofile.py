"""Write V8's CPU profile: for Chrome DevTools, VS Code and speedscope.

The format holds one timeline: that of the thread with the most weight. The key "flametap", which
other readers ignore, says which thread that is, and what was left out.

A sample is a run (``runs``). "timeDeltas" has, for each sample, the time from the sample before to
it, and first the time from "startTime": so a sample lasts until the next one. The last one ends
what was before, as readers give it no length, or an average one. Where the thread has no weight,
the sample is "(idle)", which readers know. Times are whole microseconds; the rest is carried to the
next run. "hitCount" is the time of a node in microseconds, instead of a number of samples, so that
readers that go by it show the same shares. If weights are numbers of stacks, one microsecond stands
for one, in no order.

A node is a function below its caller. Its line is the heaviest one; it begins with 0, and -1 is for
none. A function that is named like a node of V8's own, "(program)" say, has brackets instead.

The file is written piece by piece: samples first, then the nodes that they refer to.

Source: Profiler.Profile of the Chrome DevTools Protocol; CPUProfileDataModel of DevTools; importers
of speedscope and Firefox Profiler.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from ..model import Thread
from ..version import version
from .folded import ALL
from .json_pieces import encode, text, write_numbers
from .leaf_stacks import FrameKey, LeafStacks, leaves_of, threads_with_weight
from .request import ExportRequest
from .runs import Run, Runs

_ROOT, _IDLE = 1, 2  # nodes
_OF_V8 = ("(root)", "(idle)", "(program)", "(garbage collector)")
_NS_PER_US = 1000
_FEW_SAMPLES = 1 << 14  # written at once


def write(request: ExportRequest, file: BinaryIO) -> None:
    """Write the thread with the most weight as a CPU profile."""
    leaves = leaves_of(request, request.selection.thread_ids)
    runs = Runs(request, leaves)
    nodes = _Nodes(LeafStacks(request))
    threads, weights = threads_with_weight(request, leaves, nodes.counts)
    chosen = max(range(len(threads)), key=weights.__getitem__, default=-1)
    timeline: Iterable[Run[int]] = ()
    if threads:
        timeline = runs.of(threads[chosen].thread_id, nodes.node)
    start_us = runs.start_ns // _NS_PER_US
    file.write(b'{"startTime":%d,"samples":[' % start_us)
    deltas, end_us = _write_samples(timeline, nodes, start_us, file)
    file.write(b'],"timeDeltas":')
    write_numbers(deltas, file)
    if not request.counted:
        end_us = max(end_us, (runs.start_ns + request.duration_ns) // _NS_PER_US)
    nodes.hits[_IDLE] += end_us - start_us - sum(nodes.hits)
    file.write(b',"endTime":%d,"nodes":[' % end_us)
    for i, node in enumerate(nodes.descriptions()):
        file.write((b"," if i else b"") + encode(node))
    file.write(b'],"flametap":' + encode(_about(request, threads, weights, chosen)) + b"}")


def _write_samples(
    timeline: Iterable[Run[int]], nodes: _Nodes, start_us: int, file: BinaryIO
) -> tuple[array[int], int]:
    """Write the samples of a thread. Returns the time before each of them, and the last time."""
    samples, deltas = array("q", (_IDLE,)), array("q", (0,))
    is_first = True
    last, last_us = _IDLE, start_us  # sample, and when
    until_us = start_us  # where the last run ends
    total_ns = total_us = 0
    for begin_ns, length_ns, node in timeline:
        begin_us = max(until_us, begin_ns // _NS_PER_US)
        if begin_us > until_us and last != _IDLE:
            samples.append(_IDLE)
            deltas.append(until_us - last_us)
            last_us = until_us
        samples.append(node)
        deltas.append(begin_us - last_us)
        last, last_us = node, begin_us
        total_ns += length_ns
        length_us = total_ns // _NS_PER_US - total_us
        total_us += length_us
        nodes.hits[node] += length_us
        until_us = begin_us + length_us
        if len(samples) >= _FEW_SAMPLES:
            _flush(samples, is_first, file)
            is_first = False
    samples.append(_IDLE)
    deltas.append(until_us - last_us)
    _flush(samples, is_first, file)
    return deltas, until_us


def _flush(samples: array[int], is_first: bool, file: BinaryIO) -> None:
    """Write the samples, and forget them."""
    file.write((b"" if is_first else b",") + ",".join(map(str, samples)).encode())
    del samples[:]


def _about(
    request: ExportRequest, threads: list[Thread], weights: list[int], chosen: int
) -> dict[str, Any]:
    """Return what the file holds, and what it does not."""
    unit = request.counted or "ns"
    about: dict[str, Any] = {
        "version": version(),
        "name": text(f"{request.title}, {request.what}"),
        "left_out": {"threads": max(0, len(threads) - 1), unit: 0},
    }
    notes = list(request.notes)
    if threads:
        thread, weight, total = threads[chosen], weights[chosen], sum(weights)
        about["thread"] = text(f"{thread.name} ({thread.tid})")
        about["left_out"][unit] = total - weight
        if len(threads) > 1:
            notes.insert(
                0,
                f"only the heaviest of {len(threads)} threads, {thread.name} ({thread.tid}), with"
                f" {weight / total:.1%} of the weight: the format holds one",
            )
    return {**about, "notes": [text(note) for note in notes], "cost": request.cost}


class _Nodes:
    """Number the nodes of a call tree, and collect their own times."""

    def __init__(self, stacks: LeafStacks) -> None:
        self._stacks = stacks
        # (number of the caller's node, frame; None for that of no function) → number of the node.
        self._numbers: dict[tuple[int, FrameKey | None], int] = {}
        self._known: dict[tuple[int, int], int | None] = {}  # by leaf
        self.hits = array("q", (0, 0, 0))  # microseconds by node; 0 is none

    def counts(self, node: int, sysno: int) -> bool:
        """Return whether a leaf counts."""
        return not self._stacks.is_shaped or self.node(node, sysno) is not None

    def node(self, node: int, sysno: int) -> int | None:
        """Return the node of a leaf; None: it does not count."""
        key = node, sysno
        if key not in self._known:
            self._known[key] = self._add(self._stacks.keys(node, sysno))
        return self._known[key]

    def _add(self, keys: list[FrameKey] | None) -> int | None:
        if keys is None:
            return None
        at = _ROOT
        for key in keys or (None,):
            at = self._numbers.setdefault((at, key), len(self.hits))
            if at == len(self.hits):
                self.hits.append(0)
        return at

    def descriptions(self) -> Iterator[dict[str, Any]]:
        """Yield the nodes in the order of their numbers."""
        children: dict[int, list[int]] = {_ROOT: [_IDLE]}
        for (above, _), number in self._numbers.items():
            children.setdefault(above, []).append(number)
        urls: dict[str, int] = {"": 0}
        for number, name in ((_ROOT, "(root)"), (_IDLE, "(idle)")):
            yield self._node(number, name, ("", 0), urls, children)
        for (_, key), number in self._numbers.items():
            if key is None:
                yield self._node(number, ALL, ("", 0), urls, children)
                continue
            function, (file, line) = self._stacks.function(key), self._stacks.place(key)
            name = function.name
            if name in _OF_V8:
                name = f"[{name[1:-1]}]"
            yield self._node(number, name, (file or function.module, line), urls, children)

    def _node(
        self,
        number: int,
        name: str,
        place: tuple[str, int],
        urls: dict[str, int],
        children: dict[int, list[int]],
    ) -> dict[str, Any]:
        url, line = text(place[0]), place[1]
        frame = {
            "functionName": text(name),
            "scriptId": str(urls.setdefault(url, len(urls))),
            "url": url,
            "lineNumber": line - 1,
            "columnNumber": -1,
        }
        node = {"id": number, "callFrame": frame, "hitCount": self.hits[number]}
        return {**node, "children": children[number]} if number in children else node
