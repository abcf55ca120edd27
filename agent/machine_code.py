"""The agent as machine code: built with the package, loaded as it is into the target.

The code is one position-independent piece without relocations, globals or libc. It begins with
pointers to what it uses from outside (``platform/imports.h``), which are filled in in the target,
before the code becomes read-only.

The file, which ``build.py`` writes, holds one line of JSON, padded with spaces to whole pages, then
the code. An attach reads it in less than a millisecond: a checksum tells whether it is damaged.
Whether it is of the present sources is for the builder to find out.
"""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PAGE_BYTES", "PLACE", "REMEDY", "MachineCode", "UnusableError", "checksum", "read"]

PAGE_BYTES = 4096
PLACE = Path(__file__).parent / "machine_code.bin"
REMEDY = f"build it, with gcc 10 or newer: {sys.executable} -m flametap.agent.build"
"""What to do where there is no machine code that can be used."""


class UnusableError(Exception):
    """There is no machine code that can be used; the message says why, ``REMEDY`` what to do."""


@dataclass(frozen=True, slots=True)
class MachineCode:
    """Code for the target.

    Attributes:
        code: whole pages.
        file_offset: where it begins in the file, in bytes: a whole number of pages.
        symbols: functions (``agent_…``, ``stub_…``, ``host_…``) and pointers to fill in
            (``import_…``): name → offset in bytes from the start of the code.
        compiler: what built it, in words.
        sources: digest of what it was built from.
    """

    code: bytes
    file_offset: int
    symbols: Mapping[str, int]
    compiler: str
    sources: str


def read(path: Path = PLACE) -> MachineCode:
    """Read machine code from a file that ``build.py`` has written.

    Raises:
        UnusableError: there is no such file, it cannot be read, or it is damaged.
    """
    try:
        head, _, code = path.read_bytes().partition(b"\n")
        made = json.loads(head)
        is_whole = made["checksum"] == checksum(code, made["symbols"])
        offset = len(head) + 1
        found = MachineCode(code, offset, made["symbols"], made["compiler"], made["sources"])
    except FileNotFoundError:
        raise UnusableError("the machine code of the agent is missing") from None
    except OSError as error:
        raise UnusableError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise UnusableError(f"{path} is damaged") from None
    if not is_whole or offset % PAGE_BYTES:
        raise UnusableError(f"{path} is damaged")
    return found


def checksum(code: bytes, symbols: Mapping[str, int]) -> int:
    """Tell damaged files from whole ones; of 32 bits."""
    return zlib.crc32(code, zlib.crc32(json.dumps(symbols, sort_keys=True).encode()))
