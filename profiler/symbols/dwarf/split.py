"""Find the split units (.dwo, .dwp) of a program, which ``-gsplit-dwarf`` makes.

The linker does not process them. For each unit, the program has a skeleton with the name of the
.dwo file and a 64-bit id. A unit is used only if it has that id. We look in this order: packages
``NAME.dwp`` beside the program and its debug file and in the user's folders; the .dwo file at the
compiler's path, in the target's root and in ours; then by its relative path and by its base name in
the same folders.

Source: DWARF 5, sections 3.1.3 and 7.3.2; for DWARF 4 the GCC wiki, "DebugFission".
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ..locate.open_file import OURS, Image, OpenFile, Root, image_of
from ..locate.owners import writers
from ..object.object_file import ObjectError
from . import constants as dw
from .attributes import DwarfError
from .package import Package
from .sections import load, read_section
from .units import DwarfFile, Unit

# .dwo files kept in memory. With LTO, several successive skeletons refer to the same file.
_KEPT_FILES = 4


@dataclass(frozen=True)
class SplitPlaces:
    """Where to look for split units.

    ``roots``: roots of absolute paths. ``folders``: those of the program and its debug file (below
    the roots), and the user's. ``names``: file names of the program and its debug file. ``open``:
    opens a path below one of the roots, and decides whether it may be opened. ``own_root``,
    ``own_writers``: the root in which the file with the skeletons was found, and who may write it
    (``locate.owners``).
    """

    roots: Sequence[Root] = (OURS,)
    folders: Sequence[str] = ()
    names: Sequence[str] = ()
    open: Callable[[str, Root], OpenFile] = OpenFile
    own_root: Root = OURS
    own_writers: str | None = None


class SplitUnits:
    """Finds split units by their skeletons.

    Attributes:
        missing: names of .dwo files that were not found.
        wrong: names of .dwo files that are damaged, or of another build.
        are_of_others: True once a unit came from a file that others may write than the program's.
    """

    def __init__(self, places: SplitPlaces) -> None:
        self.missing: list[str] = []
        self.wrong: list[str] = []
        self.are_of_others = False
        self._places = places
        self._packages: list[Package] | None = None
        self._files: dict[tuple[Root, str], DwarfFile] = {}

    def find(self, skeleton: Unit) -> Unit | None:
        """Return the unit of a skeleton, attached to it; ``None`` (and a record) if not found."""
        _, values = skeleton.root
        name = skeleton.text(values.get(dw.AT_DWO_NAME) or values.get(dw.AT_GNU_DWO_NAME)) or b""
        folder = skeleton.text(values.get(dw.AT_COMP_DIR)) or b""
        dwo_id = skeleton.dwo_id
        if not name or dwo_id is None:
            return None
        for package in self._all_packages():
            file = package.file_of(dwo_id)
            unit = None if file is None else _unit_of(file, dwo_id)
            if unit is not None:
                unit.attach(skeleton)
                return unit
        was_there = False
        path = os.fsdecode(name)
        for root, place in self._dwo_places(path, os.fsdecode(folder)):
            try:
                file = self._open(root, place)
                unit = None if file is None else _unit_of(file, dwo_id)
            except (DwarfError, ObjectError, IndexError):
                was_there = True
                continue
            if unit is not None:
                unit.attach(skeleton)
                return unit
            was_there |= file is not None
        (self.wrong if was_there else self.missing).append(path)
        return None

    def _dwo_places(self, name: str, folder: str) -> Iterator[tuple[Root, str]]:
        built = posixpath.join(folder, name)
        if built.startswith("/"):
            yield from ((root, built) for root in self._places.roots)
        for place in self._places.folders:
            for each in dict.fromkeys((name, posixpath.basename(name))):
                if not each.startswith("/"):
                    path = posixpath.join(place, each)
                    yield from ((root, path) for root in self._places.roots)

    def _open(self, root: Root, path: str) -> DwarfFile | None:
        key = (root, path)
        file = self._files.get(key)
        if file is None:
            image = self._open_image(path, root)
            if image is None:
                return None
            try:
                file = load(image.elf, ".dwo")
            finally:
                image.close()
            while len(self._files) >= _KEPT_FILES:
                del self._files[next(iter(self._files))]
            self._files[key] = file
        return file

    def _all_packages(self) -> list[Package]:
        if self._packages is None:
            self._packages = []
            for folder in self._places.folders:
                for name in self._places.names:
                    for root in self._places.roots:
                        self._add_package(posixpath.join(folder, f"{name}.dwp"), root)
        return self._packages

    def _add_package(self, path: str, root: Root) -> None:
        assert self._packages is not None
        try:
            image = self._open_image(path, root)
            if image is None:
                return
            try:
                index = read_section(image.elf, ".debug_cu_index")
                self._packages.append(Package(load(image.elf, ".dwo"), index))
            finally:
                image.close()
        except (DwarfError, ObjectError):
            self.wrong.append(posixpath.basename(path))

    def _open_image(self, path: str, root: Root) -> Image | None:
        places = self._places
        try:
            file = places.open(path, root)
            by_same_users = writers(file) == places.own_writers
        except (OSError, ValueError):  # ValueError: a NUL in the path
            return None
        image = image_of(file)
        self.are_of_others |= root != places.own_root or not by_same_users
        return image


def is_skeleton(unit: Unit) -> bool:
    """Return True if a unit of a program is a skeleton of one in another file."""
    if unit.version >= 5:
        return unit.kind == dw.UT_SKELETON
    return dw.AT_GNU_DWO_NAME in unit.root[1]


def _unit_of(file: DwarfFile, dwo_id: int) -> Unit | None:
    for unit in file.units:
        if unit.kind in (dw.UT_SPLIT_TYPE, dw.UT_TYPE):
            continue
        if unit.version < 5:
            _ = unit.root  # reading it sets dwo_id
        if unit.dwo_id == dwo_id:
            return unit
    return None
