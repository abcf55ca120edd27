"""Name the functions of interpreted programs: code id and position → function, file and line.

The agent sends each code object once, before the first stack that contains it. Its addresses are
named at once, in the thread of the caller. Where the record of a code object is missing (its batch
was dropped), addresses wait until it is sent again.

Functions of Python before 3.11 get a second, better name once their source file is read
(``python.class_finder``). Nothing here raises for what the target sends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence

from ...model import MANAGED, SymbolSource
from ...recording.names.table import SymbolTable
from ...wire.events import Code
from ..locate.open_file import Root
from ..names.limits import Budgets
from .found import HOTSPOT, RUBY, V8, FoundInterpreter
from .hotspot.names import JavaCode, JavaNames
from .hotspot.routines import Routine
from .python.class_finder import ClassFinder
from .python.derived_names import SourceNames
from .python.names import PythonCode, PythonNames
from .ruby.names import RubyCode, RubyNames
from .v8.mapped_places import SourceMap
from .v8.names import V8Code, V8Names
from .v8.scripts import Script
from .v8.source_maps import SourceMaps

_CODE_MASK = 0xFFFFFFFF
_POSITION_SHIFT = 32
# Code ids that are kept. Each costs a pointer; their contents are bounded by the budgets.
_MAX_CODE_IDS = 1 << 24
_MAX_NAMELESS = 1 << 16
_MAX_ASKED = 1 << 18
_CLASS_FOUND = "class found in the source file"
_FUNCTION_FOUND = "function around it found in the source file"

# Address id, code, and position in it.
_Named = tuple[int, "PythonCode | JavaCode | V8Code | RubyCode", int]
# Runtime → the source of its names, in the list of sources.
_SOURCES = {HOTSPOT: "java", V8: "javascript", RUBY: "ruby"}


class ManagedNames:
    """The names of interpreted functions; see the module docstring. Any thread may call it.

    Args:
        table: receives the names.
        roots: where the paths of the target are valid.
        budgets: what all modules may use together.
        pid: the process, for what is read in its memory; None if it has ended or runs elsewhere.
        inlines: whether inlined functions become frames.
    """

    def __init__(
        self,
        table: SymbolTable,
        roots: Sequence[Root] = (),
        budgets: Budgets | None = None,
        *,
        pid: int | None = None,
        inlines: bool = True,
    ) -> None:
        budgets = budgets or Budgets()
        self._table = table
        self._changed = threading.Condition()
        self._interpreters: dict[int, FoundInterpreter] = {}
        self._silent: list[FoundInterpreter] = []  # those without a recipe
        self._names = PythonNames(self._version_of, budgets.names, budgets.table_bytes)
        self._java = JavaNames(
            self._number_base_of, self._routines_of, budgets.names, budgets.table_bytes
        )
        self._ruby = RubyNames(budgets.names, budgets.table_bytes)
        self._finder = ClassFinder(roots, self._found_classes)
        self.source_maps = SourceMaps(roots, self._found_map, budgets.table_bytes)
        self._v8 = V8Names(
            pid,
            lambda recipe_id: self._interpreters.get(recipe_id),
            self._named_v8,
            budgets.names,
            budgets.table_bytes,
            inlines=inlines,
        )
        self._asked_count = 0  # records that are being read
        # By code: addresses of functions that could not be read yet.
        self._nameless: dict[int, list[tuple[int, int]]] = {}
        self._nameless_count = 0
        self._codes: dict[int, PythonCode | JavaCode | V8Code | RubyCode] = {}
        self._orphans: dict[int, list[tuple[int, int]]] = {}
        self._orphan_count = 0
        self._bare: dict[str, list[_Named]] = {}  # by source file
        self._bare_count = 0
        self._closing = False

    def set_interpreters(self, found: Iterable[FoundInterpreter]) -> None:
        """Say which interpreters there are; those that were known before are kept."""
        with self._changed:
            found = list(found)
            self._interpreters |= {each.recipe_id: each for each in found if each.recipe_id}
            self._silent = [each for each in found if not each.recipe_id]

    def add_codes(self, codes: Iterable[Code]) -> None:
        """Add code objects, and name the addresses that waited for them."""
        with self._changed:
            named: list[_Named] = []
            asked: list[Code] = []
            for code in codes:
                runtime = self._runtime_of(code.recipe_id)
                known = self._codes.get(code.code_id)
                is_nameless = isinstance(known, V8Code) and known.is_nameless
                if (known and not is_nameless) or len(self._codes) >= _MAX_CODE_IDS:
                    continue
                if runtime == V8:
                    # Also one that is being read: it may have moved before it could be.
                    if self._asked_count + len(asked) < _MAX_ASKED:
                        asked.append(code)
                    continue
                names = self._names_of(runtime)
                named += self._waiting_for(code.code_id, names.code(code))
            self._set(named)
            self._asked_count += len(asked)
        if asked:
            self._v8.ask(asked)

    def submit(self, addresses: Iterable[tuple[int, int]]) -> None:
        """Name addresses.

        Args:
            addresses: address ids, each once, and ``RawFrame.addr``.
        """
        with self._changed:
            named: list[_Named] = []
            for address_id, addr in addresses:
                code_id, position = addr & _CODE_MASK, addr >> _POSITION_SHIFT
                code = self._codes.get(code_id)
                if code is None:
                    self._orphans.setdefault(code_id, []).append((address_id, position))
                    self._orphan_count += 1
                else:
                    named.append((address_id, code, position))
            self._set(named)

    @property
    def pending(self) -> int:
        """The number of addresses without their final names."""
        return self._orphan_count + self._bare_count

    @property
    def is_idle(self) -> bool:
        """True if all addresses whose code has come have their final names."""
        return self._closing or not (self._bare_count or self._asked_count)

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until that is so; False after a timeout."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            return self._changed.wait_for(lambda: self.is_idle, deadline - time.monotonic())

    def sources(self) -> list[SymbolSource]:
        """Return a line for each interpreter."""
        with self._changed:
            found = []
            # The first one stands for all that has the number of interpreted frames.
            for index, each in enumerate((*self._interpreters.values(), *self._silent)):
                missing = self._missing(each.runtime) if each.recipe else ""
                note = "; ".join(filter(None, (each.note, missing)))
                source = "none" if each.recipe is None else _SOURCES.get(each.runtime, "python")
                has_lines = each.recipe is not None
                found.append(SymbolSource(MANAGED - index, each.version, source, note, has_lines))
            return found

    def _missing(self, runtime: str) -> str:
        if runtime == V8:
            return "; ".join(filter(None, (self._v8.note, self.source_maps.note)))
        return self._names_of(runtime).note

    def _names_of(self, runtime: str) -> PythonNames | JavaNames | RubyNames:
        if runtime == RUBY:
            return self._ruby
        return self._java if runtime == HOTSPOT else self._names

    def close(self) -> None:
        """End the thread. Names that are missing then will not be found."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._finder.close()
        self.source_maps.close()
        self._v8.close()

    def _runtime_of(self, recipe_id: int) -> str:
        found = self._interpreters.get(recipe_id)
        return "" if found is None else found.runtime

    def _waiting_for(
        self, code_id: int, made: PythonCode | JavaCode | V8Code | RubyCode
    ) -> list[_Named]:
        """Keep a code, and return the addresses that waited for it. The lock is held."""
        self._codes[code_id] = made
        waiting = self._orphans.pop(code_id, ())
        self._orphan_count -= len(waiting)
        return [(address_id, made, position) for address_id, position in waiting]

    def _number_base_of(self, recipe_id: int) -> int:
        found = self._interpreters.get(recipe_id)
        return found.recipe["number_base"] if found is not None and found.recipe else 0

    def _routines_of(self, recipe_id: int) -> tuple[Routine, ...]:
        found = self._interpreters.get(recipe_id)
        return () if found is None else found.routines

    def _version_of(self, recipe_id: int) -> tuple[int, int]:
        found = self._interpreters.get(recipe_id)
        return (0, 0) if found is None else found.minor_version

    def _set(self, named: Sequence[_Named]) -> None:
        """Give names to addresses. The lock is held."""
        if not named:
            return
        self._table.set_many(
            [address_id for address_id, _, _ in named],
            [code.frames_at(position) for _, code, position in named],
        )
        for each in named:
            if isinstance(each[1], JavaCode):
                self._java.see(each[2])
            elif isinstance(each[1], V8Code) and each[1].is_nameless:
                self._keep_nameless(each[0], each[1], each[2])
            source = each[1].source
            if source and not self._closing:
                if source not in self._bare:
                    self._ask_for(each[1])
                self._bare.setdefault(source, []).append(each)
                self._bare_count += 1

    def _ask_for(self, code: PythonCode | JavaCode | V8Code | RubyCode) -> None:
        """Have the file read that says more about a function."""
        if not isinstance(code, V8Code):
            self._finder.ask(code.source)
        elif code.awaited is not None:
            self.source_maps.ask(code.awaited)

    def _keep_nameless(self, address_id: int, code: V8Code, position: int) -> None:
        """Keep an address for the time when its function can be read. The lock is held."""
        if self._nameless_count < _MAX_NAMELESS:
            self._nameless.setdefault(code.code_id, []).append((address_id, position))
            self._nameless_count += 1

    # -- the thread that reads V8's names --------------------------------------------------------

    def _named_v8(self, answered: int, found: list[tuple[int, V8Code]]) -> None:
        """Name the addresses that waited for these codes: what so many records stand for."""
        best: dict[int, V8Code] = {}  # one of them may be there twice: without a name, and with it
        for code_id, made in found:
            if code_id not in best or not made.is_nameless:
                best[code_id] = made
        with self._changed:
            self._asked_count -= answered
            named: list[_Named] = []
            for code_id, made in best.items():
                if code_id in self._codes and made.is_nameless:
                    continue
                named += self._waiting_for(code_id, made)
                nameless = () if made.is_nameless else self._nameless.pop(code_id, ())
                self._nameless_count -= len(nameless)
                named += ((address_id, made, position) for address_id, position in nameless)
            self._set(named)
            self._changed.notify_all()

    # -- the class finder's thread --------------------------------------------------------------

    def _found_classes(self, path: str, names: SourceNames | None) -> None:
        """Give better names to the functions of a file."""
        with self._changed:
            waiting = self._take_bare(path)
            for code in {id(code): code for _, code, _ in waiting}.values():
                if not isinstance(code, PythonCode):
                    continue
                code.source = ""
                if names is None:
                    continue
                name, is_in_class = names.qualified(code.name, code.first_line)
                if name != code.name:
                    mark = _CLASS_FOUND if is_in_class else _FUNCTION_FOUND
                    file = code.function.file
                    code.rename(self._names.function(file, name, code.first_line, mark))
            if names is not None:
                self._set(waiting)
            self._changed.notify_all()

    # -- the thread of the source maps ----------------------------------------------------------

    def _found_map(self, key: str, script: Script, found: SourceMap | None) -> None:
        """Give the functions of a script the places that they were made from."""
        with self._changed:
            script.key, script.map = "", found
            waiting = self._take_bare(key)
            for code in {id(code): code for _, code, _ in waiting}.values():
                if isinstance(code, V8Code):
                    code.forget_frames()
            self._set(waiting)
            self._changed.notify_all()

    def _take_bare(self, key: str) -> list[_Named]:
        waiting = self._bare.pop(key, [])
        self._bare_count -= len(waiting)
        return waiting
