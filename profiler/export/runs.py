"""Place the stacks of a thread in time, one after another, for formats that show when each was.

A run is a time in one stack. Runs do not overlap. Their lengths add up to the weight of the thread.
Each begins when it did, with two exceptions. A row that overlaps the one before follows it. A row
of CPU time follows the one before if the gap is shorter than that: so much time without a CPU
between two samples is no pause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Generic, TypeVar

from ..model import Clock
from ..recording.profile.leaves import LeafWeights
from .leaf_stacks import LeafStacks
from .request import ExportRequest

NS_PER_SAMPLE = 1000
"""How long a run is for each stack that is counted, or byte or whatever else."""
_LEAST_GAP_NS = 2_000  # start times may be rounded by half of this

Stack = TypeVar("Stack")
Frame = TypeVar("Frame")
Run = tuple[int, int, Stack]
"""Begin, in nanoseconds of the target's CLOCK_MONOTONIC; length in nanoseconds; stack."""


class Runs:
    """The runs of all threads of a request.

    Made before ``LeafStacks``, as a profile's timelines are.

    Args:
        request: what is exported.
        leaves: of its threads, if it counts something: their runs have no order.
    """

    def __init__(self, request: ExportRequest, leaves: LeafWeights) -> None:
        selection, (begin_ns, end_ns) = request.selection, request.between_ns
        self.start_ns = request.profile.start_ns if begin_ns is None else begin_ns
        self._is_of_cpu = selection.clock is Clock.CPU
        self._leaves, self._timelines = None, None
        if request.counted:
            self._leaves = leaves.take(leaves.thread_id.argsort(kind="stable"))
        else:
            self._timelines = request.profile.timelines(
                selection.clock, begin_ns, end_ns, holding=selection.frames.only_gil
            )

    def of(
        self, thread_id: int, stack_of: Callable[[int, int], Stack | None]
    ) -> Iterator[Run[Stack]]:
        """Yield the runs of a thread in order of time; adjacent ones of equal stacks are joined.

        Args:
            thread_id: the thread.
            stack_of: the stack of a leaf, a node and a system call; None: it does not count.
        """
        end_ns, slack_ns = self.start_ns, 0
        since_ns = until_ns = end_ns
        shown: Stack | None = None
        for begin_ns, node, sysno, length_ns in self._rows(thread_id):
            if begin_ns - end_ns <= slack_ns:
                begin_ns = end_ns
            end_ns = begin_ns + length_ns
            slack_ns = length_ns if self._is_of_cpu else _LEAST_GAP_NS
            stack = stack_of(node, sysno)
            if shown is not None and (stack != shown or begin_ns != until_ns):
                yield since_ns, until_ns - since_ns, shown
                shown = None
            if stack is not None:
                since_ns = begin_ns if shown is None else since_ns
                shown, until_ns = stack, end_ns
        if shown is not None:
            yield since_ns, until_ns - since_ns, shown

    def _rows(self, thread_id: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield when each row of a thread begins, its leaf, and how long it takes."""
        if self._leaves is not None:
            first, end = self._leaves.thread_id.searchsorted((thread_id, thread_id + 1))
            own = self._leaves.take(slice(int(first), int(end)))
            columns = (own.node.tolist(), own.sysno.tolist(), own.weight.tolist())
            for node, sysno, count in zip(*columns, strict=True):
                yield 0, node, sysno, NS_PER_SAMPLE * count
        elif self._timelines is not None:
            for block in self._timelines.timed(thread_id):
                leaves = block.leaves
                yield from zip(
                    block.begin_ns.tolist(),
                    leaves.node.tolist(),
                    leaves.sysno.tolist(),
                    leaves.weight.tolist(),
                    strict=True,
                )


class StackNumbers(Generic[Frame]):
    """Convert leaves to stacks of frame numbers, and collect the frames with these numbers.

    Args:
        stacks: of the leaves.
        frames_of: the frames of a leaf, root first; None: it does not count.
        whole: the frame of a stack of which no function is left.
    """

    def __init__(
        self,
        stacks: LeafStacks,
        frames_of: Callable[[int, int], list[Frame] | None],
        whole: Frame,
    ) -> None:
        self._is_shaped, self._frames_of, self._whole = stacks.is_shaped, frames_of, whole
        self._numbers: dict[Frame, int] = {}
        self.frames: list[Frame] = []
        # Stacks recur often; the cache makes most of them only once.
        self.stack = lru_cache(1 << 16)(self._stack)

    def counts(self, node: int, sysno: int) -> bool:
        """Return whether a leaf counts."""
        return not self._is_shaped or self.stack(node, sysno) is not None

    def _stack(self, node: int, sysno: int) -> tuple[int, ...] | None:
        """Return a leaf's stack, root first; None: it does not count."""
        found = self._frames_of(node, sysno)
        if found is None:
            return None
        return tuple([self._number(frame) for frame in found or (self._whole,)])

    def _number(self, frame: Frame) -> int:
        number = self._numbers.setdefault(frame, len(self.frames))
        if number == len(self.frames):
            self.frames.append(frame)
        return number
