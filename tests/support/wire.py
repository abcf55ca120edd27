"""The agent's half of the wire format, for tests: events → bytes, as ``agent/abi.h`` has them."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from flametap.model import ManagedVerdict, ThreadState, Verdict
from flametap.wire import abi

RUNNING, PARKED, BLOCKED, QUEUED = ThreadState
Rows = npt.NDArray[np.void]  # of ``wire.events.INTERVAL_DTYPE``
INTERVAL = struct.Struct("<3Q2I2Bh2I2H")


def frame(module_id: int, file_addr: int) -> int:
    """A frame in a module."""
    return module_id << abi.FRAME_MODULE_SHIFT | file_addr


def runtime_frame(runtime_addr: int) -> int:
    """A frame in code that belongs to no file."""
    return abi.FRAME_KIND_RUNTIME << abi.FRAME_KIND_SHIFT | runtime_addr


def module(
    module_id: int,
    path: str,
    *,
    load_bias: int = 0x5000_0000,
    start: int = 0x5000_1000,
    end: int = 0x5000_9000,
    build_id: bytes = bytes(20),
    gone: bool = False,
) -> bytes:
    """A module record with its path."""
    raw = os.fsencode(path)
    flags = abi.MODULE_GONE if gone else 0
    record = abi.MODULE_RECORD.pack(
        module_id, flags, load_bias, start, end, build_id, len(build_id), len(raw)
    )
    return record + raw + bytes(-len(raw) % 8)


def thread(
    thread_id: int,
    tid: int,
    name: str,
    *,
    flags: int = 0,
    first_seen_ns: int = 1000,
    cpu_before_us: int = 0,
) -> bytes:
    """A thread record."""
    return abi.THREAD_RECORD.pack(
        thread_id, tid, flags, cpu_before_us, first_seen_ns, name.encode()
    )


def trace(
    trace_id: int,
    leaf_first: Sequence[int],
    verdict: Verdict = Verdict.COMPLETE,
    fault_module: int = 0,
    *,
    managed: ManagedVerdict = ManagedVerdict.NONE,
    marks: int = 0,
) -> bytes:
    """A trace record with its frames."""
    record = abi.TRACE_RECORD.pack(trace_id, len(leaf_first), verdict, managed, fault_module, marks)
    return record + struct.pack(f"<{len(leaf_first)}Q", *leaf_first)


def interval(
    thread_id: int,
    trace_id: int,
    t0_ns: int,
    wall_ns: int,
    cpu_ns: int = 0,
    state: int = RUNNING,
    *,
    sysno: int = -1,
    is_open: bool = False,
    samples: int = 1,
    holder_id: int = 0,
    awaited_lock: int = 0,
    held_lock: int = 0,
) -> bytes:
    """An interval record."""
    flags = abi.INTERVAL_OPEN if is_open else 0
    times = t0_ns, wall_ns, cpu_ns
    whose = thread_id, trace_id, state, flags, sysno, samples
    return INTERVAL.pack(*times, *whose, holder_id, awaited_lock, held_lock)


def managed_frame(code_id: int, position: int = abi.NO_POSITION) -> int:
    """A function of an interpreted program."""
    kind = abi.FRAME_KIND_MANAGED << abi.FRAME_KIND_SHIFT
    return kind | position << abi.FRAME_POSITION_SHIFT | code_id


def eval_frame(module_id: int, file_addr: int) -> int:
    """A frame of an interpreter's loop."""
    return abi.FRAME_KIND_EVAL << abi.FRAME_KIND_SHIFT | frame(module_id, file_addr)


def code(
    code_id: int, name: str, file: str, line_table: bytes, first_line: int, *, recipe_id: int = 1
) -> bytes:
    """A code record of a Python function, its texts in ASCII."""
    parts = [name.encode("ascii"), name.encode("ascii"), file.encode("ascii"), line_table]
    sizes = [len(part) for part in parts]
    body = b"".join(parts)
    record = abi.CODE_RECORD.pack(code_id, recipe_id, 0, *sizes, first_line, 0)
    return record + body + bytes(-len(body) % 8)


def section(kind: int, records: Sequence[bytes] | Rows) -> bytes:
    """A section with its header."""
    body = records.tobytes() if isinstance(records, np.ndarray) else b"".join(records)
    return abi.SECTION_HEADER.pack(kind, len(records), len(body), 0) + body


def batch(
    now_ns: int,
    *,
    modules: Sequence[bytes] = (),
    threads: Sequence[bytes] = (),
    codes: Sequence[bytes] = (),
    traces: Sequence[bytes] = (),
    intervals: Sequence[bytes] | Rows = (),
    sequence: int = 0,
) -> bytes:
    """A whole batch; sections without records are left out. Intervals may be in columns."""
    sections = [
        section(kind, records)
        for kind, records in (
            (abi.SECTION_MODULES, modules),
            (abi.SECTION_THREADS, threads),
            (abi.SECTION_CODES, codes),
            (abi.SECTION_TRACES, traces),
            (abi.SECTION_INTERVALS, intervals),
        )
        if len(records)
    ]
    body = b"".join(sections)
    return (
        abi.BATCH_HEADER.pack(
            abi.BATCH_MAGIC,
            abi.ABI_VERSION,
            abi.BATCH_HEADER.size + len(body),
            len(sections),
            sequence,
            now_ns,
        )
        + body
    )
