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

import os
import stat
import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from flametap.model import Module
from flametap.symbols.elf import ElfError, ElfFile, from_bytes

VDSO_PATH = "[vdso]"
_DEBUG_DIR = "/usr/lib/debug"
_MAX_VDSO_BYTES = 1 << 20  # two pages on x86-64


class FilesError(Exception):
    """The right file cannot be had; the message is one line for the user."""


class OpenFile:
    """A regular file held open for reading from any thread.

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        # Non-blocking: the path may lead to a FIFO in somebody else's container.
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        status = os.fstat(self._fd)
        if not stat.S_ISREG(status.st_mode):
            self.close()
            raise OSError(0, "not a regular file", path)
        self.size = status.st_size
        self.inode = status.st_ino

    @property
    def fd_path(self) -> str:
        """A path to the open file that stays right when the name is reused."""
        return f"/proc/self/fd/{self._fd}"

    def read(self, offset: int, size: int) -> bytes:
        """Up to ``size`` bytes at a file_offset.

        Raises:
            ElfError: the file cannot be read (any more).
        """
        try:
            return os.pread(self._fd, size, offset)
        except (OSError, OverflowError, MemoryError) as error:
            raise ElfError(f"cannot read {self.path}: {error}") from error

    def crc32(self) -> int:
        """CRC-32 of the whole file, as ``.gnu_debuglink`` holds it."""
        crc, offset = 0, 0
        while chunk := self.read(offset, 1 << 20):
            crc = zlib.crc32(chunk, crc)
            offset += len(chunk)
        return crc

    def close(self) -> None:
        """Gives the descriptor back; may be called again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Image(NamedTuple):
    """An ELF file and what it is read from (``None``: bytes in memory)."""

    elf: ElfFile
    file: OpenFile | None

    def close(self) -> None:
        """Closes the file, if there is one."""
        if self.file is not None:
            self.file.close()


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
        for path, is_mapped_file in self._module_paths(module, mapping):
            try:
                file = OpenFile(path)
            except OSError as error:
                if not isinstance(error, FileNotFoundError):
                    problem = error.strerror or str(error)
                continue
            try:
                elf = ElfFile(file.read, file.size)
            except ElfError as error:
                file.close()
                problem = str(error)
                continue
            same_file = is_mapped_file or (mapping is not None and mapping.inode == file.inode)
            if module.build_id:
                is_right = elf.build_id == module.build_id
            else:  # has none, or it could not be read in the target
                is_right = same_file or (mapping is None and not elf.build_id)
            if is_right:
                return Image(elf, file)
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
        link = elf.debug_link()
        for path in self._debug_paths(module.path, elf.build_id, link[0] if link else ""):
            try:
                file = OpenFile(path)
            except (OSError, ValueError):
                continue
            try:
                found = ElfFile(file.read, file.size)
                if elf.build_id:
                    is_right = found.build_id == elf.build_id
                else:
                    is_right = link is not None and file.crc32() == link[1]
            except ElfError:
                is_right = False
            if is_right and (found.has_symtab or found.debug_info_bytes):
                return Image(found, file)
            file.close()
        return None

    def _module_paths(self, module: Module, mapping: _Mapping | None) -> Iterator[tuple[str, bool]]:
        """Paths to try, and whether each leads to the mapped file itself whatever its name."""
        if self._proc is not None:
            if mapping is not None:
                yield f"{self._proc}/map_files/{mapping.span}", True
            if self.is_main_executable(module.path):
                yield f"{self._proc}/exe", True
            yield f"{self._proc}/root{module.path}", False
        yield module.path, False

    def _debug_paths(self, module_path: str, build_id: str, link: str) -> Iterator[str]:
        by_build_id = f"{build_id[:2]}/{build_id[2:]}.debug" if len(build_id) > 2 else ""
        folder, name = os.path.split(module_path)
        for directory in self._symbol_dirs:
            if by_build_id:
                yield os.path.join(directory, ".build-id", by_build_id)
                yield os.path.join(directory, by_build_id)
            for file_name in (link, f"{name}.debug", name):
                if file_name:
                    yield os.path.join(directory, file_name)
        roots = ["" if self._proc is None else f"{self._proc}/root", ""]
        for root in dict.fromkeys(roots):
            if by_build_id:
                yield f"{root}{_DEBUG_DIR}/.build-id/{by_build_id}"
            if link and "/" not in link:
                yield f"{root}{folder}/{link}"
                yield f"{root}{folder}/.debug/{link}"
                yield f"{root}{_DEBUG_DIR}{folder}/{link}"

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


def _own_vdso() -> list[_Mapping]:
    own = TargetFiles(os.getpid())
    return [mapping for mapping in own._read_mappings() if mapping.path == VDSO_PATH]
