"""Pythons of all versions, and other programs, for the tests of this folder."""

from python_targets import waiting_python
from target_fixtures import adopt, builder, start

__all__ = ["adopt", "builder", "start", "waiting_python"]
