"""Which process the kernel kills when memory runs out: oom_score_adj, proc(5)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

_FIRST = "1000"
_SCORE = "/proc/self/oom_score_adj"


def die_first() -> None:
    """Let the kernel kill this process before others, also those that it starts from now on."""
    _write(_FIRST)


@contextlib.contextmanager
def dying_as_others() -> Iterator[None]:
    """Let processes that are started in this block be killed as any other."""
    before = ""
    with contextlib.suppress(OSError), open(_SCORE) as score:
        before = score.read()
    _write("0")
    try:
        yield
    finally:
        _write(before or _FIRST)


def _write(value: str) -> None:
    with contextlib.suppress(OSError), open(_SCORE, "w") as score:
        score.write(value)
