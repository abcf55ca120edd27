"""Pythons of all versions, and other programs, for the tests of this folder."""

from python_targets import python_state, waiting_python
from target_fixtures import adopt, builder, start

__all__ = ["adopt", "builder", "python_state", "start", "waiting_python"]
