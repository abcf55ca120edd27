"""Debug information of a module to a source of lines: from the disk cache, or read by the worker.

Blocks for as long as reading takes; meant for a thread of its own. Nothing here runs native code
on what a file holds: symcaches come from the worker's process or from the cache, and are read with
numpy.
"""

from __future__ import annotations

from flametap.symbols.cache import DiskCache, entry_key
from flametap.symbols.files import TargetFiles
from flametap.symbols.job import DebugJob
from flametap.symbols.lines import LinesError, LineSource
from flametap.symbols.openfile import Image
from flametap.symbols.symcachetable import VERSIONS, SymcacheTable, version_of
from flametap.symbols.workerprocess import Worker


def open_symcache(payload: bytes, base_addr: int) -> LineSource:
    """A source of lines over a symcache.

    Raises:
        LinesError: it is none, or damaged.
    """
    if version_of(payload) in VERSIONS:
        return SymcacheTable(payload, base_addr)
    # A newer library wrote it: slower, but by its own rules.
    from flametap.symbols import symcache

    return symcache.load(payload, base_addr)


class DebugInfo:
    """Reads debug information, one file at a time.

    Args:
        files: finds the files that go with a debug file.
        cache: keeps what was read.
    """

    def __init__(self, files: TargetFiles, cache: DiskCache) -> None:
        self._files = files
        self._cache = cache
        self._worker = Worker()

    def read(self, image: Image) -> LineSource:
        """The lines of a file with DWARF.

        Raises:
            LinesError: they cannot be had; the message says why.
        """
        if image.file is None:
            raise LinesError("debug information in memory is not read")
        alt = self._files.open_alt_file(image)
        try:
            return self._read(image, alt)
        finally:
            if alt is not None:
                alt.close()

    def rest(self) -> None:
        """Nothing to read for now: gives the worker's memory back."""
        self._worker.rest()

    def close(self) -> None:
        """Breaks off what is being read."""
        self._worker.close()

    def _read(self, image: Image, alt: Image | None) -> LineSource:
        base_addr = image.elf.base_addr
        files = [each.file for each in (image, alt) if each is not None and each.file is not None]
        key = entry_key(image.elf.build_id, files)
        payload = self._cache.load(key)
        if payload is not None:
            try:
                return open_symcache(payload, base_addr)
            except LinesError:
                self._cache.forget(key)
        job = DebugJob(
            debug=files[0].path,
            base_addr=base_addr,
            build_id=image.elf.build_id,
            alt=files[1].path if len(files) > 1 else "",
        )
        descriptors = [file.fileno() for file in files]
        payload = self._worker.build(job, descriptors, image.elf.debug_info_bytes)
        lines = open_symcache(payload, base_addr)
        self._cache.save(key, payload)
        return lines
