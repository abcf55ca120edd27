"""Define what the search for interpreters returns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from .hotspot.routines import Routine
from .recipe import Recipe
from .v8.layout import Layout

CPYTHON, HOTSPOT, V8, RUBY = "CPython", "HotSpot", "V8", "Ruby"


class Checked(Enum):
    """What a look at the running interpreter says about its recipe."""

    FITS = "fits"  # frames were read with it
    UNSEEN = "unseen"  # nothing contradicts it, but no frame was there to be read
    WRONG = "wrong"  # it contradicts what is in memory


_LANGUAGES = {CPYTHON: "Python", HOTSPOT: "Java", V8: "JavaScript", RUBY: "Ruby"}


@dataclass(frozen=True)
class FoundInterpreter:
    """One interpreter in a process."""

    recipe_id: int  # 1 …; 0 if there is no recipe and never was one
    runtime: str  # ``CPYTHON``, ``HOTSPOT``, ``V8`` or ``RUBY``
    version: str  # "CPython 3.12.1"
    # Decides how its line tables are written; (0, 0) if unknown. Of HotSpot, (17, 0).
    minor_version: tuple[int, int]
    module: str  # path of its file, as the process sees it
    recipe: Recipe | None  # None: its frames cannot be read, the note says why
    note: str = ""  # one line for the user; "" if there is nothing to say
    is_free_threaded: bool = False  # built without a global lock
    has_started: bool = True  # False: it was loaded, and has not run anything yet
    # Of V8: where its objects have what; see ``v8.positions.BytecodeOffsets``.
    layout: Layout | None = field(default=None, repr=False)
    bytecode_lengths: bytes = field(default=b"", repr=False)
    routines: tuple[Routine, ...] = field(default=(), repr=False)  # of HotSpot, sorted


def languages_of(found: Iterable[FoundInterpreter]) -> list[str]:
    """Return the languages whose functions can be shown, each once, as in "Python"."""
    return sorted({_LANGUAGES[each.runtime] for each in found if each.recipe is not None})
