"""Get the lines of a module's debug information, from the disk cache or from the worker.

A call blocks until they are read, so it is meant for a thread of its own. No native code runs here
on the contents of a file: symcaches come from the worker's process or from the cache, and are read
with numpy.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from ...model import Module
from ..dwarf.attributes import DwarfError
from ..dwarf.merge import missing_parts
from ..dwarf.split import SplitPlaces
from ..dwarf.tail_call_graph import CallGraph
from ..locate.module_files import TargetFiles
from ..locate.open_file import Image, OpenFile
from ..names.inline_chains import LinesError, LineSource
from .disk_cache import DiskCache, entry_key
from .job import DebugJob
from .stacked_symcache import Layers, unpack
from .symcache_table import VERSIONS, SymcacheTable, version_of
from .worker_client import Worker

_CALLS_COST = 4  # calls take this many times as long to read as lines, with a margin
_OWN_PROC = f"/proc/{os.getpid()}"


def open_symcache(payload: bytes, base_addr: int) -> LineSource:
    """Open a symcache as a source of lines.

    Raises:
        LinesError: it is not a symcache, or it is damaged.
    """
    parts = unpack(payload)
    if parts:
        return Layers([open_symcache(part, base_addr) for part in parts])
    if version_of(payload) in VERSIONS:
        return SymcacheTable(payload, base_addr)
    # Another version of the library wrote it: use the library, which is slower.
    from . import symcache

    return symcache.load(payload, base_addr)


def split_places(files: TargetFiles, module: Module, image: Image) -> SplitPlaces:
    """Return where to look for parts of the debug information that only the file itself names.

    Args:
        files: the target's files.
        module: the module.
        image: the file with DWARF: the module's own, or its separate debug file.
    """
    own_folder, own_name = os.path.split(module.path)
    folders, names = [own_folder], [own_name]
    if image.file is not None:
        folders.append(image.file.folder())
        names.append(os.path.basename(image.file.path))
    return SplitPlaces(files.roots, (*folders, *files.symbol_dirs), names)


def parts_missing(files: TargetFiles, module: Module, image: Image) -> str:
    """Describe which parts of a module's debug information are in files that cannot be found.

    Return one line for the user; ``""`` if no part is missing.

    Raises:
        ObjectError: it is damaged.
    """
    alt = files.open_alt_file(image)
    try:
        places = split_places(files, module, image)
        return missing_parts(image.elf, None if alt is None else alt.elf, places)
    except DwarfError as error:
        return str(error)
    finally:
        if alt is not None:
            alt.close()


class DebugInfo:
    """Reads debug information, one file at a time.

    Args:
        files: finds the files that belong to a debug file.
        cache: stores the results.
    """

    def __init__(self, files: TargetFiles, cache: DiskCache) -> None:
        self._files = files
        self._cache = cache
        self._worker = Worker()
        self._calls_worker = Worker()

    def cached(self, image: Image) -> LineSource | None:
        """Return the lines of a file with DWARF if they are in the cache; takes milliseconds."""
        if image.file is None:
            return None
        with self._files_of(image) as files:
            return self._from_cache(entry_key(image.elf.build_id, files), image.elf.base_addr)

    def read(self, module: Module, image: Image) -> tuple[LineSource, str]:
        """Return the lines of a file with DWARF, and a note on what is missing (``""``: nothing).

        Args:
            module: the module.
            image: its own file, or its separate debug file.

        Raises:
            LinesError: they cannot be read; the message gives the reason.
        """
        if image.file is None:
            raise LinesError("debug information in memory is not read")
        with self._files_of(image) as files:
            key, base_addr = entry_key(image.elf.build_id, files), image.elf.base_addr
            lines = self._from_cache(key, base_addr)
            if lines is not None:
                return lines, ""
            places = split_places(self._files, module, image)
            job = DebugJob(
                debug=image.file.path,
                base_addr=base_addr,
                build_id=image.elf.build_id,
                alt=files[1].path if len(files) > 1 else "",
                # The worker reaches a root that we hold open under our pid, not as /proc/self.
                roots=tuple(r.replace("/proc/self", _OWN_PROC, 1) for r in places.roots),
                folders=tuple(places.folders),
                names=tuple(places.names),
            )
            descriptors = [file.fileno() for file in files]
            built = self._worker.build(job, descriptors, image.elf.debug_info_bytes)
            lines = open_symcache(built.payload, base_addr)
            if not built.note:
                self._cache.save(key, built.payload)
            return lines, built.note

    def read_calls(self, module: Module, own: Image) -> CallGraph:
        """Return the calls of a module. A process of their own reads them.

        Call this from another thread than the one that reads lines.

        Args:
            module: the module.
            own: its own file; a separate debug file is opened again.

        Raises:
            LinesError: they cannot be read; the message gives the reason.
        """
        debug = None
        if not own.elf.debug_info_bytes:
            debug = self._files.open_debug_file(module, own.elf)
        try:
            return self._read_calls(debug or own)
        finally:
            if debug is not None:
                debug.close()

    def rest(self) -> None:
        """End the worker, to free its memory, while there are no lines to read."""
        self._worker.rest()

    def rest_calls(self) -> None:
        """End the worker for calls while there are no calls to read."""
        self._calls_worker.rest()

    def close(self) -> None:
        """Cancel the current reads."""
        self._worker.close()
        self._calls_worker.close()

    def _read_calls(self, image: Image) -> CallGraph:
        if image.file is None:
            raise LinesError("debug information in memory is not read")
        with self._files_of(image) as files:
            key = entry_key(image.elf.build_id, files)
            key = f"{key}-calls" if key else ""
            payload = self._cache.load(key)
            if payload is not None:
                try:
                    return CallGraph(payload)
                except LinesError:
                    self._cache.forget(key)
            job = DebugJob(
                debug=image.file.path,
                base_addr=image.elf.base_addr,
                build_id=image.elf.build_id,
                alt=files[1].path if len(files) > 1 else "",
                wants_calls=True,
            )
            descriptors = [file.fileno() for file in files]
            size = image.elf.debug_info_bytes * _CALLS_COST
            payload = self._calls_worker.build(job, descriptors, size).payload
            graph = CallGraph(payload)
            self._cache.save(key, payload)
            return graph

    def _from_cache(self, key: str, base_addr: int) -> LineSource | None:
        payload = self._cache.load(key)
        if payload is not None:
            try:
                return open_symcache(payload, base_addr)
            except LinesError:
                self._cache.forget(key)
        return None

    @contextlib.contextmanager
    def _files_of(self, image: Image) -> Iterator[list[OpenFile]]:
        """Open the files from which a symcache is made: the one with DWARF, then dwz's."""
        alt = self._files.open_alt_file(image)
        try:
            yield [each.file for each in (image, alt) if each is not None and each.file is not None]
        finally:
            if alt is not None:
                alt.close()
