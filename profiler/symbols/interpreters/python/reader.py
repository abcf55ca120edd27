"""Open the readers of one CPython for one look at it."""

from __future__ import annotations

from dataclasses import dataclass

from ....linux.process_memory import ProcessMemory
from ..found import FoundInterpreter
from .frames import Frames
from .object_layout import layout_of
from .objects import Objects

FREE_THREADED = "not read in builds without a global lock"
UNKNOWN = "not known in this version"


@dataclass(frozen=True)
class Readers:
    """The readers of one interpreter."""

    frames: Frames
    objects: Objects | None
    problem: str = ""  # why there is no reader of objects


def open_readers(memory: ProcessMemory, found: FoundInterpreter) -> Readers | None:
    """Return the readers of an interpreter; None if its frames cannot be read."""
    if found.recipe is None:
        return None
    frames = Frames(memory, found.recipe, found.minor_version)
    layout = layout_of(found.minor_version)
    if found.is_free_threaded:
        return Readers(frames, None, FREE_THREADED)
    if layout is None:
        return Readers(frames, None, UNKNOWN)
    return Readers(frames, Objects(memory, found.recipe, layout))
