"""Make functions and lines out of what the agent says of V8's code.

The agent's record of a piece of code says where it and its function lie; their names are read in
the process, in a thread of its own: a hostile process may make a read wait for ever. What has
changed since the record was made has no name, until the same function is met again: then all that
was seen of it has.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable

from ....linux.process_memory import MemoryReadError, ProcessMemory
from ....linux.procfs import PROC
from ....model import Frame, FrameKind, Function
from ....wire.abi import NO_POSITION, V8_CODE_IS_REGEXP, V8_KIND_SHIFT
from ....wire.events import Code
from ...names.limits import Budget, cut
from ..found import FoundInterpreter
from ..request_thread import RequestThread
from .code import CodePlaces, Place, read_code
from .functions import Functions, SharedFunction
from .heap import Heap
from .identity import keys_of
from .kept_codes import KeptCodes
from .paths import module_of, short_path
from .scripts import Script

UNKNOWN = "[unknown JavaScript function]"
_MAX_CODES = 1 << 18
_CODE_BYTES = 512  # of one in our memory, without its texts and tables


class V8Code:
    """One piece of code of a function."""

    __slots__ = (
        "_frames",
        "_functions",
        "_inlines",
        "_is_regexp",
        "_places",
        "_scripts",
        "code_id",
    )

    def __init__(
        self,
        code_id: int,
        places: CodePlaces | None,
        functions: FunctionNames,
        *,
        inlines: bool,
        is_regexp: bool = False,
    ) -> None:
        self.code_id = code_id
        self._places = places
        self._is_regexp = is_regexp
        self._functions = functions
        self._inlines = inlines
        self._frames: dict[int, tuple[Frame, ...]] = {}
        # Those whose source maps may say more.
        self._scripts: list[Script] = []
        if places is not None:
            scripts = {each.script.key: each.script for each in places.functions}
            self._scripts = [script for key, script in scripts.items() if key]

    @property
    def awaited(self) -> Script | None:
        """A script whose source map is not known yet."""
        return next((each for each in self._scripts if each.key), None)

    @property
    def source(self) -> str:
        """What has to be found before its frames are final; "" for nothing."""
        awaited = self.awaited
        return "" if awaited is None else awaited.key

    def forget_frames(self) -> None:
        """Have its frames made anew: the source map of a script is known."""
        self._frames.clear()

    @property
    def is_nameless(self) -> bool:
        """True if its function could not be read."""
        return self._places is None and not self._is_regexp

    def frames_at(self, position: int) -> tuple[Frame, ...]:
        """Return the frames at a position, outermost first; the same object each time."""
        frames = self._frames.get(position)
        if frames is None:
            frames = self._frames[position] = self._made(position)
        return frames

    def _made(self, position: int) -> tuple[Frame, ...]:
        if self._places is None:
            return _REGEXP_FRAMES if self._is_regexp else _UNKNOWN_FRAMES
        if position == NO_POSITION:
            return (Frame(self._functions.function(self._places.function), tier=self._places.tier),)
        places = self._places.at(position)
        if not self._inlines:
            places = places[:1]
        inlined = f"inlined, {self._places.tier}" if self._places.tier else "inlined"
        tiers = [self._places.tier] + [inlined] * (len(places) - 1)
        return tuple(map(self._frame, places, tiers))

    def _frame(self, place: Place, tier: str) -> Frame:
        function = self._functions.function(place.function)
        is_elsewhere = place.line and place.file != function.file and function.file
        return Frame(function, place.line, place.file if is_elsewhere else "", tier)


_UNKNOWN_FRAMES = (Frame(Function(UNKNOWN, "", kind=FrameKind.SYNTHETIC)),)
_REGEXP_FRAMES = (
    Frame(Function("(regular expression)", "[javascript]", kind=FrameKind.JAVASCRIPT)),
)


class FunctionNames:
    """The functions of a program, equal ones once. Used under the lock of ``V8Names``."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._functions: dict[tuple[str, str, int, int], Function] = {}
        self.left_out = 0

    def function(self, shared: SharedFunction) -> Function:
        """Return the function for one of the engine's."""
        file, line, column = shared.spot
        key = (shared.own_name, file, line, column)
        function = self._functions.get(key)
        if function is None:
            function = _function(*key, is_whole=shared.is_whole)
            size = len(function.name) + len(function.full_name) + len(function.file)
            if len(self._functions) >= _MAX_CODES or not self._budget.take(size + _CODE_BYTES):
                self.left_out += 1
                return _LEFT_OUT
            self._functions[key] = function
        return function


_LEFT_OUT = Function("[name left out]", "", kind=FrameKind.UNKNOWN)


