"""Debug information that lies in several files → one plain ELF file with its functions and lines.

``symbolic``, which makes symcaches, reads neither dwz's common files nor split units. Which files
need this is seen from the main file alone (:func:`is_scattered`); all others go to it directly.

What is missing is left out: without a unit's .dwo file its lines remain, without dwz's common
file the names of some inlined functions are unknown. The note says so.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass

from flametap.symbols.dwarf import constants as dw
from flametap.symbols.dwarf.attributes import DwarfError
from flametap.symbols.dwarf.functions import Names, walk
from flametap.symbols.dwarf.sections import load, read_section
from flametap.symbols.dwarf.split import SplitPlaces, SplitUnits, is_skeleton
from flametap.symbols.dwarf.units import DwarfFile, Unit
from flametap.symbols.dwarf.writer import Writer, line_table_of
from flametap.symbols.links import alt_link
from flametap.symbols.objectfile import ObjectFile

DEADLINE_S = 300.0
_LOOKED_FOR = 100  # split units, for a quick answer


@dataclass(frozen=True)
class Merged:
    """The file, and what is missing in it (``""``: nothing)."""

    elf: bytes
    note: str


def is_scattered(elf: ObjectFile) -> bool:
    """Whether a file's DWARF has parts in other files.

    Raises:
        DwarfError, ObjectError: damaged.
    """
    if alt_link(elf) is not None:
        return True
    # Every kind of split unit uses this section; so does all DWARF 5 of clang.
    if elf.section(".debug_addr") is None and elf.section(".zdebug_addr") is None:
        return False
    file = load(elf)
    try:
        return any(is_skeleton(unit) for unit in file.units)
    except IndexError as error:
        raise DwarfError("truncated debug information") from error


def missing_parts(elf: ObjectFile, alt: ObjectFile | None, places: SplitPlaces) -> str:
    """What of a file's debug information is in no file that can be found; ``""`` if nothing.

    Quicker than :func:`merge`: of split units only the first hundred are looked for, none is read.

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
    return _note(split, names, "" if link is None else link.name, 0)


def merge(
    elf: ObjectFile,
    alt: ObjectFile | None = None,
    places: SplitPlaces | None = None,
    deadline_s: float = DEADLINE_S,
) -> Merged:
    """Puts the debug information of a program together.

    Args:
        elf: the file with DWARF.
        alt: the file that dwz made common, if it was found.
        places: where split units may be.

    Raises:
        DwarfError, ObjectError: damaged, too large, or not done within ``deadline_s``.
    """
    check = _Deadline(deadline_s)
    link = alt_link(elf)
    alt_file = None if alt is None or link is None else load(alt)
    main = load(elf, alt=alt_file)
    split = SplitUnits(places or SplitPlaces())
    names = Names()
    writer = Writer(main.strings)
    line = read_section(elf, ".debug_line")
    damaged = _write_units(main, line, split, names, writer, check)
    note = _note(split, names, "" if link is None else link.name, damaged)
    return Merged(writer.elf(elf.machine, elf.base_addr, line, main.line_strings), note)


def _write_units(
    main: DwarfFile,
    line: bytes,
    split: SplitUnits,
    names: Names,
    writer: Writer,
    check: _Deadline,
) -> int:
    """Writes all units; returns how many were damaged."""
    damaged = 0
    for unit in main.units:
        check()
        if unit.kind in (dw.UT_TYPE, dw.UT_PARTIAL):
            continue
        try:
            abbreviation, values = unit.root
            if abbreviation.tag not in (dw.TAG_COMPILE_UNIT, dw.TAG_SKELETON_UNIT):
                continue
            extent = unit.ranges(values)
            line_table = line_table_of(line, values)
            source = split.find(unit) if is_skeleton(unit) else None
            texts = [unit.text(values.get(at)) or b"" for at in (dw.AT_NAME, dw.AT_COMP_DIR)]
        except (DwarfError, IndexError):
            damaged += 1
            continue
        writer.begin_unit(texts[0], texts[1], line_table)
        try:
            walk(source or unit, names, writer, check)
        except (DwarfError, IndexError):
            damaged += 1
        writer.end_unit(extent)
        _forget(source)
    return damaged


def _forget(unit: Unit | None) -> None:
    """Split units are many; what was parsed of one is of no use to the next."""
    if unit is not None:
        unit.__dict__.pop("abbreviations", None)


class _Deadline:
    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def __call__(self) -> None:
        if time.monotonic() > self._end:
            raise TimeoutError("reading its debug information takes too long")


def _note(split: SplitUnits, names: Names, alt_name: str, damaged: int) -> str:
    notes = []
    for files, what in ((split.missing, "not found"), (split.wrong, "of another build or damaged")):
        if files:
            some = ", ".join(sorted(set(files))[:2])
            more = f" and {len(set(files)) - 2} more" if len(set(files)) > 2 else ""
            notes.append(f"split debug information {what}: {some}{more}; lines without inlining")
    if names.missing:
        where = f"in {alt_name}, which was not found" if alt_name else "missing"
        notes.append(f"names of inlined functions are {where}")
    if damaged:
        notes.append(f"damaged debug information in {damaged} of its units")
    return "; ".join(notes)
