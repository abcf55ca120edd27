"""Files of recordings that are long for their size: they have sums of few intervals each."""

from __future__ import annotations

import io
import random
from unittest import mock

import wire
from flametap.model import Status
from flametap.recording import sums_writer
from flametap.recording.chunks import ChunkReader
from flametap.recording.contents import Loaded, gains_of, take_names, take_status
from flametap.recording.names.table import SymbolTable
from flametap.recording.profile.store import Profile
from flametap.recording.recording import Recording, ended
from flametap.recording.writer import RecordingWriter
from flametap.wire import abi
from flametap.wire.decoder import Decoder
from profiles import apply
from time_rows import START_NS, random_rows

N_ROWS, N_THREADS, N_STACKS, STEP_ROWS = 2_000, 5, 12, 17
NODE_ROWS = 3 * STEP_ROWS
HIDDEN = 4


def made_up(seed: int, *, n_rows: int = N_ROWS, is_whole: bool = True) -> bytes:
    """Return the file of random intervals, some of them waits for locks.

    Args:
        seed: of all choices.
        n_rows: how many intervals.
        is_whole: False if it was cut off: it has no index, no names and no state.
    """
    rng = random.Random(seed)
    profile = Profile()
    profile.keep_new()
    table = SymbolTable(profile.locate)
    rows = sorted(random_rows(rng, n_rows, N_THREADS), key=lambda row: row.t0_ns + row.wall_ns)
    apply(
        profile,
        START_NS,
        modules=[wire.module(1, "/opt/prog")],
        threads=[wire.thread(at, at, f"t{at}") for at in range(1, N_THREADS + 1)],
        traces=[
            wire.trace(at, [wire.frame(1, 0x1000 * at), wire.frame(1, 0x10)])
            for at in range(1, N_STACKS + 1)
        ],
    )
    file = io.BytesIO()
    recording = Recording(profile, table, lambda: ended(profile), meta={"host": "here"})
    writer = RecordingWriter(file, recording)
    writer.step()
    decoder = Decoder()
    with mock.patch.multiple(sums_writer, NODE_ROWS=NODE_ROWS, ROWS_A_SINGLE=0):
        for at in range(0, n_rows, STEP_ROWS):
            some = rows[at : at + STEP_ROWS]
            records = [
                wire.interval(
                    row.thread,
                    rng.randint(1, N_STACKS),
                    *row[1:4],
                    row.state,
                    sysno=row.sysno,
                    samples=rng.randint(0, 3),
                    held_lock=rng.choice((0, 0, 0, 5)),
                    awaited_lock=rng.choice((0, 0, 0, 5)),
                    holder_id=rng.choice((0, 0, 2)),
                )
                for row in some
            ]
            threads = []
            if at == n_rows // 2 // STEP_ROWS * STEP_ROWS:
                threads.append(wire.thread(HIDDEN, HIDDEN, "", flags=abi.THREAD_HIDDEN))
            now_ns = some[-1].t0_ns + some[-1].wall_ns
            for batch in decoder.feed(wire.batch(now_ns, intervals=records, threads=threads)):
                profile.apply(batch)
            writer.step()
        if is_whole:
            writer.finish()
    return file.getvalue()


def with_sums(data: bytes, node_rows: int) -> bytes:
    """Return a recording written once more, with a node for each so many intervals."""
    profile = Profile()
    profile.keep_new()
    found = Loaded(profile, SymbolTable(profile.locate), Status(0, "", ""))
    recording = Recording(profile, found.table, lambda: found.status, meta={})
    file = io.BytesIO()
    with mock.patch.multiple(sums_writer, NODE_ROWS=node_rows, ROWS_A_SINGLE=0):
        writer = RecordingWriter(file, recording)
        more = []
        for chunk in ChunkReader(io.BytesIO(data), "seed"):
            if chunk.kind == "GAIN":
                profile.extend(gains_of(chunk))
                writer.step()
            elif chunk.kind == "NAME":
                take_names(found, chunk)
            elif chunk.kind == "STAT":
                take_status(found, chunk)
            elif chunk.kind in ("TEXT", "CODE"):
                more.append(chunk)
        writer.finish(more)
    return file.getvalue()
