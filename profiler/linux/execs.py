"""Does a process still run the program that it ran before? An exec lays out memory anew, and what
was learnt of the old program holds no longer. proc(5), ``auxv``.
"""

from __future__ import annotations

_images: dict[int, bytes] = {}  # pid → its auxiliary vector


def expect(pid: int) -> None:
    """Notes which program a process runs now."""
    _images[pid] = _image(pid)


def is_replaced(pid: int) -> bool:
    """Whether a process has ended or become another program since ``expect``."""
    return pid in _images and _images[pid] != _image(pid)


def _image(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/auxv", "rb") as file:
            return file.read()
    except OSError:
        return b""
