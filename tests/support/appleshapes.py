"""The Mach-O files of ``tests/data/macho``, unpacked, and what LLVM says about them."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import NamedTuple

DATA = Path(__file__).resolve().parents[1] / "data" / "macho"
ARCHES = ("arm64", "x86_64")
# Where a Mac would have had it; nothing on this machine is there.
PATH = "/Users/me/build/shapes"


class Expected(NamedTuple):
    """One processor's part of the program."""

    uuid: str
    functions: dict[str, int]  # name in the symbol table → file_addr
    chains: dict[int, list[tuple[str, str, int]]]  # file_addr → (symbol, file, line)


def unpack(folder: Path) -> Path:
    """Put ``shapes``, ``shapes.stripped`` and ``shapes.dSYM`` into a folder."""
    with tarfile.open(DATA / "shapes.tar.xz") as archive:
        archive.extractall(folder)
    return folder


def expected(arch: str) -> Expected:
    """What LLVM's tools answered when the files were made; chains are outermost first."""
    answer = json.loads((DATA / "shapes.json").read_text())[arch]
    chains = {
        int(addr): [(name, file, line) for name, file, line in chain]
        for addr, chain in answer["outermost_first"].items()
    }
    return Expected(answer["uuid"], answer["functions"], chains)
