"""Count the calls of methods that go on as before."""

from __future__ import annotations

from typing import Any

import pytest


def spied(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[tuple[Any, ...]]:
    """Return the arguments of each call of a method of an object, as they come."""
    calls: list[tuple[Any, ...]] = []
    plain = getattr(owner, name)

    def noted(*arguments: Any) -> Any:
        calls.append(arguments)
        return plain(*arguments)

    monkeypatch.setattr(owner, name, noted)
    return calls
