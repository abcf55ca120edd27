"""Number the stacks that the kernel has sampled, and stand-ins for stacks, as those of agents."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..model import FrameKind, Function, Module, Verdict
from ..wire.abi import FRAME_KIND_MODULE, FRAME_KIND_SHIFT, FRAME_MODULE_SHIFT
from ..wire.events import ModuleUpdate, Trace
from .kernel_samples import Place, Stack
from .numbers import Numbers


class NewTraces(NamedTuple):
    """What no batch has told yet."""

    modules: list[ModuleUpdate]
    traces: list[Trace]


class KernelTraces:
    """See the module. One thread uses it: the one that moves what the agents send.

    Args:
        numbers: those of the recording.

    Attributes:
        module: the number of the module that stand-ins are in; 0 while there are none.
        stand_ins: functions that stand for a stack, by their file_addr there.
    """

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers
        self._traces: dict[str | Stack, int] = {}  # by function, or by stack
        self.module = 0
        self.stand_ins: dict[int, Function] = {}

    def of(self, key: str | Stack, new: NewTraces) -> int:
        """Return the number of a stack, or of what stands for a function; tell ``new`` of it."""
        if key in self._traces:
            return self._traces[key]
        number = self._traces[key] = self._numbers.next_trace()
        verdict = Verdict.NO_STACK if isinstance(key, str) else key.verdict
        name = key if isinstance(key, str) else key.name
        if name:
            self.module = self.module or self._numbers.next_module()
            place = len(self._traces)
            self.stand_ins[place] = Function(name, "", kind=FrameKind.SYNTHETIC)
            frames = [_frame(self.module, place)]
        else:
            assert isinstance(key, Stack)
            frames = [_frame(self._module_of(place, new), place.file_addr) for place in key.places]
        new.traces.append(Trace(number, verdict, 0, np.array(frames, np.uint64)))
        return number

    def _module_of(self, place: Place, new: NewTraces) -> int:
        known = self._numbers.modules
        # The same file in a process with an agent is the same module.
        key = (place.path, place.build_id) if place.build_id else (place.path, "no agent")
        if key not in known:
            known[key] = self._numbers.next_module()
            module = Module(known[key], place.path, 0, 0, 0, place.build_id)
            new.modules.append(ModuleUpdate(module, gone=False))
        return known[key]


def _frame(module: int, file_addr: int) -> int:
    return FRAME_KIND_MODULE << FRAME_KIND_SHIFT | module << FRAME_MODULE_SHIFT | file_addr
