"""Compress an output whose name says so: ``out.speedscope.json.gz``, ``out.folded.zst``."""

from __future__ import annotations

import contextlib
import gzip
from collections.abc import Iterator
from typing import BinaryIO, cast

EXTENSIONS = (".gz", ".zst")
_GZIP_LEVEL = 6


def uncompressed_name(path: str) -> str:
    """Return a name without the extension of a compression."""
    for extension in EXTENSIONS:
        if path.lower().endswith(extension):
            return path[: -len(extension)]
    return path


@contextlib.contextmanager
def compressing(path: str, file: BinaryIO) -> Iterator[BinaryIO]:
    """Yield what compresses into a file as its name says; the file itself if it says nothing.

    Args:
        path: the name.
        file: open for writing; it stays open.
    """
    name = path.lower()
    if name.endswith(".gz"):
        # Without a name and a time in it: equal contents are equal files.
        with gzip.GzipFile("", "wb", _GZIP_LEVEL, file, 0) as packing:
            yield cast(BinaryIO, packing)
    elif name.endswith(".zst"):
        import zstandard

        with zstandard.ZstdCompressor().stream_writer(file, closefd=False) as packing:
            yield cast(BinaryIO, packing)
    else:
        yield file
