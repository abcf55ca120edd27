"""A capture's status, without a target."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from flametap.capture.live import Capture

NOTE = "symbols are not kept for next time: Permission denied: /home/u/.cache"


def test_note_on_all_symbols_is_shown_once() -> None:
    capture = Capture(1)
    assert capture.status().notes == []
    worker = SimpleNamespace(note=NOTE, pending=0, is_idle=True, sources=list)
    capture.symbolizers = cast(Any, worker)
    assert capture.status().notes == [NOTE]
    worker.note = ""
    assert capture.status().notes == []
