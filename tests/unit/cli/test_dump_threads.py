"""Which threads dump still waits for."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any, cast

from flametap.capture.live import Capture
from flametap.cli.commands.dump import _is_any_unseen
from flametap.model import Thread


class GrowingProfile:
    """One whose thread ends, and another begins, between two looks at its threads."""

    def __init__(self) -> None:
        self._looks = 0

    @property
    def threads(self) -> dict[int, Thread]:
        self._looks += 1
        last = self._looks - 1
        return {n: Thread(n, 100 + n, "worker", exited=n < last) for n in range(self._looks)}

    def timelines(self, clock: object) -> Any:
        return lambda thread_id: []


def test_thread_that_comes_while_dump_looks_is_waited_for() -> None:
    capture = SimpleNamespace(profile=GrowingProfile(), pid=os.getpid())
    assert _is_any_unseen(cast(Capture, capture), frozenset(), elapsed_s=1.0)
