"""The agent as machine code: built where flametap is installed, loaded as it is into the target.

gcc makes code that needs half the time of what TinyCC makes in the target, and the target has
nothing to compile. Without gcc 10 or newer at the installation there is no machine code; then
agent.js has the sources compiled by TinyCC.

The code is one position-independent piece without relocations, globals or libc. It begins with
pointers to what it uses from outside (``platform/imports.h``), which agent.js fills in before it
makes the code read-only. The file, which ``build.py`` writes, holds one line of JSON, then the
code. A change of the sources makes it stale, so that it is not used.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from . import source

__all__ = [
    "FLAGS",
    "LINKER_SCRIPT",
    "PLACE",
    "MachineCode",
    "UnusableError",
    "code_digest",
    "installed",
    "read",
    "sources_digest",
]

FOLDER = Path(__file__).parent
PLACE = FOLDER / "machine_code.bin"
LINKER_SCRIPT = FOLDER / "arch" / "x86_64" / "machine_code.ld"
FLAGS = (
    "-std=c11",
    "-O2",
    "-w",  # tests/agent_c is where warnings are errors
    "-DFLAMETAP_MACHINE_CODE",
    "-ffreestanding",
    "-fpie",
    "-fno-strict-aliasing",  # TinyCC takes every access as it stands
    "-fno-tree-vectorize",  # the target's memory need not be aligned
    "-fno-tree-loop-distribute-patterns",  # loops of memory_functions.c would call themselves
    "-fno-inline-functions-called-once",  # what is inlined needs its stack on all ways
    "-fwrapv",
    "-march=x86-64",  # the target may run on another machine than the installation
    "-mtune=generic",
    "-mno-avx",
    "-fno-lto",
    # What some distributions switch on, and what needs libc, the thread's own storage or tables.
    "-fno-stack-protector",
    "-fno-stack-check",
    "-fno-stack-clash-protection",
    "-fcf-protection=none",
    "-fno-asynchronous-unwind-tables",
    "-U_FORTIFY_SOURCE",
)


class UnusableError(Exception):
    """There is no machine code that can be used; the message says why."""


@dataclass(frozen=True, slots=True)
class MachineCode:
    """Code for the target.

    Attributes:
        code: whole pages.
        symbols: functions (``agent_…``) and pointers to fill in (``import_…``): name → offset in
            bytes from the start of the code.
        compiler: what built it, in words.
    """

    code: bytes
    symbols: Mapping[str, int]
    compiler: str


def installed() -> MachineCode | None:
    """Return the installation's machine code; None if there is none that can be used."""
    try:
        return read()
    except UnusableError:
        return None


def read(path: Path = PLACE) -> MachineCode:
    """Read machine code from a file that ``build.py`` has written.

    Raises:
        UnusableError: there is no such file, it is damaged, or it was made from other sources.
    """
    if platform.machine() != "x86_64":
        raise UnusableError("the agent is for x86-64")
    try:
        head, _, code = path.read_bytes().partition(b"\n")
        made = json.loads(head)
        is_of_sources = made["sources"] == sources_digest()
        is_whole = made["code"] == code_digest(code, made["symbols"])
        found = MachineCode(code, made["symbols"], made["compiler"])
    except FileNotFoundError:
        raise UnusableError("there is no machine code") from None
    except OSError as error:
        raise UnusableError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise UnusableError(f"{path} is damaged") from None
    if not is_of_sources:
        raise UnusableError("the machine code is of other sources")
    if not is_whole:
        raise UnusableError(f"{path} is damaged")
    return found


def sources_digest() -> str:
    """Tell what the code is made from: the sources, and how they are compiled."""
    text = "\n".join((source(), LINKER_SCRIPT.read_text("utf-8"), *FLAGS))
    return hashlib.sha256(text.encode()).hexdigest()


def code_digest(code: bytes, symbols: Mapping[str, int]) -> str:
    """Tell what the file holds."""
    return hashlib.sha256(code + json.dumps(symbols, sort_keys=True).encode()).hexdigest()
