"""Tell that a process cannot run, so that it answers nothing. Reads ``/proc``."""

from __future__ import annotations

from ...linux import procfs


class Standstill:
    """Tell that a process cannot run: stopped by a signal or a debugger, or frozen by its group.

    Args:
        pid: the process.
        patience: how many looks in a row must find it so.
        proc: where procfs is mounted.
    """

    def __init__(self, pid: int, *, patience: int = 10, proc: str = procfs.PROC) -> None:
        self._pid = pid
        self._patience = patience
        self._proc = proc
        self._still_looks = 0

    def lasts(self) -> bool:
        """True when the last ``patience`` calls have all found it still."""
        try:
            state = procfs.read_task_state(self._pid, self._pid, self._proc)
            is_still = state in "Tt" or procfs.is_frozen(self._pid, self._proc)
        except OSError:
            is_still = False
        self._still_looks = self._still_looks + 1 if is_still else 0
        return self._still_looks >= self._patience
