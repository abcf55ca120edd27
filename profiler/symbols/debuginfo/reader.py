"""Get the lines of a module's debug information, from the disk cache or from the worker.

A call blocks until they are read, so it is meant for a thread of its own. No native code runs here
on the contents of a file: symcaches come from the worker's process or from the cache, and are read
with numpy.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...model import Module
from ...recording.names.inline_chains import LinesError, LineSource
from ..dwarf.tail_call_graph import CallGraph
from ..locate.module_files import TargetFiles
from ..locate.open_file import Image, OpenFile
from ..names.limits import Budgets
from ..object.elf import ElfError, from_bytes
from ..object.object_file import ObjectFile
from .disk_cache import DiskCache, EntryKeys
from .job import CALLS, MINI_SYMBOLS, MISSING_PARTS, Built, DebugJob
from .stacked_symcache import Layers, unpack
from .symcache_table import VERSIONS, SymcacheTable, version_of
from .worker_client import Worker

# The hash of a file of this size takes 15 ms: that long may first names wait for kept lines. Those
# of larger files come with the lines of other modules.
_QUICK_BYTES = 16 << 20
_CALLS_COST = 4  # calls take this many times as long to read as lines, with a margin


def open_symcache(payload: bytes, base_addr: int) -> LineSource:
    """Open a symcache as a source of lines.

    Raises:
        LinesError: it is not a symcache, or it is damaged.
    """
    parts = unpack(payload)
    if parts:
        return Layers([_open_part(part, base_addr) for part in parts])
    return _open_part(payload, base_addr)


def _open_part(payload: bytes, base_addr: int) -> LineSource:
    version = version_of(payload)
    if version in VERSIONS:
        return SymcacheTable(payload, base_addr)
    # The library is newer than this reader: use it, which is slower. It is native code, and a file
    # may have taken over the worker, so it gets nothing but what the worker's library writes.
    from . import symcache

    if version != symcache.FORMAT_VERSION:
        raise LinesError("damaged symcache, or one of another version")
    return symcache.load(payload, base_addr)


class DebugInfo:
    """Reads debug information, one file at a time.

    Args:
        files: finds the files that belong to a debug file.
        cache: stores the results.
        budgets: what all modules share.
    """

    def __init__(
        self, files: TargetFiles, cache: DiskCache, budgets: Budgets | None = None
    ) -> None:
        self._budgets = budgets or Budgets()
        self._files = files
        self._cache = cache
        self._keys = EntryKeys()
        self._worker = Worker()
        self._calls_worker = Worker()
        self._small_worker = Worker()  # for what somebody waits for
        self._small_worker.is_awaited = True
        self._small_lock = threading.Lock()

    def hurry(self) -> None:
        """Somebody waits for all that is being read. Any thread may call."""
        for worker in (self._worker, self._calls_worker):
            worker.hurry()

    def cached(self, image: Image) -> LineSource | None:
        """Return the lines of a file with DWARF if they are in the cache; takes milliseconds.

        Return None for large files, too.
        """
        if image.file is None:
            return None
        with self._files_of(image) as files:
            if sum(file.size for file in files) > _QUICK_BYTES:
                return None
            key = self._keys.of(image.elf.build_id, files)
            return self._from_cache(key, image.elf.base_addr)

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
            key, base_addr = self._keys.of(image.elf.build_id, files), image.elf.base_addr
            lines = self._from_cache(key, base_addr)
            if lines is not None:
                return lines, ""
            job = self._job(module, image, files)
            built = self._build(self._worker, job, files, image.elf.debug_info_bytes)
            if not self._budgets.table_bytes.take(len(built.payload)):
                raise LinesError("the lines of all modules take too much memory")
            lines = open_symcache(built.payload, base_addr)
            if not built.note and built.may_be_kept:
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

    def mini_symbols(self, image: Image, debug: Image | None) -> ObjectFile | None:
        """Return the ELF file in ``.gnu_debugdata``, which has a symbol table.

        Any thread may call this; one file is read at a time.

        Args:
            image: the module's own file.
            debug: its separate debug file.

        Returns:
            None if there is none, or one of the files has a symbol table, which is better.

        Raises:
            LinesError: it cannot be read; the message gives the reason.
        """
        if image.elf.has_symtab or (debug is not None and debug.elf.has_symtab):
            return None
        if image.file is None or image.elf.section(".gnu_debugdata") is None:
            return None
        job = DebugJob(image.file.path, 0, wants=MINI_SYMBOLS)
        try:
            with self._small_lock:
                built = self._small_worker.build(job, [image.file.fileno()], 0)
            return from_bytes(built.payload)
        except (LinesError, ElfError) as error:
            raise LinesError(f"its mini debug info is not used: {error}") from error

    def missing_parts(self, module: Module, image: Image) -> str:
        """Describe which parts of a module's debug information are in files that are not found.

        Args:
            module: the module.
            image: the file with DWARF.

        Returns:
            one line for the user; ``""`` if no part is missing.
        """
        if image.file is None:
            return ""
        with self._files_of(image) as files:
            job = replace(self._job(module, image, files), wants=MISSING_PARTS)
            size = image.elf.debug_info_bytes
            try:
                with self._small_lock:
                    return self._build(self._small_worker, job, files, size).note
            except LinesError as error:
                return str(error)

    def rest_small(self) -> None:
        """End the worker for ``mini_symbols`` and ``missing_parts`` while nothing is to be read."""
        with self._small_lock:
            self._small_worker.rest()

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
        self._small_worker.close()

    def _job(self, module: Module, image: Image, files: Sequence[OpenFile]) -> DebugJob:
        """Return a job that wants a symcache.

        Args:
            module: the module.
            image: the file with DWARF.
            files: that file and dwz's.
        """
        own_folder, own_name = os.path.split(module.path)
        own = files[0]
        roots = self._files.split_roots
        return DebugJob(
            debug=own.path,
            base_addr=image.elf.base_addr,
            build_id=image.elf.build_id,
            alt=files[1].path if len(files) > 1 else "",
            roots=tuple(str(position) for position in range(len(roots))),
            folders=(own_folder, own.folder(), *self._files.symbol_dirs),
            names=(own_name, os.path.basename(own.path)),
            root=str(roots.index(own.root)) if own.root in roots else "",
        )

    def _build(
        self, worker: Worker, job: DebugJob, files: Sequence[OpenFile], debug_info_bytes: int
    ) -> Built:
        """Have a worker do a job of ``_job``, and lend it the files that it asks for."""
        roots = self._files.split_roots

        def lend(path: str, root: int) -> OpenFile:
            return self._files.open_named(path, roots[root])

        return worker.build(job, [file.fileno() for file in files], debug_info_bytes, lend)

    def _read_calls(self, image: Image) -> CallGraph:
        if image.file is None:
            raise LinesError("debug information in memory is not read")
        with self._files_of(image) as files:
            key = self._keys.of(image.elf.build_id, files)
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
                wants=CALLS,
            )
            descriptors = [file.fileno() for file in files]
            size = image.elf.debug_info_bytes * _CALLS_COST
            payload = self._calls_worker.build(job, descriptors, size).payload
            graph = CallGraph(payload)
            self._cache.save(key, payload)
            return graph

    def _from_cache(self, key: str, base_addr: int) -> LineSource | None:
        payload = self._cache.load(key)
        if payload is not None and self._budgets.table_bytes.take(len(payload)):
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
