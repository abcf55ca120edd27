"""What the process that reads debug information is asked for."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields

# Fields with the path of a file that the host has opened and checked: it goes over as a
# descriptor, so that what is read is what was checked, also when it was deleted or lies in
# another mount namespace.
OPENED = ("debug", "alt")


@dataclass(frozen=True)
class Built:
    """What became of a job."""

    payload: bytes  # a symcache, or a table of calls
    note: str = ""  # what was missing, in a line for the user; such a symcache is not kept


@dataclass(frozen=True)
class DebugJob:
    """One file's debug information, to be made into a symcache."""

    debug: str  # the file with DWARF
    base_addr: int  # its lowest loaded file_addr
    build_id: str = ""  # lower-case hex; picks the slice of a fat file
    alt: str = ""  # the file that .gnu_debugaltlink names
    # Where files may be looked for that are only named inside of the debug file (split DWARF):
    roots: tuple[str, ...] = ("",)  # prefixes that give an absolute path a meaning
    folders: tuple[str, ...] = ()  # of the module's file and of the debug file, and the user's
    names: tuple[str, ...] = ()  # of the module's file and of the debug file
    wants_calls: bool = False  # a table of calls (``tail_call_graph``) is wanted, not a symcache

    def to_json(self) -> str:
        """As one line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str, descriptors: Iterable[int]) -> DebugJob:
        """The opposite of :meth:`to_json`, with the paths of the descriptors that came with it.

        Raises:
            ValueError, KeyError: it is not one.
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
