"""Mach-O files that nobody here made, against llvm-symbolizer, ten thousand addresses each.

Not in the usual run: the files are large. ``FLAMETAP_MACHO`` names a folder with any, for example
macOS and iOS wheels from PyPI, unpacked; dSYM bundles beside them are used.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import apple_oracle
from flametap.symbols.object.macho import FAT_MAGIC
from flametap.symbols.object.macho_image import MAGIC

FOLDER = os.environ.get("FLAMETAP_MACHO", "")
ADDRESSES = 10_000
MIN_BYTES = 100_000


def mach_files() -> list[Path]:
    found = []
    for path in sorted(Path(FOLDER).rglob("*")) if FOLDER else []:
        if path.is_file() and path.stat().st_size >= MIN_BYTES and ".dSYM" not in str(path):
            with path.open("rb") as file:
                if file.read(4) in (MAGIC, FAT_MAGIC):
                    found.append(path)
    return found


@pytest.mark.needs("llvm-symbolizer")
@pytest.mark.skipif(not FOLDER, reason="FLAMETAP_MACHO names no folder")
@pytest.mark.parametrize("path", mach_files(), ids=lambda path: path.name)
def test_names_are_those_of_llvm_symbolizer(path: Path) -> None:
    result = apple_oracle.compare(path, ADDRESSES)
    assert result.share >= 0.995, (result.kinds, result.examples)
