"""Find and open the files that the target runs, and the debug files that belong to them.

A file is used only if it is the right one: its build-id equals the module's or, for modules without
a build-id, its bytes equal those in memory. A program that was rebuilt or upgraded since it started
gets no names, but never wrong ones. Files are opened as soon as a module is known and stay open,
because the target may exit before its symbols are read. Its root is kept open for the same reason.
All of them are opened with the rights of the target's user, and never outside its root.

Order for the module's own file: ``/proc/PID/map_files`` (works for deleted and replaced files;
needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE); ``/proc/PID/exe`` (the same for the main program;
needs only the right to trace); the path inside the target's root; a file downloaded from a server;
and last a copy of the loaded part in the target's memory. Without a target: the path on this
machine.

Source: proc(5).
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...linux.file_rights import ProcessUser
from ...linux.maps import Mapping
from ...linux.procfs import GONE
from ...model import Module
from ..object.object_file import ObjectError, ObjectFile
from .debug_files import DebugFiles
from .debug_links import AltLink, alt_link
from .debuginfod_cache import DEBUGINFO, EXECUTABLE
from .mappings import Mappings, is_of, read_memory
from .memory_image import VDSO_PATH, copy_module, copy_vdso
from .open_file import MEMORY, OURS, Image, OpenFile, Root, debug_image, open_image
from .packages import Packages

if TYPE_CHECKING:
    # Its web client takes 50 ms to import, so it is imported only if it is used.
    from .debuginfod import Debuginfod

# Without a build-id, up to two pieces of this size are compared with the memory.
_COMPARED_BYTES = 1 << 20
_MAPPED = "mapped file"
_REPLACED = "the file on disk is another one than the process runs; not used"


class FilesError(Exception):
    """The right file cannot be opened; the message is one line for the user."""


class TargetFiles:
    """The files of one process.

    Args:
        pid: the target, or ``None`` to take module paths as paths of this machine.
        symbol_dirs: the user's folders with debug files; for their layouts see ``symbol_dirs``.
        debuginfod: a source of files that this machine does not have. Files that were downloaded
            before are opened like any other; only ``fetch`` asks the servers.

    Attributes:
        roots: where a path of the target is valid: its root, if known. Without a target, ours.
        symbol_dirs: the argument.
        asks_servers: whether there are servers to ask.
    """

    def __init__(
        self,
        pid: int | None,
        symbol_dirs: Sequence[str] = (),
        debuginfod: Debuginfod | None = None,
    ) -> None:
        self._proc = None if pid is None else f"/proc/{pid}"
        self._mappings = Mappings(self._proc)
        self._held: list[int] = []
        root = OURS if pid is None else self._hold_root(ProcessUser(pid))
        self.roots: tuple[Root, ...] = () if root is None else (root,)
        self.symbol_dirs = tuple(symbol_dirs)
        self._debug_files = DebugFiles(self.roots, self.symbol_dirs)
        self.asks_servers = debuginfod is not None
        self._debuginfod = debuginfod
        self._packages = None if root is None else Packages(root)
        self._rejected: dict[int, list[str]] = {}

    def close(self) -> None:
        """Close the target's root. Idempotent."""
        while self._held:
            os.close(self._held.pop())

    def is_main_executable(self, path: str) -> bool:
        """Return True if ``path`` is the program that the target runs."""
        try:
            program = os.readlink(f"{self._proc}/exe")
        except OSError:
            return False
        return program.removesuffix(" (deleted)") == path

    def rejected(self, module: Module) -> list[str]:
        """Return a line for each file that was found for the module but is not the right one."""
        return list(dict.fromkeys(self._rejected.get(module.module_id, ())))

    def open_module(self, module: Module) -> Image:
        """Open the file from which a module was mapped, or copy its loaded part.

        Raises:
            FilesError: it was deleted or replaced, may not be read, or is not an object file.
        """
        mapping = self._mappings.of(module)
        if module.path == VDSO_PATH:
            return self._copy_vdso(module)
        problem = "not found" if self.roots else "the process ended before its files were opened"
        for root, via, origin in self._places(module, mapping):
            try:
                image = open_image(module.path, root, via, origin, build_id=module.build_id)
            except FileNotFoundError:
                continue
            except OSError as error:
                problem = error.strerror or str(error)
                continue
            except ValueError as error:  # ObjectError, or a NUL in the path
                problem = str(error)
                continue
            if self._is_right(image, module, mapping):
                return image
            image.close()
            problem = _REPLACED
        stand_in = (
            self._cached(module.build_id, EXECUTABLE)
            or self._copy_module(module, mapping)
            or self._debug_files.open_apple(module)
        )
        if stand_in is not None:
            return stand_in
        if mapping is not None and mapping.path.endswith(" (deleted)"):
            problem = "the file was deleted since the process started; run as root to read it"
        if problem == "not found" and self._proc is None:
            which = f" (build-id {module.build_id})" if module.build_id else ""
            problem = f"not found on this machine; give --symbol-dir its folder{which}"
        raise FilesError(problem)

    def open_debug_file(self, module: Module, own: ObjectFile) -> Image | None:
        """Open the separate debug file of ``own``, the module's own file, if there is one.

        Returns:
            a file with a symbol table or DWARF, checked by build-id, or by CRC if there is none.
        """
        found = self._debug_files.open_for(module, own, self._rejections(module))
        return found or self._cached(own.build_id, DEBUGINFO)

    def open_alt_file(self, image: Image, module: Module | None = None) -> Image | None:
        """Open dwz's common file, which holds the common parts of several debug files.

        Args:
            image: a file with DWARF: a module's own or its debug file.
            module: the module, to record rejected files.

        Returns:
            the file that ``.gnu_debugaltlink`` or ``.debug_sup`` of ``image`` names, checked by its
            build-id; ``None`` if it names none, or the right one was not found.
        """
        rejected = [] if module is None else self._rejections(module)
        found = self._debug_files.open_common(image, rejected)
        if found is None and self._debuginfod is not None and (link := _alt_link(image)):
            found = self._cached(link.build_id, DEBUGINFO)
        return found

    def remedy(self, module: Module) -> str:
        """Describe how to install a module's debug file from a package; ``""`` if unknown."""
        return self._packages.remedy(module.path, module.build_id) if self._packages else ""

    @property
    def split_roots(self) -> tuple[Root, ...]:
        """Where parts of the debug information may be that only the file itself names."""
        return tuple(dict.fromkeys((*self.roots, OURS))) if self.symbol_dirs else self.roots

    def open_named(self, path: str, root: Root) -> OpenFile:
        """Open a file that a target's debug information names.

        Args:
            path: the path below the root.
            root: one of ``split_roots``. With our rights, only files in the user's folders are
                opened for a target.

        Raises:
            OSError: it cannot be opened, may not be, or is not a regular file.
            ValueError: a NUL in the path.
        """
        if root == OURS and OURS not in self.roots:
            path = os.path.normpath(path)
            if not any(_is_below(path, folder) for folder in self.symbol_dirs):
                raise PermissionError(errno.EPERM, "not in a symbol folder", path)
        return OpenFile(path, root)

    def can_fetch(self, module: Module, image: Image | None, debug: Image | None) -> bool:
        """Return True if servers may have a file that a module still lacks.

        Args:
            module: the module.
            image, debug: its own file and its debug file, ``None`` if not found.
        """
        if self._debuginfod is None or not module.build_id:
            return False
        with_dwarf = debug_image(image, debug)
        return debug is None if with_dwarf is None else self._lacks_alt_file(with_dwarf)

    def fetch(self, module: Module, image: Image | None, debug: Image | None) -> None:
        """Ask the servers for the files that a module lacks. Blocks until they have answered.

        Afterwards ``open_module``, ``open_debug_file`` and ``open_alt_file`` find the downloaded
        files, and ``rejected`` reports the others.
        """
        servers, problems = self._debuginfod, self._rejections(module)
        assert servers is not None
        with contextlib.ExitStack() as opened:

            def ask(build_id: str, kind: str) -> Image | None:
                found = servers.fetch(build_id, kind, problems)
                if found is not None:
                    opened.callback(found.close)
                return found

            own = image or ask(module.build_id, EXECUTABLE)
            with_dwarf = debug_image(own, debug) or ask(module.build_id, DEBUGINFO)
            if with_dwarf is not None and self._lacks_alt_file(with_dwarf):
                link = _alt_link(with_dwarf)
                assert link is not None
                ask(link.build_id, DEBUGINFO)

    def stop_fetching(self) -> None:
        """Cancel ``fetch``, for good."""
        if self._debuginfod is not None:
            self._debuginfod.close()

    def _lacks_alt_file(self, image: Image) -> bool:
        if _alt_link(image) is None:
            return False
        found = self.open_alt_file(image)
        if found is not None:
            found.close()
        return found is None

    def _cached(self, build_id: str, kind: str) -> Image | None:
        """Open a file that was downloaded before."""
        if self._debuginfod is None or not build_id:
            return None
        return self._debuginfod.cached(build_id, kind)

    def _rejections(self, module: Module) -> list[str]:
        return self._rejected.setdefault(module.module_id, [])

    def _hold_root(self, user: ProcessUser) -> Root | None:
        """Return the target's root, held so that it outlives the target; None if that has ended.

        Ours where we may not see its root, which is never so for root.
        """
        assert self._proc is not None
        try:
            if _namespace(self._proc) == _namespace("/proc/self") and os.path.samestat(
                os.stat(f"{self._proc}/root"), os.stat("/")
            ):
                return Root("", user)
            # Keep the mount namespace open, too. Otherwise only the root's own file system would
            # remain when the target ends.
            self._held.append(os.open(f"{self._proc}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC))
            self._held.append(os.open(f"{self._proc}/root", os.O_PATH | os.O_CLOEXEC))
        except GONE:
            return None
        except OSError:
            return Root("", user)
        return Root(f"/proc/self/fd/{self._held[-1]}", user)

    def _places(self, module: Module, mapping: Mapping | None) -> Iterator[tuple[Root, str, str]]:
        """Yield the places of a module's file.

        Each has a root, a path that leads to the mapped file whatever its name (or ``""``), and a
        description.
        """
        for root in self.roots:
            if mapping is not None:
                yield root, f"{self._proc}/map_files/{mapping.span}", _MAPPED
            if self._proc is not None and self.is_main_executable(module.path):
                yield root, f"{self._proc}/exe", _MAPPED
            yield root, "", "path in its root" if root.path else "path"

    def _is_right(self, image: Image, module: Module, mapping: Mapping | None) -> bool:
        assert image.file is not None
        if module.build_id:
            return image.elf.build_id == module.build_id
        # The module has no build-id, or the agent could not read it.
        if mapping is None or self._proc is None:
            return not image.elf.build_id
        if image.origin == _MAPPED and is_of(mapping, module):
            return True
        return self._is_in_memory(image.elf, module, mapping)

    def _is_in_memory(self, own: ObjectFile, module: Module, mapping: Mapping) -> bool:
        """Return True if a file's start and its code equal the bytes in the process's memory.

        The start has the headers and the dynamic symbols.
        """
        assert self._proc is not None
        file_start = self._mappings.file_start(mapping)
        for runtime_addr in {file_start or module.start, module.start}:
            start = runtime_addr - module.load_bias
            rests = [s.vaddr + s.file_size - start for s in own.segments if s.vaddr <= start]
            # A segment ends within a page; the bytes after it in memory may have any value.
            size = min(min((rest for rest in rests if rest > 0), default=0), _COMPARED_BYTES)
            expected = own.at_addr(start, size)
            if not expected or expected != read_memory(self._proc, runtime_addr, size):
                return False
        return True

    def _copy_module(self, module: Module, mapping: Mapping | None) -> Image | None:
        """Copy the loaded part of a module from memory, as a last resort.

        Return ``None`` if it cannot be used, or may not be read.
        """
        if self._proc is None or mapping is None:
            return None
        file_start = self._mappings.file_start(mapping)
        if file_start is None:
            return None
        try:
            copy = copy_module(module, file_start, self._proc)
        except ObjectError:
            return None
        if module.build_id and copy.build_id != module.build_id:
            return None
        return Image(copy, None, MEMORY)

    def _copy_vdso(self, module: Module) -> Image:
        try:
            return Image(copy_vdso(module, self._mappings, self._proc), None, "vDSO")
        except ObjectError as error:
            raise FilesError(str(error)) from error


def _alt_link(image: Image) -> AltLink | None:
    try:
        return alt_link(image.elf)
    except ObjectError:
        return None


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(f"{os.path.normpath(folder).rstrip('/')}/")


def _namespace(proc: str) -> str:
    return os.readlink(f"{proc}/ns/mnt")
