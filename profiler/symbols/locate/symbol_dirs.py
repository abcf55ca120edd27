"""List the places in a folder of debug files where the one for a module may be.

We do not know the layout of a ``--symbol-dir``, so we try every common one. The caller checks the
build-id of each file.

flat        ``redis-server.debug``, ``redis-server``, what ``.gnu_debuglink`` names; ``.dwz/NAME``
build-id    ``.build-id/ab/cdef….debug``, ``ab/cdef….debug`` (distributions, GDB)
debuginfod  ``buildid/abcdef…/debuginfo``, ``abcdef…/debuginfo`` (a mirror, the client's cache),
            ``ab/cdef…/debuginfo`` (Sentry's unified layout)
breakpad    ``NAME/DEBUGID/NAME.sym``, DEBUGID is made from the build-id's first 16 bytes
SymSrv      ``NAME/ID/NAME``, ID is the build-id, plain or with a prefix for its kind

Source: GDB manual, "Separate Debug Files"; debuginfod(8); breakpad, "Symbol files"; Microsoft,
"Symbol store key conventions" (SSQP).
"""

from __future__ import annotations

import os
from collections.abc import Iterator

DEBUG_DIR = "/usr/lib/debug"


def debug_places(folder: str, name: str, build_id: str, link: str = "") -> Iterator[str]:
    """Yield paths at which the debug file of the module ``name`` may be."""
    if build_id:
        yield from _by_build_id(folder, build_id)
        debug_id = breakpad_id(build_id)
        for key in (debug_id, build_id, build_id.upper(), f"elf-buildid-{build_id}"):
            yield from (f"{folder}/{name}/{key}/{name}{end}" for end in ("", ".debug"))
        yield f"{folder}/_.debug/elf-buildid-sym-{build_id}/_.debug"
    for file_name in dict.fromkeys((os.path.basename(link), f"{name}.debug", name)):
        if file_name:
            yield f"{folder}/{file_name}"


def breakpad_places(folder: str, name: str, build_id: str) -> Iterator[str]:
    """Yield paths at which breakpad's symbols of the module ``name`` may be."""
    if build_id:
        yield f"{folder}/{name}/{breakpad_id(build_id)}/{name}.sym"
    yield f"{folder}/{name}.sym"


def common_places(folder: str, name: str, build_id: str) -> Iterator[str]:
    """Yield paths at which dwz's common file ``name`` may be."""
    yield from _by_build_id(folder, build_id)
    base = os.path.basename(name)
    yield from (f"{folder}/.dwz/{base}", f"{folder}/{base}")


def by_build_id(build_id: str) -> str:
    """Return the path of a debug file below a folder ``.build-id``."""
    return f"{build_id[:2]}/{build_id[2:]}.debug"


def breakpad_id(build_id: str) -> str:
    """Return Breakpad's id of a build.

    It is 16 bytes as a GUID, whose first three parts are little-endian, and an age, which is 0 for
    ELF files.
    """
    data = bytes.fromhex(build_id)[:16].ljust(16, b"\0")
    return (data[3::-1] + data[5:3:-1] + data[7:5:-1] + data[8:]).hex().upper() + "0"


def _by_build_id(folder: str, build_id: str) -> Iterator[str]:
    yield f"{folder}/.build-id/{by_build_id(build_id)}"
    yield f"{folder}/{by_build_id(build_id)}"
    for start in (f"buildid/{build_id}", build_id, f"{build_id[:2]}/{build_id[2:]}"):
        yield f"{folder}/{start}/debuginfo"
