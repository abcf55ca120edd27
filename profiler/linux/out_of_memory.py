"""Which process the kernel kills when memory runs out: oom_score_adj, proc(5)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_FIRST = "1000"
_SCORE = Path("/proc/self/oom_score_adj")


@cache
def _own_score() -> str:
    """Return what it was when this was first asked."""
    return _SCORE.read_text()


def die_first() -> None:
    """Let the kernel kill this process before others, also those that it starts from now on."""
    with contextlib.suppress(OSError):
        _own_score()
        _SCORE.write_text(_FIRST)


@contextlib.contextmanager
def dying_as_others() -> Iterator[None]:
    """Let processes that are started in this block be killed as this one was to be at first."""
    before = ""
    with contextlib.suppress(OSError):
        before = _SCORE.read_text()
        _SCORE.write_text(_own_score())
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            _SCORE.write_text(before)
