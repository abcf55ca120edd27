"""Define the events that the agent's bytes stand for, and the encoding of frames.

``agent/abi.h`` explains them. No I/O; all classes are immutable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..model import MANAGED, ManagedVerdict, Module, RawFrame, Verdict
from .abi import (
    FRAME_KIND_EVAL,
    FRAME_KIND_MANAGED,
    FRAME_KIND_MODULE,
    FRAME_KIND_RUNTIME,
    FRAME_KIND_SHIFT,
    FRAME_MODULE_SHIFT,
)

# A recording of several processes says above the runtime_addr whose it is.
RUNTIME_OWNER_SHIFT = 48
_RUNTIME_ADDR = (1 << RUNTIME_OWNER_SHIFT) - 1

# struct interval_record
INTERVAL_DTYPE = np.dtype(
    [
        ("t0_ns", "<u8"),
        ("wall_ns", "<u8"),
        ("cpu_ns", "<u8"),
        ("thread_id", "<u4"),
        ("trace_id", "<u4"),
        ("state", "u1"),
        ("flags", "u1"),
        ("sysno", "<i2"),
        ("samples", "<u4"),
        ("holder_id", "<u4"),
        ("awaited_lock", "<u2"),
        ("held_lock", "<u2"),
    ]
)


@dataclass(frozen=True)
class ModuleUpdate:
    """A module that appeared, or one that has been unmapped."""

    module: Module
    gone: bool


@dataclass(frozen=True)
class ThreadUpdate:
    """The current state of a thread; a later update with the same ``thread_id`` replaces it."""

    thread_id: int
    tid: int
    name: str
    first_seen_ns: int
    exited: bool
    hidden: bool
    signals_blocked: bool
    cpu_before_ns: int = 0  # what it had used when it was first seen, which is in no interval


@dataclass(frozen=True)
class CodePart:
    """A piece of the runtime's memory that describes a function."""

    raw: bytes
    wide: int  # bytes of a character: 1, 2 or 4
    is_cut: bool  # it is longer than ``raw``


@dataclass(frozen=True)
class Code:
    """A function of an interpreted program, as its memory has it; see ``struct code_record``."""

    code_id: int
    recipe_id: int  # the interpreter
    is_gone: bool  # its memory was used again before it could be read: all parts are empty
    parts: tuple[CodePart, ...]
    detail: tuple[int, int]


@dataclass(frozen=True)
class Trace:
    """One stack. ``frames`` are encoded as in abi.h, uint64, leaf first."""

    trace_id: int
    verdict: Verdict
    fault_module: int
    frames: npt.NDArray[np.uint64]
    managed_verdict: ManagedVerdict = ManagedVerdict.NONE
    marks: int = 0  # enum mark


@dataclass(frozen=True)
class Batch:
    """The events that the agent wrote at one time.

    ``intervals`` has dtype :data:`INTERVAL_DTYPE` and is read-only.
    """

    sequence: int
    now_ns: int
    modules: list[ModuleUpdate]
    threads: list[ThreadUpdate]
    codes: list[Code]
    traces: list[Trace]
    intervals: npt.NDArray[np.void]


def joined(batches: Sequence[Batch]) -> list[Batch]:
    """Join each batch without news of threads to the one before it, to be applied at once.

    Intervals of a thread that has exited end with their batch, so such a batch stays the last one.
    """
    groups: list[list[Batch]] = []
    for batch in batches:
        if groups and not batch.threads and not groups[-1][-1].threads:
            groups[-1].append(batch)
        else:
            groups.append([batch])
    return [_whole(group) if len(group) > 1 else group[0] for group in groups]


def _whole(group: Sequence[Batch]) -> Batch:
    last = group[-1]
    return Batch(
        last.sequence,
        last.now_ns,
        [each for batch in group for each in batch.modules],
        [],
        [each for batch in group for each in batch.codes],
        [each for batch in group for each in batch.traces],
        np.concatenate([batch.intervals for batch in group]),
    )


def raw_frame(encoded: int) -> RawFrame:
    """Decode one frame of a trace."""
    kind, value = encoded >> FRAME_KIND_SHIFT, encoded & ((1 << FRAME_KIND_SHIFT) - 1)
    if kind == FRAME_KIND_MANAGED:
        return RawFrame(MANAGED, value)
    if kind == FRAME_KIND_RUNTIME:
        return RawFrame(0, value & _RUNTIME_ADDR)
    return RawFrame(value >> FRAME_MODULE_SHIFT, value & ((1 << FRAME_MODULE_SHIFT) - 1))


def raw_frames(
    encoded: npt.NDArray[np.uint64],
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint64]]:
    """Decode many frames; return their module ids and addresses, see ``RawFrame``."""
    kind = encoded >> np.uint64(FRAME_KIND_SHIFT)
    value = encoded & np.uint64((1 << FRAME_KIND_SHIFT) - 1)
    is_in_file = (kind == FRAME_KIND_MODULE) | (kind == FRAME_KIND_EVAL)
    outside = np.where(kind == FRAME_KIND_MANAGED, MANAGED, 0)
    module_ids = np.where(is_in_file, (value >> np.uint64(FRAME_MODULE_SHIFT)).astype(int), outside)
    value = np.where(kind == FRAME_KIND_RUNTIME, value & np.uint64(_RUNTIME_ADDR), value)
    addrs = np.where(is_in_file, value & np.uint64((1 << FRAME_MODULE_SHIFT) - 1), value)
    return module_ids.astype(np.int32), addrs


def are_eval(encoded: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Return which frames are the loop of an interpreter that runs the frames above it."""
    is_eval: npt.NDArray[np.bool_] = encoded >> np.uint64(FRAME_KIND_SHIFT) == FRAME_KIND_EVAL
    return is_eval
