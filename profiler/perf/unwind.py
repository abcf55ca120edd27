"""Walk up a stack whose top was copied, by the call frame information of the files."""

from __future__ import annotations

import struct
from collections.abc import Callable

from ..model import Verdict
from ..recording.kernel_samples import Place, Stack
from .call_frames import RBP, RIP, RSP, Rules
from .events import Sample
from .spaces import Region

MAX_FRAMES = 256
_word = struct.Struct("=Q").unpack_from
_ALL = (1 << 64) - 1
# The caller's frame pointer is where ours points to, and the return address above it.
BY_FRAME_POINTER = Rules(RBP, 16, ((RIP, -8), (RBP, -16)))


def walk(sample: Sample, at: Callable[[int], Region | None]) -> Stack:
    """Return the stack of a sample of a program.

    Code without rules (Go's, and some that every program has) is left by the frame pointer.

    Args:
        sample: it.
        at: returns the code around a runtime_addr.
    """
    registers, memory = list(sample.registers), sample.stack
    start = registers[RSP]
    last = len(memory) - 8
    places: list[Place] = []
    root = Verdict.COMPLETE

    def stack(verdict: Verdict) -> Stack:
        return Stack(tuple(places), verdict)

    while len(places) < MAX_FRAMES:
        # A call may be the last instruction of its function.
        pc = registers[RIP] - (1 if places else 0)
        region = at(pc)
        if region is None:
            return stack(Verdict.NO_UNWIND_INFO)
        place, rules = region.code(pc)
        bad = Verdict.BAD_MEMORY
        if place is not None:
            places.append(place)
        if rules is None:
            if root is Verdict.GUESSED and not registers[RBP]:
                return stack(root)
            rules, root, bad = BY_FRAME_POINTER, Verdict.GUESSED, Verdict.NO_UNWIND_INFO
        if rules.is_root:
            return stack(root)
        cfa = registers[rules.base] + rules.offset & _ALL
        if cfa <= registers[RSP]:  # a stack ends, and never goes back
            return stack(bad)
        for register, distance in rules.saved:
            offset = cfa + distance - start
            if offset < 0 and register != RIP:
                continue  # the function has taken it back from the stack, and is about to return
            if not 0 <= offset <= last:
                return stack(bad)
            (registers[register],) = _word(memory, offset)
        registers[RSP] = cfa
        if not registers[RIP]:
            return stack(root)
    return stack(Verdict.TRUNCATED_DEPTH)
