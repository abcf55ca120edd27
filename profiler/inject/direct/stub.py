"""The stub of the direct way (``agent/arch/x86_64/stub.S``): its bytes, filled in for one entry."""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass

from flametap.agent.machine_code import MachineCode

STACK_BYTES = 256 << 10
# Our thread waits so long for the agent's code, half a millisecond each: 3 s and more.
NAPS = 6000
_LAYOUT = struct.Struct("<4Q")  # all_bytes, code_bytes, entry, naps


@dataclass(frozen=True)
class Stub:
    """The stub for one entry.

    Attributes:
        code: its bytes, without the state of the thread that will run it.
        nap_offset: where in it our thread's nap is: it names that to nanosleep(2).
        answer_offset: where the address belongs to which a thread writes its alternate stack.
        state_offset: where the thread's state belongs.
        code_bytes: of the agent, at the start of our memory in the target.
        all_bytes: of that memory: code, ``boot`` (one page), stack.
    """

    code: bytes
    nap_offset: int
    answer_offset: int
    state_offset: int
    code_bytes: int
    all_bytes: int

    @classmethod
    def of(cls, made: MachineCode) -> Stub:
        """Cut the stub out of the agent's machine code, and fill in the layout of our memory."""
        begin, end, nap, data = (
            made.symbols[f"stub_{name}"] for name in ("begin", "end", "nap", "data")
        )
        code_bytes = len(made.code)
        all_bytes = code_bytes + mmap.PAGESIZE + STACK_BYTES
        code = bytearray(made.code[begin:end])
        _LAYOUT.pack_into(
            code, data - begin, all_bytes, code_bytes, made.symbols["agent_main"], NAPS
        )
        answer = data - begin + _LAYOUT.size
        return cls(bytes(code), nap - begin, answer, answer + 8, code_bytes, all_bytes)
