"""Say whose code a function is: colours and filters go by it."""

from __future__ import annotations

from enum import Enum


class Origin(str, Enum):
    """Whose code it is."""

    PROJECT = "project"  # the user's own
    LIBRARY = "library"  # installed packages
    STDLIB = "stdlib"  # comes with the interpreter
    INTERPRETER = "interpreter"  # how the interpreter calls functions
    NATIVE = "native"  # compiled code that does work, and the system
