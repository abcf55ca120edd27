"""Fixtures for tests of the process that reads debug information."""

from __future__ import annotations

from harm import worker

__all__ = ["worker"]
