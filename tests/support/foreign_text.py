"""Files in text of other profilers: those that are kept, and how to take their stacks apart."""

from __future__ import annotations

import gzip
import io
from collections import Counter
from pathlib import Path

from flametap.export.request import ExportRequest
from flametap.foreign.opening import read_foreign
from flametap.model import Clock, Frame
from flametap.recording.recording import Recording
from flametap.tree.frame_filter import FrameFilter
from flametap.tree.selection import Selection

KEPT = Path(__file__).parents[1] / "data" / "foreign"
START_BYTES = 1 << 14
TEXTS = (
    *("pyspy.raw", "pyspy-merged.raw", "austin.txt", "austin-cpu.txt"),
    *("async-profiler.collapsed", "async-profiler-alloc.collapsed", "perf-dwarf.collapsed"),
    *("perf.script", "perf-dwarf.script", "perf-lines.script", "perf-events.script"),
)


def kept(name: str) -> bytes:
    """The contents of a file that is kept."""
    return gzip.decompress((KEPT / f"{name}.gz").read_bytes())


def start_of(name: str) -> bytes:
    """Its first lines, as many as are read fast."""
    data = kept(name)
    return data if len(data) < START_BYTES else data[: data.rindex(b"\n", 0, START_BYTES) + 1]


def read(data: bytes | str) -> Recording:
    """Read what could be in a file."""
    return read_foreign(io.BytesIO(data.encode() if isinstance(data, str) else data), "file")


def clock_of(recording: Recording) -> Clock:
    """The clock of its weights."""
    return Clock(recording.status().clocks[0])


def thread_stacks(recording: Recording) -> Counter[tuple[str, ...]]:
    """The functions of each stack, below the name of its thread; nothing is hidden."""
    found: Counter[tuple[str, ...]] = Counter()
    for info in recording.profile.thread_infos():
        threads = frozenset((info.thread_id,))
        selection = Selection(clock_of(recording), threads, FrameFilter(plumbing=True))
        tree = ExportRequest(recording, selection).tree()
        paths: list[tuple[str, ...]] = []
        columns = (each.tolist() for each in (tree.parent, tree.function, tree.self_ns))
        for parent, function, own in zip(*columns, strict=True):
            name = (tree.functions[function].name,) if function >= 0 else ()
            paths.append((*paths[parent], *name) if parent >= 0 else (info.name,))
            if own:
                found[paths[-1]] += own
    return found


def frames(recording: Recording) -> list[Frame]:
    """All frames of its stacks, in order of their first use."""
    names = recording.names
    return [each for at in range(recording.profile.n_addresses) for each in names.frames(at)]
