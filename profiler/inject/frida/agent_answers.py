"""Check what the agent's script answers: the target can change it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from ...errors import AttachFailedError

_MAX_INT = (1 << 31) - 1


@dataclass(frozen=True)
class Entered:
    """The answer of ``enter`` in ``agent.js``.

    Attributes:
        tid: our thread's number, as the target knows it.
        boot_addr: runtime_addr of ``struct boot``.
    """

    tid: int
    boot_addr: int

    @classmethod
    def of(cls, answer: object) -> Entered:
        """Read the answer.

        Raises:
            AttachFailedError: it is none, or our thread could not be made.
        """
        if not isinstance(answer, Mapping):
            raise _damaged()
        tid = answer.get("tid")
        if type(tid) is not int or abs(tid) > _MAX_INT:
            raise _damaged()
        if tid < 0:
            raise AttachFailedError(
                f"the agent's thread could not be made: {os.strerror(-tid)}",
                "the target continues; see its limits: /proc/PID/limits, pids.max",
            )
        try:
            boot_addr = int(str(answer.get("boot"))[:20], 0)
        except ValueError as failure:
            raise _damaged() from failure
        if not 0 < boot_addr < 1 << 64:
            raise _damaged()
        return cls(tid, boot_addr)


def _damaged() -> AttachFailedError:
    return AttachFailedError(
        "the agent's answer is not one that it gives",
        "the target goes on; something in it changes memory that is not its own",
    )
