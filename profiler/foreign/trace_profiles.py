"""Find V8's CPU profiles in a trace, where they are in pieces.

Source: src/profile-logic/import/chrome.ts of Firefox Profiler, chrome.ts of speedscope.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .builder import Builder
from .columns import tid_of
from .cpuprofile import add_profile

_WHOLE, _BEGIN, _PIECE = "CpuProfile", "Profile", "ProfileChunk"
_NAMES = frozenset((_WHOLE, _BEGIN, _PIECE))


class Profiles:
    """The CPU profiles of a trace.

    Args:
        events: of the trace.
    """

    def __init__(self, events: list[dict[str, Any]]) -> None:
        # (process, number) → (process, thread) and what is in the pieces, in order.
        self._found: dict[Any, tuple[tuple[Any, Any], dict[str, Any]]] = {}
        some = [event for event in events if event.get("name") in _NAMES]
        for event in sorted(some, key=lambda event: float(event.get("ts") or 0)):
            data = (event.get("args") or {}).get("data")
            if data is not None:
                self._take(event, data)

    def __bool__(self) -> bool:
        return bool(self.found)

    @property
    def found(self) -> list[tuple[tuple[Any, Any], dict[str, Any]]]:
        """The profiles with samples: process and thread, and the profile."""
        return [each for each in self._found.values() if each[1]["samples"]]

    def add(self, builder: Builder, name_of: Callable[[Any, Any], str]) -> None:
        """Add the profiles, each as a thread.

        Args:
            builder: gets them.
            name_of: returns the name of a thread by process and thread.
        """
        start_us = min(float(profile["startTime"]) for _, profile in self.found)
        for (pid, tid), profile in self.found:
            thread = builder.thread((pid, tid), name_of(pid, tid), tid_of(tid))
            add_profile(builder, thread, profile, start_us)

    def _take(self, event: dict[str, Any], data: dict[str, Any]) -> None:
        thread = event.get("pid"), event.get("tid")
        # The pieces may come from another thread than the one that they are of.
        key = event.get("pid"), event.get("id", event.get("tid"))
        inner = data.get("cpuProfile") or {}
        if event["name"] == _WHOLE:
            if inner.get("samples"):
                self._found[key] = thread, {"startTime": 0, **inner}
            return
        if event["name"] == _BEGIN:
            new: dict[str, Any] = {name: [] for name in ("nodes", "samples", "timeDeltas")}
            new["startTime"] = data.get("startTime") or 0
            self._found[key] = thread, new
        if key in self._found:
            _, profile = self._found[key]
            profile["nodes"] += inner.get("nodes") or []
            profile["samples"] += inner.get("samples") or []
            profile["timeDeltas"] += data.get("timeDeltas") or inner.get("timeDeltas") or []
