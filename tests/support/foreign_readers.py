"""The readers of other profilers' files: a table for ``host_fuzzing``."""

from __future__ import annotations

import gzip
import io
import random
from collections.abc import Callable, Sequence
from pathlib import Path

from flametap.errors import InputError
from flametap.export import FORMATS
from flametap.export.request import ExportRequest
from flametap.foreign.opening import read_foreign
from flametap.model import Clock
from host_fuzzing import Reader
from profiles import random_profile, small_profile
from recordings import recorded

OPEN_S = 3.0  # of CPU time


def read(data: bytes) -> None:
    """Read a file, and build the tree of each clock."""
    request = ExportRequest(read_foreign(io.BytesIO(data), "x"))
    for clock in Clock:
        request.tree(clock)


def seeds_of(form: str) -> Callable[[Path], Sequence[bytes]]:
    """Return what makes our own files of a format."""

    def seeds(_: Path) -> Sequence[bytes]:
        found = []
        for profile, names in (small_profile(), random_profile(random.Random(1))):
            file = io.BytesIO()
            FORMATS[form].write(ExportRequest(recorded(profile, names)), file)
            data = file.getvalue()
            found.append(gzip.decompress(data) if FORMATS[form].is_compressed else data)
        return found

    return seeds


FOREIGN_READERS = {
    f"foreign-{form}": Reader(seeds_of(form), read, (InputError,), words, max_cpu_s=OPEN_S)
    for form, words in (
        ("pprof", ()),
        (
            "speedscope",
            (b"null", b"-1", b"1e999", b"[]", b"{}", b'"evented"', b"9223372036854775808"),
        ),
    )
}
