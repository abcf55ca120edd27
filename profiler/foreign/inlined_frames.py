"""Make stacks of frames. An inlined one is part of the frame that it is inlined into."""

from __future__ import annotations

from collections.abc import Iterable

from ..model import Frame
from .builder import ROOT, Builder


class Inlinable:
    """A frame, and what is inlined into it as far as it is known.

    Args:
        frames: outermost first.
        is_inlined: into the frame that calls it.

    Attributes:
        number: the builder's; below 0 until it is needed.
        joined: what it is together with others that are inlined into it.
    """

    __slots__ = ("frames", "is_inlined", "joined", "number")

    def __init__(self, frames: tuple[Frame, ...], *, is_inlined: bool = False) -> None:
        self.frames, self.is_inlined = frames, is_inlined
        self.number = -1
        self.joined: dict[Inlinable, Inlinable] | None = None


class InlinedFrames:
    """Puts frames together; see the module docstring."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder

    def stack(self, frames: Iterable[Inlinable]) -> int:
        """Return the number of a stack, root first."""
        child, node = self._builder.child, ROOT
        waiting: Inlinable | None = None
        for each in frames:
            if waiting is not None:
                if each.is_inlined:
                    waiting = self._join(waiting, each)
                    continue
                number = waiting.number
                node = child(node, number if number >= 0 else self._number(waiting))
            waiting = each
        return node if waiting is None else child(node, self._number(waiting))

    def _number(self, frame: Inlinable) -> int:
        if frame.number < 0:
            frame.number = self._builder.frame(*frame.frames)
        return frame.number

    def _join(self, outer: Inlinable, inlined: Inlinable) -> Inlinable:
        if outer.joined is None:
            outer.joined = {}
        found = outer.joined.get(inlined)
        if found is None:
            module = outer.frames[0].function.module
            added = (self._in_module(each, module) for each in inlined.frames)
            # Each is numbered, so that the builder limits how many there are.
            found = outer.joined[inlined] = Inlinable((*outer.frames, *added))
            self._number(found)
        return found

    def _in_module(self, frame: Frame, module: str) -> Frame:
        what = frame.function
        if what.module:
            return frame
        return Frame(self._builder.function(what.name, module, what.file, what.kind), frame.line)
