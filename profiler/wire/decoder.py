"""Decode the agent's bytes into typed events. ``agent/abi.h`` draws the layout; ``abi.py`` has its
constants.

No I/O: :class:`Decoder` receives bytes (from ``ring``) in pieces of any size. Every value is
checked here, so later stages need not check it: an impossible one raises :class:`ProtocolError`
and never becomes a wrong number. Not thread-safe.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import FlametapError
from ..model import ManagedVerdict, Module, ThreadState, Verdict
from .abi import (
    ABI_VERSION,
    BATCH_HEADER,
    BATCH_MAGIC,
    CODE_CUT_SHIFT,
    CODE_GONE,
    CODE_PARTS,
    CODE_RECORD,
    CODE_WIDE_SHIFT,
    FRAME_KIND_EVAL,
    FRAME_KIND_SHIFT,
    MARK_COLLECTING,
    MARK_LOCK,
    MAX_FRAMES,
    MODULE_GONE,
    MODULE_RECORD,
    RECIPES_MAX,
    RING_BYTES,
    SECTION_CODES,
    SECTION_HEADER,
    SECTION_INTERVALS,
    SECTION_MODULES,
    SECTION_THREADS,
    SECTION_TRACES,
    THREAD_EXITED,
    THREAD_HIDDEN,
    THREAD_RECORD,
    THREAD_SIGNAL_BLOCKED,
    TRACE_RECORD,
)
from .events import INTERVAL_DTYPE, Batch, Code, CodePart, ModuleUpdate, ThreadUpdate, Trace

# The agent drops a batch that does not fit into the ring, so no greater one arrives.
MAX_BATCH_BYTES = RING_BYTES
# PATH_MAX, limits.h; the agent cuts paths earlier.
MAX_PATH_BYTES = 4096
# 146 years: the sum of a time and a duration below this fits into a signed 64-bit integer.
MAX_NS = 1 << 62
# Thread ids count up from 1, and the profile keeps tables by thread id.
MAX_THREAD_ID = 1 << 24


class ProtocolError(FlametapError):
    """The agent's bytes are invalid: damaged, or agent and host have different versions.

    Args:
        what: the first thing that is wrong.
    """

    def __init__(self, what: str) -> None:
        super().__init__(
            f"the agent's data in the target is damaged: {what}",
            "what was recorded before is kept; something in the target writes to memory that is "
            "not its own",
        )


class Decoder:
    """Converts a stream of bytes, in pieces of any size, to :class:`Batch` objects.

    Attributes:
        error: set when damaged bytes were found; the decoder cannot be used afterwards.
    """

    def __init__(self) -> None:
        self._held = bytearray()
        self.error: ProtocolError | None = None

    def feed(self, data: bytes) -> list[Batch]:
        """Add bytes; return the batches that are complete now.

        The batches before damaged bytes are returned; the next call raises ``error``.

        Raises:
            ProtocolError: wrong magic or version, a wrong size, or an impossible value.
        """
        if self.error is not None:
            raise self.error
        self._held += data
        batches: list[Batch] = []
        at = 0
        try:
            while len(self._held) - at >= BATCH_HEADER.size:
                total_bytes = _check_batch_header(self._held, at)
                if len(self._held) - at < total_bytes:
                    break
                batches.append(_decode_batch(bytes(memoryview(self._held)[at : at + total_bytes])))
                at += total_bytes
        except ProtocolError as error:
            self.error = error
            if not batches:
                raise
        del self._held[:at]
        return batches


def _check_batch_header(data: bytearray, at: int) -> int:
    magic, version, total_bytes, _, _, _ = BATCH_HEADER.unpack_from(data, at)
    if magic != BATCH_MAGIC:
        raise ProtocolError(f"batch starts with {magic:#010x} instead of {BATCH_MAGIC:#010x}")
    if version != ABI_VERSION:
        raise ProtocolError(f"batch has version {version}, this flametap reads {ABI_VERSION}")
    if not BATCH_HEADER.size <= total_bytes <= MAX_BATCH_BYTES or total_bytes % 8:
        raise ProtocolError(f"batch claims an impossible size of {total_bytes} bytes")
    return int(total_bytes)


def _decode_batch(data: bytes) -> Batch:
    _, _, _, section_count, sequence, now_ns = BATCH_HEADER.unpack_from(data)
    if now_ns >= MAX_NS:
        raise ProtocolError(f"batch {sequence} claims an impossible time")
    batch = Batch(sequence, now_ns, [], [], [], [], np.empty(0, INTERVAL_DTYPE))
    at, last_kind = BATCH_HEADER.size, 0
    for _ in range(section_count):
        if at + SECTION_HEADER.size > len(data):
            raise ProtocolError(f"batch {sequence} ends inside a section header")
        kind, record_count, section_bytes, _ = SECTION_HEADER.unpack_from(data, at)
        at += SECTION_HEADER.size
        if at + section_bytes > len(data):
            raise ProtocolError(f"section {kind} of batch {sequence} is longer than the batch")
        if not last_kind < kind <= SECTION_INTERVALS:
            raise ProtocolError(f"section {kind} of batch {sequence} is unknown or out of order")
        section = data[at : at + section_bytes]
        if kind == SECTION_MODULES:
            batch.modules.extend(_decode_modules(section, record_count))
        elif kind == SECTION_THREADS:
            batch.threads.extend(_decode_threads(section, record_count))
        elif kind == SECTION_CODES:
            batch.codes.extend(_decode_codes(section, record_count))
        elif kind == SECTION_TRACES:
            batch.traces.extend(_decode_traces(section, record_count))
        else:
            batch = Batch(
                batch.sequence,
                batch.now_ns,
                batch.modules,
                batch.threads,
                batch.codes,
                batch.traces,
                _decode_intervals(section, record_count),
            )
        at += section_bytes
        last_kind = kind
    if at != len(data):
        raise ProtocolError(f"batch {sequence} has {len(data) - at} bytes after its last section")
    return batch


def _unpack(record: struct.Struct, section: bytes, at: int) -> tuple[Any, ...]:
    if at + record.size > len(section):
        raise ProtocolError("a section ends inside a record")
    return record.unpack_from(section, at)


def _end_of_section(section: bytes, at: int) -> None:
    if at != len(section):
        raise ProtocolError(f"a section's records take {at} bytes of its {len(section)}")


def _text(raw: bytes) -> str:
    # JSON cannot represent undecodable bytes, so we replace them. Files can still be opened: we try
    # /proc/PID/map_files first, which needs no path.
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")


def _decode_modules(section: bytes, record_count: int) -> list[ModuleUpdate]:
    updates: list[ModuleUpdate] = []
    at = 0
    for _ in range(record_count):
        module_id, flags, load_bias, start, end, build_id, build_id_bytes, path_bytes = _unpack(
            MODULE_RECORD, section, at
        )
        at += MODULE_RECORD.size
        if (
            not 1 <= module_id <= 0xFFFF
            or start > end
            or build_id_bytes > 32
            or path_bytes > MAX_PATH_BYTES
        ):
            raise ProtocolError(f"module record {module_id} is invalid")
        if at + path_bytes > len(section):
            raise ProtocolError("a section ends inside a module's path")
        path = _text(section[at : at + path_bytes])
        at += (path_bytes + 7) & ~7
        module = Module(module_id, path, load_bias, start, end, build_id[:build_id_bytes].hex())
        updates.append(ModuleUpdate(module, bool(flags & MODULE_GONE)))
    _end_of_section(section, at)
    return updates


def _decode_threads(section: bytes, record_count: int) -> list[ThreadUpdate]:
    if record_count * THREAD_RECORD.size != len(section):
        raise ProtocolError(f"{len(section)} bytes do not hold {record_count} thread records")
    updates: list[ThreadUpdate] = []
    for thread_id, tid, flags, cpu_us, first_seen_ns, name in THREAD_RECORD.iter_unpack(section):
        if not 1 <= thread_id <= MAX_THREAD_ID or first_seen_ns >= MAX_NS:
            raise ProtocolError(f"thread record {thread_id} is invalid")
        updates.append(
            ThreadUpdate(
                thread_id=thread_id,
                tid=tid,
                name=_text(name),
                first_seen_ns=first_seen_ns,
                exited=bool(flags & THREAD_EXITED),
                hidden=bool(flags & THREAD_HIDDEN),
                signals_blocked=bool(flags & THREAD_SIGNAL_BLOCKED),
                cpu_before_ns=cpu_us * 1000,
            )
        )
    return updates


def _decode_codes(section: bytes, record_count: int) -> list[Code]:
    codes: list[Code] = []
    at = 0
    for _ in range(record_count):
        code_id, recipe_id, flags, *part_bytes, first, second = _unpack(CODE_RECORD, section, at)
        at += CODE_RECORD.size
        if code_id == 0 or not 1 <= recipe_id <= RECIPES_MAX:
            raise ProtocolError(f"code record {code_id} is invalid")
        if at + sum(part_bytes) > len(section):
            raise ProtocolError("a section ends inside a code record")
        start, parts = at, []
        for part in range(CODE_PARTS):
            wide = 1 << (flags >> CODE_WIDE_SHIFT + 2 * part & 3)
            if wide > 4 or part_bytes[part] % wide:
                raise ProtocolError(f"code record {code_id} has characters of an impossible size")
            is_cut = bool(flags >> CODE_CUT_SHIFT + part & 1)
            parts.append(CodePart(section[at : at + part_bytes[part]], wide, is_cut))
            at += part_bytes[part]
        at = start + (at - start + 7 & ~7)
        is_gone = bool(flags & CODE_GONE)
        codes.append(Code(code_id, recipe_id, is_gone, tuple(parts), (first, second)))
    _end_of_section(section, at)
    return codes


def _decode_traces(section: bytes, record_count: int) -> list[Trace]:
    traces: list[Trace] = []
    at = 0
    for _ in range(record_count):
        trace_id, frame_count, verdict, managed, fault_module, marks = _unpack(
            TRACE_RECORD, section, at
        )
        at += TRACE_RECORD.size
        if (
            trace_id == 0
            or frame_count > MAX_FRAMES
            or verdict >= Verdict.NO_STACK
            or managed > max(ManagedVerdict)
            or fault_module > 0xFFFF
            or marks > MARK_LOCK | MARK_COLLECTING
        ):
            raise ProtocolError(f"trace record {trace_id} is invalid")
        if at + 8 * frame_count > len(section):
            raise ProtocolError("a section ends inside a trace")
        frames = np.frombuffer(section, "<u8", frame_count, at)
        at += 8 * frame_count
        if frame_count and int(frames.max()) >> FRAME_KIND_SHIFT > FRAME_KIND_EVAL:
            raise ProtocolError(f"trace {trace_id} has a frame of an unknown kind")
        traces.append(
            Trace(trace_id, Verdict(verdict), fault_module, frames, ManagedVerdict(managed), marks)
        )
    _end_of_section(section, at)
    return traces


def _decode_intervals(section: bytes, record_count: int) -> npt.NDArray[np.void]:
    if record_count * INTERVAL_DTYPE.itemsize != len(section):
        raise ProtocolError(f"{len(section)} bytes do not hold {record_count} intervals")
    intervals = np.frombuffer(section, INTERVAL_DTYPE)
    if record_count:
        states = intervals["state"]
        if states.min() < min(ThreadState) or states.max() > max(ThreadState):
            raise ProtocolError("an interval has an unknown state")
        if intervals["thread_id"].min() < 1 or intervals["thread_id"].max() > MAX_THREAD_ID:
            raise ProtocolError("an interval has an impossible thread id")
        if intervals["holder_id"].max() > MAX_THREAD_ID:
            raise ProtocolError("an interval has an impossible holder")
        if max(int(intervals[name].max()) for name in ("t0_ns", "wall_ns", "cpu_ns")) >= MAX_NS:
            raise ProtocolError("an interval has an impossible time")
    return intervals
