"""The readers of the files of recordings: a table for ``host_fuzzing``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from host_fuzzing import Reader
from long_recordings import made_up, with_sums
from recording_damage import damaged
from recording_files import KEPT
from recording_pieces import Piece, joined, made, merged, pieces_of
from recording_reading import READ_ERRORS, open_and_read, open_only

LONG_ROWS, NODE_ROWS = 400, 8
MANY_CODES = 2  # of a seed: more cost time, and show nothing new
MANY = 1_000_000  # rows to open …
MANY_READ = 40_000  # … and to be read in all ways
OPEN_S, READ_S = 3.0, 15.0  # of CPU time: for a million rows, and for hundreds of requests


def few_codes(pieces: Sequence[Piece]) -> list[Piece]:
    """Return chunks without most of the machine code."""
    codes = [at for at, each in enumerate(pieces) if each.kind == b"CODE"]
    return [each for at, each in enumerate(pieces) if at not in codes[MANY_CODES:]]


def seeds(folder: Path) -> list[bytes]:
    """Return the recordings that are kept, and long ones: those have sums, and an index.

    Those that are kept are in a few chunks: they are read three times as fast. Nothing is left out
    but most of the machine code.
    """
    del folder
    found = [made_up(1, n_rows=LONG_ROWS), made_up(2, n_rows=LONG_ROWS, is_whole=False)]
    for path in sorted(KEPT.glob("*.flametap")):
        kept: list[Piece] = []
        for piece in few_codes(pieces_of(path.read_bytes())):
            if piece.kind == b"GAIN" and kept and kept[-1].kind == b"GAIN":
                kept[-1] = merged(kept[-1], piece)
            else:
                kept.append(piece)
        found.append(joined([made(each) for each in kept]))
        found.append(with_sums(joined(few_codes(pieces_of(path.read_bytes()))), NODE_ROWS))
    return found


RECORDING_READERS = {
    "recording": Reader(
        seeds,
        open_and_read,
        READ_ERRORS,
        make=partial(damaged, many=MANY_READ),
        max_cpu_s=READ_S,
        cost=20,
    ),
    "recording-open": Reader(
        seeds, open_only, READ_ERRORS, make=partial(damaged, many=MANY), max_cpu_s=OPEN_S
    ),
}
