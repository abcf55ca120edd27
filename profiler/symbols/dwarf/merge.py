"""Merge debug information from several files into one plain ELF file with its functions and lines.

``symbolic``, which makes symcaches, reads neither dwz's common files nor split units. The main file
alone shows whether it needs this (:func:`is_scattered`); all other files go directly to symbolic.

Missing parts are left out. Without a unit's .dwo file its lines remain; without dwz's common file
the names of some inlined functions are unknown. A note reports this.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass

from ..locate.debug_links import alt_link, shown
from ..object.object_file import ObjectFile
from . import constants as dw
from .attributes import DwarfError
from .functions import Names, walk
from .sections import load, read_section
from .split import SplitPlaces, SplitUnits, is_skeleton
from .units import DwarfFile, Unit
from .writer import Writer, line_table_of

# CPU time; 7 MB of .debug_info are read in a second. It is less than the worker's own limit, so
# that enough time remains to make a symcache.
DEADLINE_S = 12.0
DEADLINE_S_PER_MB = 0.2
_LOOKED_AT = 1000  # units of DWARF 4 that is_scattered() examines
_LOOKED_FOR = 100  # split units that missing_parts() looks for


@dataclass(frozen=True)
class Merged:
    """The merged file, and a note on what is missing in it (``""``: nothing).

    ``may_be_kept``: nobody may write its parts who may not write the file that names them.
    """

    elf: bytes
    note: str
    may_be_kept: bool


def is_scattered(elf: ObjectFile) -> bool:
    """Return True if a file's DWARF has parts in other files.

    Raises:
        DwarfError, ObjectError: damaged.
    """
    if alt_link(elf) is not None:
        return True
    # Every kind of split unit uses this section, but clang's DWARF 5 always uses it.
    if elf.section(".debug_addr") is None and elf.section(".zdebug_addr") is None:
        return False
    file = DwarfFile(
        info=read_section(elf, ".debug_info"), abbrev=read_section(elf, ".debug_abbrev")
    )
    try:
        if any(unit.kind == dw.UT_SKELETON for unit in file.units):
            return True
        # In DWARF 4 only the root entry shows a skeleton, and reading it requires to parse a table
        # of abbreviations. In files with an address table, most units of DWARF 4 are skeletons.
        old = (unit for unit in file.units if unit.version < 5)
        return any(map(is_skeleton, itertools.islice(old, _LOOKED_AT)))
    except IndexError as error:
        raise DwarfError("truncated debug information") from error


def missing_parts(elf: ObjectFile, alt: ObjectFile | None, places: SplitPlaces) -> str:
    """Describe which parts of a file's debug information cannot be found; ``""`` if none.

    This is quicker than :func:`merge`: it looks for the first hundred split units, and reads none.

    Raises:
        DwarfError, ObjectError: damaged.
    """
    if not is_scattered(elf):
        return ""
    link = alt_link(elf)
    split, names = SplitUnits(places), Names()
    names.missing = link is not None and alt is None
    try:
        skeletons = filter(is_skeleton, load(elf).units)
        for unit in itertools.islice(skeletons, _LOOKED_FOR):
            split.find(unit)
    except IndexError as error:
        raise DwarfError("truncated debug information") from error
    return _note(split, names, "" if link is None else link.name)


def merge(
    elf: ObjectFile,
    alt: ObjectFile | None = None,
    places: SplitPlaces | None = None,
    deadline_s: float | None = None,
) -> Merged:
    """Merge the debug information of a program.

    Args:
        elf: the file with DWARF.
        alt: dwz's common file, if it was found.
        places: where to look for split units.
        deadline_s: CPU time after which only the lines of units are written; the default depends on
            the size of the file.

    Raises:
        DwarfError, ObjectError: damaged, or too large.
    """
    link = alt_link(elf)
    alt_file = None if alt is None or link is None else load(alt)
    main = load(elf, alt=alt_file)
    if deadline_s is None:
        deadline_s = DEADLINE_S + len(main.info) / 1e6 * DEADLINE_S_PER_MB
    split = SplitUnits(places or SplitPlaces())
    line = read_section(elf, ".debug_line")
    units = _Units(main, line, split, time.process_time() + deadline_s)
    units.write()
    note = _note(split, units.names, "" if link is None else link.name, units.damaged, units.late)
    whole = units.writer.elf(elf.machine, elf.base_addr, line, main.line_strings)
    return Merged(whole, note, not split.are_of_others)


class _Units:
    """Writes all units.

    Attributes:
        damaged: number of units that could not be read, or not to their end.
        late: number of units that were not read before the deadline.
    """

    def __init__(self, main: DwarfFile, line: bytes, split: SplitUnits, end_s: float) -> None:
        self.names = Names()
        self.writer = Writer(main.strings)
        self.damaged = self.late = 0
        self._main = main
        self._line = line
        self._split = split
        self._end_s = end_s

    def write(self) -> None:
        for unit in self._main.units:
            if unit.kind in (dw.UT_TYPE, dw.UT_PARTIAL):
                continue
            try:
                self._write(unit)
            except (DwarfError, IndexError):
                self.damaged += 1

    def _write(self, unit: Unit) -> None:
        abbreviation, values = unit.root
        if abbreviation.tag not in (dw.TAG_COMPILE_UNIT, dw.TAG_SKELETON_UNIT):
            return
        extent = unit.ranges(values)
        name, folder = (unit.text(values.get(at)) or b"" for at in (dw.AT_NAME, dw.AT_COMP_DIR))
        self.writer.begin_unit(name, folder, line_table_of(self._line, values))
        try:
            self._check()
            source = self._split.find(unit) if is_skeleton(unit) else None
            walk(source or unit, self.names, self.writer, self._check)
        except TimeoutError:
            self.late += 1
        finally:
            self.writer.end_unit(extent)

    def _check(self) -> None:
        if time.process_time() > self._end_s:
            raise TimeoutError


def _note(split: SplitUnits, names: Names, alt_name: str, damaged: int = 0, late: int = 0) -> str:
    notes = []
    for files, what in ((split.missing, "not found"), (split.wrong, "of another build or damaged")):
        if files:
            some = ", ".join(sorted(set(files))[:2])
            more = f" and {len(set(files)) - 2} more" if len(set(files)) > 2 else ""
            notes.append(f"split debug information {what}: {some}{more}; lines without inlining")
    if names.missing:
        where = f"in {alt_name}, which was not found" if alt_name else "missing"
        notes.append(f"names of inlined functions are {where}")
    if late:
        notes.append(f"too much debug information: {late} units without inlined functions")
    if damaged:
        notes.append(f"damaged debug information in {damaged} of its units")
    return shown("; ".join(notes))
