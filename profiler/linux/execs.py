"""Does a process still run the program that it ran before? An exec lays out memory anew, and what
was learnt of the old program holds no longer. proc(5), ``auxv``.
"""

from __future__ import annotations


class Program:
    """The program that a process runs now.

    Args:
        pid: the process.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._image = _image(pid)

    def is_replaced(self) -> bool:
        """Tell whether the process has since ended or become another program."""
        return self._image != _image(self._pid)

    def is_there(self) -> bool:
        """Tell whether the process runs a program now, this one or another."""
        return bool(_image(self._pid))


def _image(pid: int) -> bytes:
    """The auxiliary vector of a process; nothing when it has gone."""
    try:
        with open(f"/proc/{pid}/auxv", "rb") as file:
            return file.read()
    except OSError:
        return b""
