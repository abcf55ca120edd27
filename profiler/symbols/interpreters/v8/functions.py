"""Read functions (SharedFunctionInfo): names, scripts, places in the source.

A function's name is a string, or in its ScopeInfo, whose words are: flags, parameters, the number n
of local variables, from 13 on start and end of the function; n names and n infos, or for many a
table and n infos; the function's own name with a slot; the name that the engine inferred; before 13
start and end. Which of these are there stands in flags that move with each version, so they are
told by what they are. What follows is another scope.

Source: src/objects/{shared-function-info,scope-info}.tq.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...names.limits import Budget
from .heap import TAG, Heap, MemoryReadError, is_object, small_integer
from .mapped_places import Spot
from .scripts import Script, read_script

_SCOPE_FIRST = 8  # bytes before the words of a ScopeInfo
_MANY_LOCALS = 75  # from here on their names are in a table
_MAX_LOCALS = 1 << 20
_NAME_WORDS = 14  # that are looked at behind the variables
_MAX_NAME_CHARACTERS = 4096
_DEBUG_WORDS = 8  # of a DebugInfo
_START, _END = 16, 20  # i32 of a function that is not compiled
_MAX_SCRIPTS = 1 << 14


@dataclass(frozen=True)
class SharedFunction:
    """One function of a program."""

    name: str  # "" if it has none
    start: int  # offset in the script's source; -1 if unknown
    script: Script

    @property
    def is_whole(self) -> bool:
        """True for the code of a script outside of all functions."""
        return not self.name and self.start == 0

    @property
    def spot(self) -> Spot:
        """Where it begins."""
        return self.script.spot_of_all() if self.is_whole else self.script.spot(self.start)

    @property
    def own_name(self) -> str:
        """Its name in the source that the script was made from, if that is known."""
        return self.script.name(self.name, self.start)


class Functions:
    """The functions of one V8. Used by one thread at a time.

    Args:
        heap: the heap they lie in.
        budget: the bytes that line ends may take.
    """

    def __init__(self, heap: Heap, budget: Budget) -> None:
        self._heap = heap
        self._budget = budget
        # By address, with the words that tell a script from another that gets its place.
        self._scripts: dict[tuple[int, int, int], Script] = {}

    def read(self, tagged: int) -> SharedFunction | None:
        """Read a function; None if the object is none, or is not one of a script.

        Raises:
            MemoryReadError: it cannot be read.
        """
        heap, layout = self._heap, self._heap.layout
        if heap.kind(tagged) != layout.shared_kind:
            return None
        script = self._script(heap.field(tagged, layout.shared_script))
        if script is None:
            return None
        named = heap.field(tagged, layout.shared_name)
        name, start = "", -1
        if is_object(named) and heap.kind(named) == layout.scope_kind:
            name, start = self._scope(named)
        elif is_object(named):
            name = self._name(named)
        if start < 0:
            start = self._uncompiled_start(tagged)
        return SharedFunction(name, start, script)

    def _script(self, tagged: int) -> Script | None:
        heap, layout = self._heap, self._heap.layout
        kind = heap.kind(tagged)
        if kind == layout.debug_info_kind:  # the script is in it
            fields = (heap.field(tagged, 8 * i) for i in range(1, _DEBUG_WORDS))
            tagged = next((each for each in fields if self._is_script(each)), 0)
            kind = layout.script_kind if tagged else 0
        if kind != layout.script_kind:
            return None
        key = (
            tagged,
            heap.field(tagged, layout.script_name),
            heap.field(tagged, layout.script_source),
        )
        script = self._scripts.get(key)
        if script is None or not script.has_lines:
            if len(self._scripts) >= _MAX_SCRIPTS:
                self._scripts.clear()
            script = self._scripts[key] = read_script(heap, tagged, self._budget)
        return script

    def _is_script(self, tagged: int) -> bool:
        return is_object(tagged) and self._heap.kind(tagged) == self._heap.layout.script_kind

    def _name(self, tagged: int) -> str:
        text = self._heap.text(tagged, _MAX_NAME_CHARACTERS)
        return str(text or "")

    def _scope(self, tagged: int) -> tuple[str, int]:
        """Return the name and the start of the function whose scope this is."""
        heap, layout = self._heap, self._heap.layout
        first = _SCOPE_FIRST
        count = small_integer(heap.field(tagged, first + 8 * layout.scope_locals))
        if count is None or not 0 <= count <= _MAX_LOCALS:
            return "", -1
        start = -1
        if layout.has_fixed_scope_positions:
            found = small_integer(heap.field(tagged, first + 8 * (layout.scope_first - 2)))
            start = -1 if found is None else found
        skipped = layout.scope_first + (2 * count if count < _MANY_LOCALS else 1 + count)
        words = heap.words_at(tagged - TAG + first + 8 * skipped, _NAME_WORDS)
        return self._own_words(words, start)

    def _own_words(self, words: tuple[int, ...], start: int) -> tuple[str, int]:
        heap, layout = self._heap, self._heap.layout
        name: str | None = None
        before: int | None = None  # a small integer right before
        is_slot_next = False
        for word in words:
            if is_object(word):
                kind = heap.kind(word)
                if kind in (layout.scope_kind, layout.map_object_kind, 0):
                    break
                before = None
                if not heap.is_string(word):
                    continue
                is_slot_next = name is None
                if not name:
                    name = self._name(word)
                continue
            number = small_integer(word)
            if number is None:
                break
            if is_slot_next:
                is_slot_next = False
            elif before is not None and not layout.has_fixed_scope_positions and before <= number:
                return name or "", before
            else:
                before = number
        return name or "", start

    def _uncompiled_start(self, tagged: int) -> int:
        heap, layout = self._heap, self._heap.layout
        for offset in (layout.shared_data, layout.shared_data + 8):
            data = heap.field(tagged, offset)
            if is_object(data) and heap.kind(data) in layout.uncompiled_kinds:
                return heap.integer(data, _START)
        return -1


__all__ = ["TAG", "Functions", "MemoryReadError", "SharedFunction"]
