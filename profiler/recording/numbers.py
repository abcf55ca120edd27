"""Number what the agents of several processes send, as one recording.

Each agent counts from 1. A module of two processes is one if it is the same file by path and
build-id, so a function that many workers run has one address, and is named once. Code that a
process has made in memory belongs to it, and so does each function of its interpreters.

Not thread-safe: one thread moves what the agents send.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import numpy as np
import numpy.typing as npt

from ..model import GUESSED_CALLER, KERNEL_FRAME, Module
from ..wire.abi import (
    FRAME_KIND_EVAL,
    FRAME_KIND_MANAGED,
    FRAME_KIND_MODULE,
    FRAME_KIND_RUNTIME,
    FRAME_KIND_SHIFT,
    FRAME_MODULE_SHIFT,
)
from ..wire.decoder import ProtocolError
from ..wire.events import RUNTIME_OWNER_SHIFT, Batch, Code, ModuleUpdate, ThreadUpdate, Trace
from .profile.lock_numbers import lock_numbers
from .profile.stacks import MAX_TRACE_ID_GAP
from .profile.store import BEGINNING

Frames = npt.NDArray[np.uint64]

_MAX_OWNERS = 255  # the code in memory of so many processes has names
_MAX_MODULES = 0xFFFF
_MAX_TRACES = 1 << 25  # of one process
_CODE_BITS = 32
# The stack of an interval whose stack was not received.
_NOT_RECEIVED = 0xFFFF_FFFF
_MARKS = tuple(
    FRAME_KIND_RUNTIME << FRAME_KIND_SHIFT | each.addr for each in (KERNEL_FRAME, GUESSED_CALLER)
)


def module_key(module: Module, process: int) -> tuple[object, ...]:
    """Return what modules that are one have in common."""
    if module.build_id:
        return module.path, module.build_id
    return module.path, process, module.load_bias, module.start, module.end


class Numbers:
    """The numbers of one recording.

    Attributes:
        passed_on: how much of the profile the symbolizers know.
    """

    def __init__(self) -> None:
        self.passed_on = BEGINNING
        self.modules: dict[tuple[object, ...], int] = {}
        self.next_thread, self.next_module = count(1).__next__, count(1).__next__
        self.next_trace, self.next_code = count(1).__next__, count(1).__next__
        self.next_owner = count(0).__next__


class ProcessNumbers:
    """What the numbers of one process's agent are in the recording.

    Args:
        whole: the numbers of the recording.
        process: the number of the process.

    Attributes:
        whole: see above.
    """

    def __init__(self, whole: Numbers, process: int) -> None:
        self.whole, self._process = whole, process
        self._threads: dict[int, int] = {}
        self._codes: dict[int, int] = {}
        self._modules: dict[int, int] = {}
        self._own_modules: set[int] = set()  # that no other process had before
        self._traces = np.zeros(1 << 10, np.uint32)  # 0: not received
        self._highest_trace = 0
        self._owner = -1

    def batch(self, batch: Batch) -> Batch:
        """Return a batch with the numbers of the recording.

        Raises:
            ProtocolError: a trace id is far too large.
        """
        return Batch(
            batch.sequence,
            batch.now_ns,
            [self._module(each) for each in batch.modules],
            [self._thread(each) for each in batch.threads],
            [self._code(each) for each in batch.codes],
            [self._trace(each) for each in batch.traces],
            self._intervals(batch.intervals),
        )

    def is_own(self, module_id: int) -> bool:
        """Return whether what is known of a module of the recording is from this process."""
        return module_id in self._own_modules

    def _module(self, update: ModuleUpdate) -> ModuleUpdate:
        module = update.module
        key = module_key(module, self._process)
        number = self._modules.get(module.module_id) or self.whole.modules.get(key)
        if number is None:
            number = self._new_module()
            self.whole.modules[key] = number
        self._modules[module.module_id] = number
        return ModuleUpdate(replace(module, module_id=number), update.gone)

    def _new_module(self) -> int:
        number = self.whole.next_module()
        self._own_modules.add(number)
        return number

    def _module_number(self, local: int) -> int:
        if not local:
            return 0
        number = self._modules.get(local)
        if number is None:  # its record was dropped
            number = self._modules[local] = self._new_module()
        return number

    def _thread(self, update: ThreadUpdate) -> ThreadUpdate:
        return replace(update, thread_id=self._thread_number(update.thread_id))

    def _thread_number(self, local: int) -> int:
        if not local:
            return 0
        number = self._threads.get(local)
        if number is None:
            number = self._threads[local] = self.whole.next_thread()
        return number

    def _code(self, code: Code) -> Code:
        return replace(code, code_id=self._code_number(code.code_id))

    def _code_number(self, local: int) -> int:
        number = self._codes.get(local)
        if number is None:
            number = self._codes[local] = self.whole.next_code()
        return number

    def _trace(self, trace: Trace) -> Trace:
        local = trace.trace_id
        if local > min(self._highest_trace + MAX_TRACE_ID_GAP, _MAX_TRACES):
            raise ProtocolError(f"trace id {local} follows {self._highest_trace}")
        self._highest_trace = max(self._highest_trace, local)
        if local >= len(self._traces):
            grown = np.zeros(local + local // 2, np.uint32)
            grown[: len(self._traces)] = self._traces
            self._traces = grown
        if not self._traces[local]:
            self._traces[local] = self.whole.next_trace()
        return replace(
            trace,
            trace_id=int(self._traces[local]),
            fault_module=self._module_number(trace.fault_module),
            frames=self._frames(trace.frames),
        )

    def _frames(self, frames: Frames) -> Frames:
        kind = frames >> np.uint64(FRAME_KIND_SHIFT)
        found: Frames = frames.copy()
        in_file = (kind == FRAME_KIND_MODULE) | (kind == FRAME_KIND_EVAL)
        shift = np.uint64(FRAME_MODULE_SHIFT)
        module = frames[in_file] >> shift & np.uint64(_MAX_MODULES)
        number = [self._module_number(each) & _MAX_MODULES for each in module.tolist()]
        cleared = frames[in_file] & ~np.uint64(_MAX_MODULES << FRAME_MODULE_SHIFT)
        found[in_file] = cleared | np.array(number, np.uint64) << shift
        for at in np.flatnonzero(~in_file).tolist():
            found[at] = self._outside_files(int(frames[at]))
        return found

    def _outside_files(self, frame: int) -> int:
        kind = frame >> FRAME_KIND_SHIFT
        if kind == FRAME_KIND_MANAGED:
            code_id = self._code_number(frame & ((1 << _CODE_BITS) - 1))
            return frame >> _CODE_BITS << _CODE_BITS | code_id
        if kind != FRAME_KIND_RUNTIME or frame in _MARKS:
            return frame
        if self._owner < 0:
            self._owner = self.whole.next_owner()
        if self._owner > _MAX_OWNERS:  # its code has no names: those of others would be wrong
            return FRAME_KIND_RUNTIME << FRAME_KIND_SHIFT
        return frame | self._owner << RUNTIME_OWNER_SHIFT

    def _intervals(self, intervals: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        if not len(intervals):
            return intervals
        found: npt.NDArray[np.void] = intervals.copy()
        for name in ("thread_id", "holder_id"):
            different, at = np.unique(intervals[name], return_inverse=True)
            numbers = [self._thread_number(each) for each in different.tolist()]
            found[name] = np.array(numbers, np.uint32)[at]
        trace = intervals["trace_id"]
        is_known = trace < len(self._traces)
        number = self._traces[np.where(is_known, trace, 0)]
        # 0 is the number of no stack, for all agents.
        found["trace_id"] = np.where((number > 0) | (trace == 0), number, _NOT_RECEIVED)
        for name in ("awaited_lock", "held_lock"):
            found[name] = lock_numbers(intervals[name], self._process)
        return found
