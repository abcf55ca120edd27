"""Make stacks of frames. An inlined one is part of the frame that it is inlined into.

Beyond a limit, the next inlined frame is one of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..model import Frame
from .builder import ROOT, Builder

MAX_JOINED = 64  # frames
_MAX_NUMBERS = 1 << 23  # of what is known


class Inlinable:
    """A frame, and what is inlined into it as far as it is known.

    Args:
        frames: outermost first.
        is_inlined: into the frame that calls it.

    Attributes:
        number: the builder's; below 0 until it is needed.
    """

    __slots__ = ("frames", "is_inlined", "number")

    def __init__(self, frames: tuple[Frame, ...], *, is_inlined: bool = False) -> None:
        self.frames, self.is_inlined = frames, is_inlined
        self.number = -1


class InlinedFrames:
    """Puts frames together; see the module docstring."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._joined: dict[tuple[Inlinable, ...], int] = {}  # emptied when it becomes too large
        self._n_numbers = 0

    def stack(self, frames: Iterable[Inlinable]) -> int:
        """Return the number of a stack, root first."""
        child, node = self._builder.child, ROOT
        waiting: list[Inlinable] = []
        for each in frames:
            if waiting:
                if each.is_inlined and len(waiting) < MAX_JOINED:
                    waiting.append(each)
                    continue
                node = child(node, self._number(waiting))
            waiting = [each]
        return child(node, self._number(waiting)) if waiting else node

    def _number(self, frames: list[Inlinable]) -> int:
        outer, *inlined = frames
        if inlined:
            key = tuple(frames)
            found = self._joined.get(key)
            if found is None:
                module = outer.frames[0].function.module
                added = (self._in_module(at, module) for each in inlined for at in each.frames)
                found = self._builder.frame(*outer.frames, *added)
                self._remember(key, found)
            return found
        if outer.number < 0:
            outer.number = self._builder.frame(*outer.frames)
        return outer.number

    def _remember(self, key: tuple[Inlinable, ...], number: int) -> None:
        self._n_numbers += len(key) + 8
        if self._n_numbers > _MAX_NUMBERS:
            self._joined.clear()
            self._n_numbers = len(key) + 8
        self._joined[key] = number

    def _in_module(self, frame: Frame, module: str) -> Frame:
        what = frame.function
        if what.module:
            return frame
        return Frame(self._builder.function(what.name, module, what.file, what.kind), frame.line)