def _function(name: str, file: str, line: int, column: int, *, is_whole: bool) -> Function:
    name = cut("".join(c if c.isprintable() else "?" for c in name))
    short = short_path(file)
    if is_whole:
        name = f"(top level) {short}" if short else "(top level)"
    elif not name:
        name = f"(anonymous) {short}:{line}" if line else "(anonymous)"
    full_name = f"{name} {file}:{line}:{column}" if line else f"{name} {file}".rstrip()
    return Function(name, module_of(file), file, FrameKind.JAVASCRIPT, full_name)


class V8Names:
    """The names of a process's JavaScript functions; see the module docstring.

    Args:
        pid: the process; None if there is none whose memory could be read.
        found: recipe id → the interpreter.
        on_named: called in the thread with the number of records that were read, and with code ids
            and what they are; also those of earlier records that have a name now.
        names: the characters of names that may be kept.
        tables: the bytes of tables that may be kept.
        inlines: whether inlined functions become frames.
    """

    def __init__(
        self,
        pid: int | None,
        found: Callable[[int], FoundInterpreter | None],
        on_named: Callable[[int, list[tuple[int, V8Code]]], None],
        names: Budget,
        tables: Budget,
        *,
        inlines: bool = True,
    ) -> None:
        self._pid = pid
        self._found = found
        self._on_named = on_named
        self._tables = tables
        self._functions = FunctionNames(names)
        self._inlines = inlines
        self._requests = RequestThread[Code]("flametap-v8", self._answer, on_end=self._end)
        self._memory: ProcessMemory | None = None
        self._readers: dict[int, tuple[Heap, Functions, bytes]] = {}
        self._gone: set[int] = set()  # code ids
        self._known = KeptCodes()
        self._lineless = 0

    def ask(self, codes: Iterable[Code]) -> None:
        """Request the names of pieces of code; each gets an answer, but for those at the end."""
        self._requests.ask(codes)

    @property
    def note(self) -> str:
        """What is missing, one line for the user; "" if nothing is."""
        notes = []
        if self._gone:
            notes.append(
                f"{len(self._gone):,} pieces of code had changed before they could be read"
            )
        if self._functions.left_out:
            notes.append("some functions have no name: names take too much memory")
        if self._lineless:
            notes.append(
                f"{self._lineless:,} compiled functions without lines: their compiler keeps none"
            )
        return "; ".join(notes)

    def close(self) -> None:
        """End the thread. Idempotent."""
        self._requests.close()

    # -- the thread -----------------------------------------------------------------------------

    def _answer(self, codes: list[Code]) -> None:
        named: list[tuple[int, V8Code]] = []
        try:
            for code in codes:
                self._name(code, named)
        finally:  # somebody waits for each
            self._on_named(len(codes), named)

    def _end(self) -> None:
        if self._memory is not None:
            self._memory.close()

    def _name(self, code: Code, named: list[tuple[int, V8Code]]) -> None:
        """Append what a record stands for, and those that can be named by it."""
        if code.detail[0] >> V8_KIND_SHIFT == V8_CODE_IS_REGEXP:
            found = V8Code(code.code_id, None, self._functions, inlines=False, is_regexp=True)
            named.append((code.code_id, found))
            return
        reader = None if code.is_gone else self._reader(code.recipe_id)
        places = None if reader is None else self._read(code, reader)
        keys = () if reader is None else keys_of(code, reader[0].layout)
        if places is not None:
            self._lineless += not places.has_lines
            if not self._tables.take(places.size):
                tier, places = places.tier, CodePlaces(places.function, None)
                places.tier = tier
        earlier = self._known.add(code.code_id, keys, places)
        if places is None:
            places = self._known.places(keys)
        for code_id in (code.code_id, *earlier):
            made = places if code_id == code.code_id else earlier[code_id]
            (self._gone.add if made is None else self._gone.discard)(code_id)
            named.append((code_id, V8Code(code_id, made, self._functions, inlines=self._inlines)))

    def _read(self, code: Code, reader: tuple[Heap, Functions, bytes]) -> CodePlaces | None:
        """Read what a record refers to; None if it has changed."""
        with contextlib.suppress(MemoryReadError, OSError):
            heap, functions, lengths = reader
            return read_code(heap, functions, code, lengths)
        return None

    def _reader(self, recipe_id: int) -> tuple[Heap, Functions, bytes] | None:
        reader = self._readers.get(recipe_id)
        found = self._found(recipe_id)
        if reader is None and found is not None and found.layout is not None and self._pid:
            if self._memory is None:
                try:
                    self._memory = ProcessMemory(os.path.join(PROC, str(self._pid)))
                except OSError:  # it has ended
                    return None
            heap = Heap(self._memory, found.layout)
            reader = (heap, Functions(heap, self._tables), found.bytecode_lengths)
            self._readers[recipe_id] = reader
        return reader
