"""The output files of ``-o``: planned and checked before the attach."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import UsageError

STDOUT = "-"
DEFAULT_OUTPUT = "%n-%p-%t.flametap"
MAX_NAME = 60  # characters of a program's name


@dataclass(frozen=True)
class Output:
    """One value of ``-o``."""

    path: str  # with %n, %p and %t not yet replaced; "-" for stdout
    format: str

    def path_for(self, program: str, pid: int, now_s: float) -> str:
        """Return the path with program, process id and local time (``20261121-143000``)."""
        stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(now_s))
        name = re.sub(r"[^\w.-]+", "_", program, flags=re.ASCII)[:MAX_NAME].lstrip(".-")
        fill = {"%n": name or "program", "%p": str(pid), "%t": stamp, "%%": "%"}
        path, rest = "", self.path
        while rest:
            step = 2 if rest[:2] in fill else 1
            path += fill.get(rest[:2], rest[0]) if step == 2 else rest[0]
            rest = rest[step:]
        return path


def plan(paths: Sequence[str], formats: Sequence[str]) -> list[Output]:
    """Find each output's format and check that it can be written.

    Args:
        paths: the values of ``-o``.
        formats: the values of ``-f``: none, one for all, or one for each path.

    Raises:
        UsageError: a format is unknown, or two outputs are the same.
        OutputError: a path cannot be written.
    """
    if not paths:
        return []
    from ..export import RECORDING, destination, format_for

    if len(formats) > 1 and len(formats) != len(paths):
        raise UsageError(
            f"{len(formats)} formats are given for {len(paths)} outputs",
            "give -f once for all outputs, or once for each -o, in the same order",
        )
    if len(set(paths)) != len(paths):
        raise UsageError("the same output is named twice", "give each -o a path of its own")
    each: list[str | None] = [*formats] if formats else [None]
    if len(each) == 1:
        each *= len(paths)
    outputs = [
        Output(path, format_for(path, explicit)) for path, explicit in zip(paths, each, strict=True)
    ]
    kept = [output for output in outputs if output.format == RECORDING]
    if len(kept) > 1:
        raise UsageError(
            "two outputs are recordings, and they are the same", "leave one of them out"
        )
    if kept and kept[0].path == STDOUT:
        raise UsageError("a recording needs a file", "name one: -o NAME.flametap")
    for output in outputs:
        if output.path != STDOUT:
            destination.check(output.path_for("", 0, time.time()))
    return outputs
