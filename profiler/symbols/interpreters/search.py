"""Find the interpreters of a process, and again when it has loaded more.

``Interpreters`` holds what was found. Each look costs one reading of ``/proc/PID/maps``, and some
40 µs for every file that was not looked at before. Files are opened only for what the loaded part
does not say, below the process's root and with its rights.

Nothing here raises for what a process or its files are: a problem is a note. One thread at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...linux.file_rights import ProcessUser
from ...linux.maps import read_maps
from ...linux.process_memory import MemoryReadError, ProcessMemory
from ...linux.procfs import PROC
from ...wire.abi import RECIPES_MAX
from ..locate.loaded_symbols import LoadedElf
from ..locate.mapped_files import MappedFile, mapped_files
from ..locate.open_file import Root
from ..locate.process_code import open_mapped
from ..object.elf import ElfError, ElfFile
from .found import CPYTHON, HOTSPOT, RUBY, V8, Checked, FoundInterpreter
from .hotspot import check as hotspot_check
from .hotspot import recipes as hotspot
from .hotspot.tables import has_tables
from .python import check, find
from .python.recipes import make_recipe
from .recipe import Recipe
from .ruby import check as ruby_check
from .ruby import recipes as ruby
from .v8 import layout as v8_layout
from .v8 import recipes as v8

# Files that are looked at in one process. Chromium maps 150.
MAX_FILES = 4096
# Files that are opened, in one process, to look for an interpreter that is not exported: 0.5 ms
# each. Smaller ones hold none: CPython has 3 MB of code and data.
MAX_OPENED_FILES = 32
MIN_OPENED_BYTES = 2 << 20
# Looks for the virtual machine of a Ruby whose file is stripped: it has none while it starts.
MAX_RUBY_LOOKS = 20
_WEAK_LOCK = "who holds its global lock is not known"
_UNTESTED = "builds without a global lock are not tested"


Location = find.Location | hotspot.Location | v8.Location | ruby.Location
_Locate = Callable[[ProcessMemory, LoadedElf, ElfFile | None], v8.Location | ruby.Location]


class _Place:
    """A file that holds an interpreter, and what is known about it."""

    def __init__(self, file: MappedFile, location: Location) -> None:
        self.file = file
        self.location = location
        self.recipe_id = 0
        self.looks = 0
        self.checked = Checked.UNSEEN
        self.found: FoundInterpreter | None = None


class Interpreters:
    """The interpreters of one process.

    Args:
        pid: the process.
        proc: where procfs is mounted.
        without: device and inode of files that hold no interpreter, for looks at many processes in
            a row; they are skipped, and further ones are added.
        inlines: whether the agent sends methods of Java that are inlined.

    Attributes:
        found: those of the last look, in the order in which they were first found.
        problem: why nothing could be looked at; "" if it could.
    """

    def __init__(
        self,
        pid: int,
        proc: str = PROC,
        without: set[tuple[str, int]] | None = None,
        *,
        inlines: bool = True,
    ) -> None:
        self._inlines = inlines
        self._without = set() if without is None else without
        self._folder = f"{proc}/{pid}"
        self._root = Root(f"{self._folder}/root", ProcessUser(pid, proc))
        self._seen: set[tuple[str, int, int]] = set()
        self._places: list[_Place] = []
        self._last_id = 0
        self._opened = 0
        self._types = check.Types(frozenset(), frozenset())  # of the program itself
        self.found: list[FoundInterpreter] = []
        self.problem = ""

    def look(self) -> list[FoundInterpreter]:
        """Look for interpreters, and check those again that had not started. Return all."""
        try:
            mappings = list(read_maps(self._folder))
            with ProcessMemory(self._folder) as memory:
                self._look(memory, mapped_files(mappings)[:MAX_FILES])
            self.problem = ""
        except (OSError, MemoryReadError) as error:
            self.problem = str(error)
        self.found = [place.found for place in self._places if place.found is not None]
        return self.found

    def recipes(self) -> list[tuple[int, ...]]:
        """Return the words of all recipes that may be used."""
        return [each.recipe.words() for each in self.found if each.recipe is not None]

    @property
    def is_settled(self) -> bool:
        """True if a further look is of use only when the process has loaded something."""
        return all(place.checked is not Checked.UNSEEN for place in self._places)

    def _look(self, memory: ProcessMemory, files: Sequence[MappedFile]) -> None:
        mapped = {file.key for file in files}
        self._places = [place for place in self._places if place.file.key in mapped]
        self._seen &= mapped
        new = [
            file
            for file in files
            if file.key not in self._seen and file.key[:2] not in self._without
        ]
        hidden: list[tuple[MappedFile, LoadedElf]] = []
        for file in new:
            try:
                elf = LoadedElf(memory, file.start)
            except MemoryReadError:
                continue  # no ELF file, or one that is being loaded: looked at again
            self._seen.add(file.key)
            if file is files[0]:
                types = find.types_of_program(elf)
                self._types = check.Types(*(frozenset({each} - {0}) for each in types))
            if find.is_exported(elf):
                self._add(memory, file, elf)
            elif has_tables(elf):
                self._add_hotspot(memory, file, elf)
            elif v8_layout.has_symbols(elf):
                self._add_opened(memory, file, elf, v8.locate)
            elif ruby.is_exported(elf):
                self._add_opened(memory, file, elf, ruby.locate)
            else:
                hidden.append((file, elf))
        if not self._places:
            self._look_into_files(memory, hidden)
            held = {place.file.key[:2] for place in self._places}
            self._without |= {file.key[:2] for file, _ in hidden} - held
        for place in self._places:
            if place.checked is Checked.UNSEEN:
                self._check(memory, place)

    def _look_into_files(
        self, memory: ProcessMemory, hidden: Sequence[tuple[MappedFile, LoadedElf]]
    ) -> None:
        """Look for an interpreter that is not exported."""
        for file, elf in hidden:
            if elf.end - elf.start < MIN_OPENED_BYTES:
                continue
            if self._opened >= MAX_OPENED_FILES:
                return
            self._opened += 1
            image = open_mapped(self._folder, self._root, file.code)
            if image is None:
                continue
            try:
                if isinstance(image.elf, ElfFile) and find.may_hold(image.elf):
                    self._add(memory, file, elf, image.elf)
            except ElfError:
                pass
            finally:
                image.close()

    def _add(
        self,
        memory: ProcessMemory,
        file: MappedFile,
        elf: LoadedElf,
        opened: ElfFile | None = None,
    ) -> None:
        if opened is not None:
            location = find.locate(memory, elf, file.path, opened)
        else:
            image = open_mapped(self._folder, self._root, file.code)
            own = image.elf if image is not None and isinstance(image.elf, ElfFile) else None
            try:
                location = find.locate(memory, elf, file.path, own)
            finally:
                if image is not None:
                    image.close()
        if location is not None:
            self._places.append(_Place(file, location))

    def _add_hotspot(self, memory: ProcessMemory, file: MappedFile, elf: LoadedElf) -> None:
        try:
            self._places.append(_Place(file, hotspot.locate(memory, elf)))
        except MemoryReadError:
            self._seen.discard(file.key)  # it is being loaded

    def _add_opened(
        self, memory: ProcessMemory, file: MappedFile, elf: LoadedElf, locate: _Locate
    ) -> None:
        image = open_mapped(self._folder, self._root, file.code)
        own = image.elf if image is not None and isinstance(image.elf, ElfFile) else None
        try:
            self._places.append(_Place(file, locate(memory, elf, own)))
        except MemoryReadError:
            self._seen.discard(file.key)  # it is being loaded
        finally:
            if image is not None:
                image.close()

    def _check(self, memory: ProcessMemory, place: _Place) -> None:
        if isinstance(place.location, hotspot.Location):
            self._check_hotspot(memory, place, place.location)
        elif isinstance(place.location, v8.Location):
            self._check_v8(place, place.location)
        elif isinstance(place.location, ruby.Location):
            self._check_ruby(memory, place, place.location)
        else:
            self._check_python(memory, place, place.location)

    def _check_hotspot(
        self, memory: ProcessMemory, place: _Place, location: hotspot.Location
    ) -> None:
        recipe_id = place.recipe_id or self._last_id + 1
        try:
            made = _within_limit(
                hotspot.make_recipe(memory, location, recipe_id, inlines=self._inlines), location
            )
        except hotspot.NotReadyError:
            place.found = _found_hotspot(place, location, None, "", has_started=False)
            return
        except MemoryReadError:
            return
        if isinstance(made, Recipe):
            place.checked, reason = hotspot_check.check(memory, made)
            if place.checked is Checked.WRONG:
                made = f"{location.version}: a build that is not known ({reason}): "
                made += "its methods are shown as [jit] and the machine's own functions"
        if not isinstance(made, Recipe):
            place.checked = Checked.WRONG
            place.found = _found_hotspot(place, location, None, made)
            return
        place.recipe_id = recipe_id
        self._last_id = max(self._last_id, recipe_id)
        routines = hotspot.routines_of(memory, location, made)
        if place.found is None or place.found.routines != routines:
            place.checked = Checked.UNSEEN  # its compilers may be about to add some
        place.found = replace(_found_hotspot(place, location, made, ""), routines=routines)

    def _check_v8(self, place: _Place, location: v8.Location) -> None:
        recipe_id = place.recipe_id or self._last_id + 1
        made = _within_limit(v8.make_recipe(location, recipe_id), location)
        recipe = made if isinstance(made, Recipe) else None
        place.checked = Checked.WRONG if recipe is None else Checked.FITS
        if recipe is not None:
            place.recipe_id = recipe_id
            self._last_id = max(self._last_id, recipe_id)
        place.found = FoundInterpreter(
            place.recipe_id,
            V8,
            location.version,
            location.numbers[:2],
            place.file.path,
            recipe,
            made if isinstance(made, str) else "",
            layout=None if isinstance(location.layout, str) else location.layout,
            bytecode_lengths=location.bytecode_lengths,
        )

    def _check_ruby(self, memory: ProcessMemory, place: _Place, location: ruby.Location) -> None:
        recipe_id = place.recipe_id or self._last_id + 1
        location = ruby.with_machine(memory, location)
        place.looks += 1
        made = _within_limit(ruby.make_recipe(location, recipe_id), location)
        is_starting = location.is_without_machine and place.looks < MAX_RUBY_LOOKS
        place.checked = Checked.UNSEEN if is_starting else Checked.WRONG
        if isinstance(made, Recipe):
            place.checked, reason = ruby_check.check(memory, made)
            if place.checked is Checked.WRONG:
                made = f"{location.version}: a build that is not known ({reason}): "
                made += ruby.NOT_SHOWN
        recipe, note = None, made if isinstance(made, str) else ""
        if isinstance(made, Recipe) and place.checked is Checked.FITS:
            recipe, missing = ruby.with_names(memory, location, made)
            note = f"{location.version}: {missing}" if missing else ""
            place.recipe_id = recipe_id
            self._last_id = max(self._last_id, recipe_id)
        place.found = FoundInterpreter(
            place.recipe_id,
            RUBY,
            location.version,
            location.numbers,
            place.file.path,
            recipe,
            note,
            has_started=place.checked is not Checked.UNSEEN,
        )

    def _check_python(self, memory: ProcessMemory, place: _Place, location: find.Location) -> None:
        recipe_id = place.recipe_id or self._last_id + 1
        made = _within_limit(make_recipe(memory, location, recipe_id), location)
        if not isinstance(made, Recipe):
            place.checked = Checked.WRONG
            place.found = _found(place, location, None, made)
            return
        place.recipe_id = recipe_id
        self._last_id = max(self._last_id, recipe_id)
        types = check.Types(
            self._types.code | ({location.code_type} - {0}),
            self._types.string | ({location.string_type} - {0}),
        )
        result = check.check(memory, made, types)
        place.checked = result.checked
        if result.checked is Checked.WRONG:
            note = f"{location.version}: a build that is not known ({result.reason}): "
            note += "its functions are shown as the interpreter's own"
            place.found = _found(place, location, None, note)
            return
        notes = []
        if location.version is not None and location.version.is_free_threaded:
            notes.append(_UNTESTED)
        if not result.has_lock and result.checked is Checked.FITS:
            made = _without_lock(made)
            notes.append(_WEAK_LOCK)
        code_type = result.code_type or next(iter(self._types.code), 0)
        if code_type:
            made = Recipe({**made.numbers, "code_type_addr": code_type})
        is_usable = made["code_type_addr"] != 0
        note = f"{location.version}: {'; '.join(notes)}" if notes else ""
        found = _found(place, location, made if is_usable else None, note)
        place.found = replace(found, has_started=result.has_started)


def _within_limit(made: Recipe | str, location: Location) -> Recipe | str:
    """Return the recipe, or why there is none: the agent has room for ``RECIPES_MAX``."""
    if isinstance(made, Recipe) and made["id"] > RECIPES_MAX:
        return f"{location.version}: only {RECIPES_MAX} interpreters are shown"
    return made


def find_interpreters(pid: int, proc: str = PROC) -> list[FoundInterpreter]:
    """Return the interpreters of a process; none if it has none or may not be looked at.

    Args:
        pid: the process.
        proc: where procfs is mounted.
    """
    return Interpreters(pid, proc).look()


def _found(
    place: _Place, location: find.Location, recipe: Recipe | None, note: str
) -> FoundInterpreter:
    version = location.version
    return FoundInterpreter(
        place.recipe_id,
        CPYTHON,
        "CPython" if version is None else str(version),
        (0, 0) if version is None else version.minor_version,
        place.file.path,
        recipe,
        note,
        is_free_threaded=version is not None and version.is_free_threaded,
    )


def _found_hotspot(
    place: _Place,
    location: hotspot.Location,
    recipe: Recipe | None,
    note: str,
    *,
    has_started: bool = True,
) -> FoundInterpreter:
    return FoundInterpreter(
        place.recipe_id,
        HOTSPOT,
        location.version,
        (location.major, 0),
        place.file.path,
        recipe,
        note,
        has_started=has_started,
    )


def _without_lock(recipe: Recipe) -> Recipe:
    kept = {k: v for k, v in recipe.numbers.items() if "gil" not in k}
    return Recipe(kept)
