"""The readers of the files of recordings: a table for ``host_fuzzing``."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from host_fuzzing import Reader
from recording_damage import damaged
from recording_files import KEPT
from recording_pieces import Piece, joined, made, merged, pieces_of
from recording_reading import READ_ERRORS, open_and_read, open_only

MANY_CODES = 2  # of a seed: more cost time, and show nothing new
MANY = 1_000_000  # rows to open …
MANY_READ = 40_000  # … and to be read in all ways
OPEN_S, READ_S = 3.0, 15.0  # of CPU time: for a million rows, and for hundreds of requests


def seeds(folder: Path) -> list[bytes]:
    """Return the recordings that are kept, each in a few chunks: they are read three times as fast.

    Nothing is left out but most of the machine code.
    """
    del folder
    found = []
    for path in sorted(KEPT.glob("*.flametap")):
        kept: list[Piece] = []
        codes = 0
        for piece in pieces_of(path.read_bytes()):
            codes += piece.kind == b"CODE"
            if piece.kind == b"GAIN" and kept and kept[-1].kind == b"GAIN":
                kept[-1] = merged(kept[-1], piece)
            elif piece.kind != b"CODE" or codes <= MANY_CODES:
                kept.append(piece)
        found.append(joined([made(each) for each in kept]))
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
