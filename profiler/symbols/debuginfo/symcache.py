"""Convert debug information to inline chains with files and lines, with ``symbolic``'s symcaches.

A symcache is built from DWARF once (libpython, 23 MB: 0.3 s). The result is a flat table that is
searched in place. Both run in C without the GIL. A debug file may be damaged in any way, so every
call here returns a result or raises ``LinesError``.

We do not use symbolic's own fallback to symbol tables. It extends a symbol without a size to the
end of the address space, and names a function ``main`` after its split-off part ``main.cold``.
"""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Callable, Sequence
from typing import Any, cast

from symbolic._lowlevel import ffi
from symbolic.debuginfo import Archive
from symbolic.exceptions import SymbolicError
from symbolic.symcache import SYMCACHE_LATEST_VERSION, SymCache

from ...recording.names.inline_chains import Chain, Chains, LinesError, SourceFrame, pack_chains
from ..dwarf.attributes import DwarfError
from ..dwarf.merge import is_scattered, merge
from ..dwarf.unclaimed import unclaimed
from ..locate.open_file import OpenFile
from ..locate.owners import writers
from ..object.object_file import ObjectError, ObjectFile
from .job import Built, DebugJob, OpenNamed, open_input, open_input_image, split_places
from .stacked_symcache import pack
from .symcache_table import VERSIONS, SymcacheTable, tidy_path, version_of

Buffer = Any  # bytes, or cffi's view of a buffer

FORMAT_VERSION = cast(int, SYMCACHE_LATEST_VERSION)

_NO_ADDRESS = 0xFFFFFFFF  # sym_addr of an inlined function


class Symcache:
    """A symcache, opened with ``symbolic``.

    Args:
        cache: the native object.
        base_addr: lowest loaded file_addr of the ELF file: addresses in symcaches are relative to
            it.
        backing: the bytes that the native object reads; kept alive with it.
    """

    def __init__(self, cache: SymCache, base_addr: int, backing: bytes = b"") -> None:
        self._cache = cache
        self._base_addr = base_addr
        self._backing = backing

    def chains(self, file_addrs: Sequence[int]) -> Chains:
        """Return the inline chain at each address, in columns."""
        return pack_chains(self.lookup_many(file_addrs))

    def lookup_many(self, file_addrs: Sequence[int]) -> list[Chain]:
        """Return the inline chain at each address."""
        return [self.lookup(file_addr) for file_addr in file_addrs]

    def lookup(self, file_addr: int) -> Chain:
        """Return the inline chain at ``file_addr``, outermost function first; empty if unknown."""
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
        """Return the flat table, to be stored on disk."""
        return cast(bytes, self._cache.open_stream().read())  # type: ignore[no-untyped-call]


def build(path: str, base_addr: int, build_id: str = "") -> Symcache:
    """Build a symcache from the debug information of an object file; takes seconds for a large one.

    Args:
        path: the file with DWARF; may be ``/proc/self/fd/N``.
        base_addr: its lowest loaded file_addr.
        build_id: selects the part of a fat Mach-O file.

    Raises:
        LinesError: there is no debug information, or it is damaged.
    """
    return _build(_map(path), base_addr, build_id)


def build_symcache(job: DebugJob, open_named: OpenNamed = OpenFile) -> Built:
    """Build the symcache for a job. Called in the worker's process.

    Args:
        job: the request.
        open_named: opens split units.

    Raises:
        LinesError: there is no debug information, or it is damaged.
    """
    note = ""
    try:
        merged = _merged(job, is_scattered, open_named)
        if merged is not None:
            return merged
    except DwarfError as error:
        note = str(error)  # use the debug information in the file itself, without the parts
    except (ObjectError, OSError):
        pass  # symbolic may know the format
    try:
        whole = build(job.debug, job.base_addr, job.build_id).to_bytes()
        return Built(_with_unclaimed(job, whole), note)
    except LinesError as error:
        # symbolic rejects the whole file if one entry is damaged. Our own reader may skip that.
        try:
            merged = _merged(job, lambda _: True, open_named)
        except (LinesError, DwarfError, ObjectError, OSError):
            merged = None
        if merged is None:
            raise
        return Built(merged.payload, merged.note or str(error), merged.may_be_kept)


def load_library() -> None:
    """Have the library load all that it needs, while this process may still open files."""
    with contextlib.suppress(LinesError):
        _build(b"\x7fELF", 0)


def _map(path: str) -> Buffer:
    """Map a file. The library would open its path, which the worker may not do.

    Raises:
        LinesError: it cannot be read, or is empty.
    """
    try:
        file = open_input(path)
    except OSError as error:
        raise LinesError(f"damaged debug information: {_first_line(error)}") from error
    try:
        return ffi.from_buffer("uint8_t[]", mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
    except (OSError, ValueError) as error:
        raise LinesError(f"damaged debug information: {_first_line(error)}") from error
    finally:
        file.close()


def _build(data: Buffer, base_addr: int, build_id: str = "") -> Symcache:
    """Build a symcache from an object file's bytes. The library reads them in place."""
    try:
        objects = list(Archive.from_bytes(data).iter_objects())
        if not objects:
            raise LinesError("no object in the file")
        right = [o for o in objects if o.debug_id.replace("-", "")[:32] == build_id]
        return Symcache((right or objects)[0].make_symcache(), base_addr)
    except (SymbolicError, OSError, LookupError, RuntimeError) as error:
        raise LinesError(f"damaged debug information: {_first_line(error)}") from error


def _with_unclaimed(job: DebugJob, whole: bytes) -> bytes:
    """Return the symcache; with another one appended for functions that have lines but no DIE."""
    table = load(whole, job.base_addr) if version_of(whole) not in VERSIONS else None
    lookup_many = (table or SymcacheTable(whole, job.base_addr)).lookup_many
    try:
        image = open_input_image(job.debug, job.build_id)
        try:
            more = unclaimed(image.elf, lookup_many)
        finally:
            image.close()
        if more is None:
            return whole
        behind = _build(more, job.base_addr)
    except (DwarfError, ObjectError, IndexError, OSError, LinesError):
        return whole  # the addition is optional
    return pack([whole, behind.to_bytes()])


def _merged(
    job: DebugJob, wanted: Callable[[ObjectFile], bool], open_named: OpenNamed
) -> Built | None:
    """Return the symcache of debug information that was merged first; None if not ``wanted``."""
    images = [open_input_image(job.debug, job.build_id)]
    try:
        if not wanted(images[0].elf):
            return None
        if job.alt:
            images.append(open_input_image(job.alt))
        alt = images[1].elf if len(images) > 1 else None
        own = images[0].file
        assert own is not None
        merged = merge(images[0].elf, alt, split_places(job, open_named, writers(own)))
    finally:
        for image in images:
            image.close()
    whole = _build(merged.elf, job.base_addr)
    return Built(whole.to_bytes(), merged.note, merged.may_be_kept)


def load(data: bytes, base_addr: int) -> Symcache:
    """Open a symcache made by ``to_bytes``, in place.

    The data must be ``bytes``. A memoryview would crash the interpreter if the garbage collector
    finds it in a cycle while cffi holds its buffer (cffi 2.1, CPython 3.11).

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
