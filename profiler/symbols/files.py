"""Finds and opens the files that the target runs, and the debug files that go with them.

A file is taken only when it is the right one: the mapped file itself, or one whose build-id
equals the module's. A program that was rebuilt or upgraded since it started leads to no names,
never to wrong ones. Files are opened as soon as a module is known and held open, because the
target may exit before its symbols are read.

Order for the module's own file: ``/proc/PID/map_files`` (works for deleted files; needs
CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE), ``/proc/PID/exe``, the path inside the target's root,
the path as we see it. For debug files: the user's folders, ``/usr/lib/debug/.build-id``, then
what ``.gnu_debuglink`` names in the places that GDB looks in; in the target's root, then in ours.

Source: proc(5); GDB manual, "Separate Debug Files".
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from flametap.model import Module
from flametap.symbols.elf import ElfError, ElfFile, from_bytes
from flametap.symbols.links import AltLink, alt_link, debug_link, supplement_id
from flametap.symbols.openfile import Image, OpenFile, open_image

VDSO_PATH = "[vdso]"
_DEBUG_DIR = "/usr/lib/debug"
_MAX_VDSO_BYTES = 1 << 20  # two pages on x86-64


class FilesError(Exception):
    """The right file cannot be had; the message is one line for the user."""


class _Mapping(NamedTuple):
    start: int
    end: int
    inode: int
    span: str  # "START-END" as /proc writes it
    path: str


class TargetFiles:
    """Files as one process sees them.

    Args:
        pid: the target, or ``None`` to take module paths as paths of this machine.
        symbol_dirs: the user's folders with debug files, flat or laid out by build-id.
    """

    def __init__(self, pid: int | None, symbol_dirs: Sequence[str] = ()) -> None:
        self._proc = None if pid is None else f"/proc/{pid}"
        # Where a path may mean something: to the target, then to us.
        self._roots = ([] if self._proc is None else [f"{self._proc}/root"]) + [""]
        self._symbol_dirs = symbol_dirs
        self._mappings: list[_Mapping] = []

    def is_main_executable(self, path: str) -> bool:
        """True when ``path`` is the program that the target runs."""
        try:
            return self._proc is not None and os.readlink(f"{self._proc}/exe") == path
        except OSError:
            return False

    def open_module(self, module: Module) -> Image:
        """Opens the file that a module was mapped from.

        Raises:
            FilesError: it is gone, forbidden, replaced by another one, or not an ELF file.
        """
        mapping = self._mapping_of(module)
        if module.path == VDSO_PATH:
            return self._open_vdso(module, mapping)
        problem = "not found"
        for root, via in self._module_places(module, mapping):
            try:
                image = open_image(module.path, root, via)
            except FileNotFoundError:
                continue
            except OSError as error:
                problem = error.strerror or str(error)
                continue
            except ValueError as error:  # ElfError, or a NUL in the path
                problem = str(error)
                continue
            elf, file = image
            assert file is not None
            same_file = bool(via) or (mapping is not None and mapping.inode == file.inode)
            if module.build_id:
                is_right = elf.build_id == module.build_id
            else:  # has none, or it could not be read in the target
                is_right = same_file or (mapping is None and not elf.build_id)
            if is_right:
                return image
            file.close()
            problem = "the file on disk is another one than the process runs; not used"
        if mapping is not None and mapping.path.endswith(" (deleted)"):
            problem = "the file was deleted since the process started; run as root to read it"
        raise FilesError(problem)

    def open_debug_file(self, module: Module, elf: ElfFile) -> Image | None:
        """Opens the separate debug file of ``elf``, the module's own file, if there is one.

        Returns:
            a file with a symbol table or DWARF, checked by build-id, or by CRC if there is none.
        """
        link = debug_link(elf)
        for root, path in self._debug_places(module.path, elf.build_id, link.name if link else ""):
            image = _try_open(root, path)
            if image is None:
                continue
            found, file = image
            assert file is not None
            try:
                if elf.build_id:
                    is_right = found.build_id == elf.build_id
                else:
                    is_right = link is not None and file.crc32() == link.crc32
            except ElfError:
                is_right = False
            if is_right and (found.has_symtab or found.debug_info_bytes):
                return image
            image.close()
        return None

    def open_alt_file(self, image: Image) -> Image | None:
        """Opens the file in which dwz put what several debug files have in common.

        Args:
            image: a file with DWARF: a module's own or its debug file.

        Returns:
            the file that ``.gnu_debugaltlink`` or ``.debug_sup`` of ``image`` names, checked by
            its build-id; ``None`` when it names none, or the right one was not found.
        """
        try:
            link = alt_link(image.elf)
        except ElfError:
            return None
        if link is None:
            return None
        for root, path in self._alt_places(image.file, link):
            found = _try_open(root, path)
            if found is None:
                continue
            with contextlib.suppress(ElfError):
                if supplement_id(found.elf) == link.build_id:
                    return found
            found.close()
        return None

    def _module_places(self, module: Module, mapping: _Mapping | None) -> Iterator[tuple[str, str]]:
        """Root, and the path that leads to the mapped file itself whatever its name, if any."""
        root = self._roots[0]
        if self._proc is not None:
            if mapping is not None:
                yield root, f"{self._proc}/map_files/{mapping.span}"
            if self.is_main_executable(module.path):
                yield root, f"{self._proc}/exe"
            yield root, ""
        yield "", ""

    def _debug_places(
        self, module_path: str, build_id: str, link: str
    ) -> Iterator[tuple[str, str]]:
        """Root and path of everything that may be a debug file."""
        by_build_id = _by_build_id(build_id)
        folder, name = os.path.split(module_path)
        for directory in self._symbol_dirs:
            if by_build_id:
                yield "", os.path.join(directory, ".build-id", by_build_id)
                yield "", os.path.join(directory, by_build_id)
            for file_name in (link, f"{name}.debug", name):
                if file_name:
                    yield "", os.path.join(directory, file_name)
        for root in self._roots:
            if by_build_id:
                yield root, f"{_DEBUG_DIR}/.build-id/{by_build_id}"
            if link and "/" not in link:
                yield root, f"{folder}/{link}"
                yield root, f"{folder}/.debug/{link}"
                yield root, f"{_DEBUG_DIR}{folder}/{link}"

    def _alt_places(self, file: OpenFile | None, link: AltLink) -> Iterator[tuple[str, str]]:
        """Root and path of everything that may be a common file."""
        by_build_id = _by_build_id(link.build_id)
        name = os.path.basename(link.name)
        if link.name.startswith("/"):
            yield from ((root, link.name) for root in self._roots)
        elif file is not None:
            yield file.root, os.path.normpath(f"{file.folder()}/{link.name}")
        for directory in self._symbol_dirs:
            for path in (f".build-id/{by_build_id}", by_build_id, f".dwz/{name}", name):
                yield "", os.path.join(directory, path)
        for root in self._roots:
            yield root, f"{_DEBUG_DIR}/.build-id/{by_build_id}"
            yield root, f"{_DEBUG_DIR}/.dwz/{name}"

    def _mapping_of(self, module: Module) -> _Mapping | None:
        """The line of the target's maps that holds the module's code; read again when not seen."""
        for attempt in range(2):
            for mapping in self._mappings:
                if mapping.start <= module.start < mapping.end:
                    return mapping
            if attempt == 0:
                self._mappings = self._read_mappings()
        return None

    def _read_mappings(self) -> list[_Mapping]:
        if self._proc is None:
            return []
        try:
            with open(f"{self._proc}/maps", encoding="utf-8", errors="surrogateescape") as maps:
                lines = maps.read().splitlines()
        except OSError:
            return []
        mappings = []
        for line in lines:
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and "x" in fields[1]:
                start, end = (int(part, 16) for part in fields[0].split("-"))
                mappings.append(_Mapping(start, end, int(fields[4]), fields[0], fields[5]))
        return mappings

    def _open_vdso(self, module: Module, mapping: _Mapping | None) -> Image:
        """The vDSO is in no file: its pages are copied, from us when the target's are forbidden."""
        places = []
        if self._proc is not None and mapping is not None:
            places.append((self._proc, mapping))
        places += [("/proc/self", m) for m in _own_vdso()]
        for proc, place in places:
            size = place.end - place.start
            if size > _MAX_VDSO_BYTES:
                continue
            try:
                with open(f"{proc}/mem", "rb", buffering=0) as memory:
                    data = os.pread(memory.fileno(), size, place.start)
                elf = from_bytes(data)
            except (OSError, OverflowError, ElfError):
                continue
            if elf.build_id == module.build_id or not module.build_id:
                return Image(elf, None)
        raise FilesError("cannot be read from the target's memory")


def _try_open(root: str, path: str) -> Image | None:
    try:
        return open_image(path, root)
    except (OSError, ValueError):  # not there, no ELF file, or a NUL in the path
        return None


def _by_build_id(build_id: str) -> str:
    """The path of a debug file below ``.build-id``."""
    return f"{build_id[:2]}/{build_id[2:]}.debug" if len(build_id) > 2 else ""


def _own_vdso() -> list[_Mapping]:
    own = TargetFiles(os.getpid())
    return [mapping for mapping in own._read_mappings() if mapping.path == VDSO_PATH]
