"""The programs ``loops`` and ``stuck`` of ``targets``: their modes, and what an attach may find
changed that they change themselves."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import cli

LOOPS = (
    *("malloc", "realloc", "mmap", "brk", "fork", "spawn"),
    *("dlopen", "setlocale", "numeric", "hosts", "printf"),
)
# Mode → functions that are in the stack of its main thread, the inner one first.
STUCK = {
    "constructor": ("stuck_here", "main"),
    "heap": ("compute", "main"),
    "malloc": ("linger", "main"),
}
VARIANT = "exported"  # a library calls back
# Masks around a fork, the library that comes and goes, a file that is open for a moment.
_OWN_CHANGES = {
    "fork": r"Sig(Blk|Pnd)|ShdPnd",
    "spawn": r"Sig(Blk|Pnd)|ShdPnd",
    "dlopen": r"plugin",
}
_LIBRARIES = {"dlopen": "plugin", "constructor": "stuck_library"}


def arguments(mode: str, program: Callable[[str, str], Path]) -> list[str]:
    """The command line of a mode; its library, if it has one, is built by ``program``."""
    library = _LIBRARIES.get(mode)
    return [mode, str(program(library, "shared"))] if library else [mode]


def is_its_own_change(mode: str, line: str) -> bool:
    """True for a line of harm that the program does to itself all the time."""
    return mode in _OWN_CHANGES and re.search(_OWN_CHANGES[mode], line) is not None


def dumped(pid: int) -> list[str]:
    """Dump a process; return the names of the main thread's functions, the innermost first.

    Raises:
        AssertionError: there was no dump.
    """
    result = cli.run("dump", pid, "--json")
    result.assert_saved()
    (main_thread, *_) = json.loads(result.stdout)["threads"]
    assert main_thread["tid"] == pid, main_thread
    return [frame["name"] for frame in main_thread["frames_leaf_first"]]
