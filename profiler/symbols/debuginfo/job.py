"""Define the requests to the process that reads debug information, and its answers."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields

from ..dwarf.split import SplitPlaces
from ..locate.open_file import Image, OpenFile, Root, image_of

# Fields with the path of a file that the host has opened and checked. The host sends a descriptor,
# so the worker reads the checked file even if it was deleted or is in another mount namespace.
OPENED = ("debug", "alt")
# What a job wants: a symcache; a table of calls (``tail_call_graph``); the ELF file inside
# ``.gnu_debugdata``; a note on missing parts, and no payload; the table of a source map.
SYMCACHE, CALLS, MINI_SYMBOLS, MISSING_PARTS = "symcache", "calls", "mini symbols", "missing parts"
SOURCE_MAP = "source map"

_DESCRIPTOR = re.compile(r"/proc/self/fd/(\d+)")

# Opens a file that debug information names: its path and the root below which it is looked for.
OpenNamed = Callable[[str, Root], OpenFile]


@dataclass(frozen=True)
class Built:
    """The result of a job."""

    payload: bytes  # what the job wants
    note: str = ""  # what is missing, in a line for the user; such a symcache is not stored
    # Whether it may be stored: nobody may write its parts (split DWARF) who may not write the file.
    may_be_kept: bool = True


@dataclass(frozen=True)
class DebugJob:
    """A request to read one file: its debug information, or its compressed symbols."""

    debug: str  # the file
    base_addr: int  # its lowest loaded file_addr
    build_id: str = ""  # lower-case hex; picks the slice of a fat file
    alt: str = ""  # the file that .gnu_debugaltlink names
    # Where to look for files that only the debug file names (split DWARF):
    roots: tuple[str, ...] = ("",)  # paths of ours; for the worker, positions that the host knows
    folders: tuple[str, ...] = ()  # of the module's file and of the debug file, and the user's
    names: tuple[str, ...] = ()  # of the module's file and of the debug file
    root: str = ""  # of ``roots``, the one in which the debug file was found
    wants: str = SYMCACHE

    def to_json(self) -> str:
        """Return the job as one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str, descriptors: Iterable[int]) -> DebugJob:
        """Parse the output of :meth:`to_json`; replace paths of opened files by descriptors.

        Args:
            text: the JSON.
            descriptors: the descriptors that were sent with it, in the order of ``OPENED``.

        Raises:
            ValueError, KeyError: it is not a job.
        """
        values = json.loads(text)
        for name, value in values.items():
            if isinstance(value, list):
                values[name] = tuple(value)
        come = iter(descriptors)
        for name in OPENED:
            if values[name]:
                values[name] = f"/proc/self/fd/{next(come, -1)}"
        return cls(**{field.name: values[field.name] for field in fields(cls)})


def open_input(path: str) -> OpenFile:
    """Open one of a job's files. A descriptor is used as it is: the worker may open nothing.

    Raises:
        OSError: it cannot be opened.
    """
    descriptor = _DESCRIPTOR.fullmatch(path)
    if descriptor is None:
        return OpenFile(path)
    return OpenFile(path, descriptor=os.dup(int(descriptor[1])))


def open_input_image(path: str, build_id: str = "") -> Image:
    """Open one of a job's files as an object file; for ``build_id`` see ``open_object``.

    Raises:
        OSError: it cannot be opened.
        ObjectError: it is not an object file that we can read.
    """
    return image_of(open_input(path), build_id=build_id)


def split_places(
    job: DebugJob, open_named: OpenNamed = OpenFile, own_writers: str | None = None
) -> SplitPlaces:
    """Return where to look for the split units of a job's file.

    Args:
        job: the job.
        open_named: opens them.
        own_writers: who may write the job's file.
    """
    roots = [Root(path) for path in job.roots]
    return SplitPlaces(roots, job.folders, job.names, open_named, Root(job.root), own_writers)
