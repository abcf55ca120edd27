"""Executables of nothing but headers: what a loader looks at before it runs a program."""

from __future__ import annotations

import struct

PT_INTERP, PT_NOTE = 3, 4
X86_64, AARCH64, I386 = 62, 183, 3
GLIBC_LOADER = "/lib64/ld-linux-x86-64.so.2"


def executable(
    interpreter: str = "",
    *,
    machine: int = X86_64,
    bits: int = 64,
    notes: bytes = b"",
    sections: bytes = b"",
) -> bytes:
    """An ELF file with these parts, little-endian."""
    if bits == 32:
        ident = b"\x7fELF\x01\x01\x01" + bytes(9)
        return ident + struct.pack("<HHI", 2, machine, 1) + bytes(28)
    parts = []
    if interpreter:
        parts.append((PT_INTERP, interpreter.encode() + b"\0"))
    if notes:
        parts.append((PT_NOTE, notes))
    offset = 64 + 56 * len(parts)
    table, contents = b"", b""
    for kind, content in parts:
        at = offset + len(contents)
        table += struct.pack("<IIQQQQQQ", kind, 4, at, at, at, len(content), len(content), 1)
        contents += content
    section_table = 0
    trailer = b""
    if sections:
        names_at = offset + len(contents)
        section_table = names_at + len(sections)
        entry = struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, names_at, len(sections), 0, 0, 1, 0)
        trailer = sections + entry
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack("<HHIQQQ", 2, machine, 1, 0, 64, section_table)
    header += struct.pack("<IHHHHHH", 0, 64, 56, len(parts), 64, 1 if sections else 0, 0)
    return header + table + contents + trailer


def note(name: bytes, kind: int, data: bytes) -> bytes:
    """An ELF note with its padding."""
    padded = [part + bytes(-len(part) % 4) for part in (name, data)]
    return struct.pack("<III", len(name), len(data), kind) + padded[0] + padded[1]


GLIBC_NOTE = note(b"GNU\0", 3, bytes(20)) + note(b"GNU\0", 1, bytes(16))


def with_sections(contents: dict[str, bytes]) -> bytes:
    """A 64-bit ELF file of nothing but named sections."""
    contents = {"": b"", **contents, ".shstrtab": b""}
    names = b"".join(name.encode() + b"\0" for name in contents)
    contents[".shstrtab"] = names
    body, headers = b"", b""
    for name, data in contents.items():
        place = 0 if not name else names.index(b"\0" + name.encode() + b"\0") + 1
        kind = 1 if name else 0  # SHT_PROGBITS, SHT_NULL
        headers += struct.pack(
            "<IIQQQQIIQQ", place, kind, 0, 0, 64 + len(body), len(data), 0, 0, 1, 0
        )
        body += data
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack("<HHIQQQ", 1, X86_64, 1, 0, 0, 64 + len(body))
    header += struct.pack("<IHHHHHH", 0, 64, 56, 0, 64, len(contents), len(contents) - 1)
    return header + body + headers
