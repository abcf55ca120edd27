"""Debug information to inline chains with files and lines, through ``symbolic``'s symcaches.

A symcache is built from DWARF once (libpython, 23 MB: 0.3 s) and is then a flat table that is
searched in place. Both run in C with the GIL released. Anything may be wrong with a debug file,
so every call here ends in a result or in ``LinesError``.

symbolic's own fallback to symbol tables is not used: it lets a symbol without a size reach to the
end of the address space, and names a function ``main`` after its split-off part ``main.cold``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from symbolic.debuginfo import Archive
from symbolic.exceptions import SymbolicError
from symbolic.symcache import SYMCACHE_LATEST_VERSION, SymCache

from ..dwarf.attributes import DwarfError
from ..dwarf.merge import is_scattered, merge
from ..dwarf.split import SplitPlaces
from ..dwarf.unclaimed import unclaimed
from ..locate.open_file import open_image
from ..names.inline_chains import Chain, Chains, LinesError, SourceFrame, pack_chains
from ..object.object_file import ObjectError, ObjectFile
from .job import Built, DebugJob
from .stacked_symcache import pack
from .symcache_table import VERSIONS, SymcacheTable, tidy_path, version_of

FORMAT_VERSION = cast(int, SYMCACHE_LATEST_VERSION)

_NO_ADDRESS = 0xFFFFFFFF  # sym_addr of an inlined function


class Symcache:
    """Looks up inline chains.

    Args:
        cache: the native object.
        base_addr: lowest loaded file_addr of the ELF file: symcaches count addresses from there.
        backing: the bytes that the native object reads, kept alive with it.
    """

    def __init__(self, cache: SymCache, base_addr: int, backing: bytes = b"") -> None:
        self._cache = cache
        self._base_addr = base_addr
        self._backing = backing

    def chains(self, file_addrs: Sequence[int]) -> Chains:
        """The inline chain at each address."""
        return pack_chains(self.lookup_many(file_addrs))

    def lookup_many(self, file_addrs: Sequence[int]) -> list[Chain]:
        """The inline chain at each address."""
        return [self.lookup(file_addr) for file_addr in file_addrs]

    def lookup(self, file_addr: int) -> Chain:
        """The inline chain at ``file_addr``, outermost function first; empty if there is none."""
        relative = file_addr - self._base_addr
        if not 0 <= relative < _NO_ADDRESS:  # symcaches have 32-bit addresses
            return ()
        try:
            found = self._cache.lookup(relative)  # type: ignore[no-untyped-call]
        except (SymbolicError, RuntimeError):
            return ()
        if len(found) == 1 and not found[0].line and not found[0].full_path:
            return ()  # from a symbol table
        return tuple(
            SourceFrame(frame.symbol or "", tidy_path(frame.full_path or ""), frame.line)
            for frame in reversed(found)
        )

    def to_bytes(self) -> bytes:
        """The flat table, to be kept on disk."""
        return cast(bytes, self._cache.open_stream().read())  # type: ignore[no-untyped-call]


def build(path: str, base_addr: int, build_id: str = "") -> Symcache:
    """Makes a symcache from the debug information of an object file; seconds for a large one.

    Args:
        path: the file with DWARF; ``/proc/self/fd/N`` will do.
        base_addr: its lowest loaded file_addr.
        build_id: which part of a fat Mach-O file is wanted.

    Raises:
        LinesError: no debug information, or damaged.
    """
    return _build(lambda: Archive.open(path), base_addr, build_id)


def build_symcache(job: DebugJob) -> Built:
    """The symcache for a job. Called in the worker's process.

    Raises:
        LinesError: no debug information, or damaged.
    """
    note = ""
    try:
        merged = _merged(job, is_scattered)
        if merged is not None:
            return merged
    except DwarfError as error:
        note = str(error)  # what the file holds by itself is better than nothing
    except (ObjectError, OSError):
        pass  # a format that symbolic may know
    try:
        whole = build(job.debug, job.base_addr, job.build_id).to_bytes()
        return Built(_with_unclaimed(job, whole), note)
    except LinesError as error:
        # One damaged entry is enough for symbolic to give up the whole file.
        try:
            merged = _merged(job, lambda _: True)
        except (LinesError, DwarfError, ObjectError, OSError):
            merged = None
        if merged is None:
            raise
        return Built(merged.payload, merged.note or str(error))


def _build(open_archive: Callable[[], Archive], base_addr: int, build_id: str = "") -> Symcache:
    try:
        archive = open_archive()
        objects = list(archive.iter_objects())
        if not objects:
            raise LinesError("no object in the file")
        right = [o for o in objects if o.debug_id.replace("-", "")[:32] == build_id]
        return Symcache((right or objects)[0].make_symcache(), base_addr)
    except (SymbolicError, OSError, LookupError, RuntimeError) as error:
        raise LinesError(f"damaged debug information: {_first_line(error)}") from error


def _with_unclaimed(job: DebugJob, whole: bytes) -> bytes:
    """The symcache, and where functions have lines and no entry, another one behind it."""
    table = load(whole, job.base_addr) if version_of(whole) not in VERSIONS else None
    lookup_many = (table or SymcacheTable(whole, job.base_addr)).lookup_many
    try:
        image = open_image(job.debug, via=job.debug, build_id=job.build_id)
        try:
            more = unclaimed(image.elf, lookup_many)
        finally:
            image.close()
        if more is None:
            return whole
        behind = _build(lambda: Archive.from_bytes(more), job.base_addr)
    except (DwarfError, ObjectError, IndexError, OSError, LinesError):
        return whole  # an extra: nothing is lost without it
    return pack([whole, behind.to_bytes()])


def _merged(job: DebugJob, wanted: Callable[[ObjectFile], bool]) -> Built | None:
    """The symcache of debug information that is put together first; ``None`` if not wanted."""
    images = [open_image(job.debug, via=job.debug, build_id=job.build_id)]
    try:
        if not wanted(images[0].elf):
            return None
        if job.alt:
            images.append(open_image(job.alt, via=job.alt))
        alt = images[1].elf if len(images) > 1 else None
        merged = merge(images[0].elf, alt, SplitPlaces(job.roots, job.folders, job.names))
    finally:
        for image in images:
            image.close()
    whole = _build(lambda: Archive.from_bytes(merged.elf), job.base_addr)
    return Built(whole.to_bytes(), merged.note)


def load(data: bytes, base_addr: int) -> Symcache:
    """Opens a symcache made by ``to_bytes``, in place.

    ``bytes`` and nothing else: a memoryview that the garbage collector meets in a cycle while cffi
    holds its buffer crashes the interpreter (cffi 2.1, CPython 3.11).

    Raises:
        LinesError: not a symcache of this version.
    """
    try:
        cache = SymCache.from_bytes(data)  # type: ignore[no-untyped-call]
        if cache.version != FORMAT_VERSION:
            raise LinesError("symcache of another version")
    except (SymbolicError, RuntimeError) as error:
        raise LinesError(f"damaged symcache: {_first_line(error)}") from error
    return Symcache(cache, base_addr, data)


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
