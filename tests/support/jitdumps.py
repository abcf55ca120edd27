"""Jitdumps made by hand. Source: tools/perf/Documentation/jitdump-specification.txt."""

from __future__ import annotations

import struct
from collections.abc import Sequence

LOAD, MOVE, DEBUG_INFO, CLOSE, UNWINDING_INFO = range(5)
ELF_HEADER_BYTES = 0x40


def header(*, order: str = "<", version: int = 1, flags: int = 0, pid: int = 1) -> bytes:
    """The first 40 bytes."""
    return struct.pack(order + "IIIIIIQQ", 0x4A695444, version, 40, 62, 0, pid, 1, flags)


def record(kind: int, payload: bytes, *, at_ns: int = 0, order: str = "<") -> bytes:
    """Any record."""
    return struct.pack(order + "IIQ", kind, 16 + len(payload), at_ns) + payload


def load(
    addr: int, size: int, name: str, *, at_ns: int = 0, index: int = 1, order: str = "<"
) -> bytes:
    """Code that was made."""
    fields = struct.pack(order + "IIQQQQ", 1, 1, addr, addr, size, index)
    return record(LOAD, fields + name.encode() + b"\0" + b"\x90" * size, at_ns=at_ns, order=order)


def move(old: int, new: int, size: int, *, at_ns: int = 0, index: int = 1) -> bytes:
    """Code that was moved."""
    return record(MOVE, struct.pack("<IIQQQQQ", 1, 1, new, old, new, size, index), at_ns=at_ns)


def debug_info(addr: int, lines: Sequence[tuple[int, int, str]]) -> bytes:
    """Source lines of the code that is loaded next: (address, line, file), "" for the same file."""
    payload = struct.pack("<QQ", addr, len(lines))
    for at, line, file in lines:
        payload += struct.pack("<QII", at, line, 0) + (file.encode() or b"\xff") + b"\0"
    return record(DEBUG_INFO, payload)
