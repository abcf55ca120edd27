"""Check what the agent answers: the target can change it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...errors import AttachFailedError

_MAX_INT = (1 << 31) - 1


@dataclass(frozen=True)
class Prepared:
    """The answer of ``prepare`` in ``agent.js``.

    ``error`` is an errno, 0 for none; with an error, the others mean nothing.
    """

    error: int
    ring_fd: int = -1
    host_end_fd: int = -1  # -1: none
    scratch_addr: int = 0  # runtime_addr

    @classmethod
    def of(cls, answer: object) -> Prepared:
        """Read the answer.

        Raises:
            AttachFailedError: it is none.
        """
        if not isinstance(answer, Mapping):
            raise _damaged()
        error = number(answer.get("error"))
        if error:
            return cls(error)
        try:
            scratch_addr = int(str(answer.get("scratch"))[:20], 0)
        except ValueError as failure:
            raise _damaged() from failure
        ring_fd = number(answer.get("fd"))
        if ring_fd < 0 or not 0 < scratch_addr < 1 << 64:
            raise _damaged()
        return cls(0, ring_fd, number(answer.get("hostEnd")), scratch_addr)


def number(answer: object) -> int:
    """Return an answer that is a C int.

    Raises:
        AttachFailedError: it is none.
    """
    if type(answer) is not int or abs(answer) > _MAX_INT:
        raise _damaged()
    return answer


def _damaged() -> AttachFailedError:
    return AttachFailedError(
        "the agent's answer is not one that it gives",
        "the target goes on; something in it changes memory that is not its own",
    )
