"""Choose what is shown: which stacks, and which of their frames, by language, with plumbing or not.

A stack with Python frames has native ones around them: those that started the interpreter, its
loop, the functions by which it calls, and the C functions that it called. All that is said of
Python here goes for Java, JavaScript and Ruby as well. A hidden frame becomes
part of its caller: its own weight counts as its caller's own. Sums stay as they are.

================  ==================================================================================
``all``           All frames. In stacks with a Python frame, *plumbing* (the interpreter's loop and
                  the functions by which it calls) is shown on request only.
``python``        Python functions and the system call at the end. A stack without a Python function
                  is one frame, ``[no Python frames]``.
``native``        All but Python functions.
================  ==================================================================================

All stacks are shown, or only those of threads that hold the interpreter's lock (the GIL).

Frames that flametap adds itself are always shown. So is the innermost frame of a stack of which
nothing else would remain.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from ..model import MANAGED, MANAGED_KINDS, NO_MODULE, FrameKind, Function
from ..recording.names.table import GUESS
from ..symbols.interpreters.function_origin import is_plumbing_of_any

Bools = npt.NDArray[np.bool_]

# What decides whether a function is hidden, as bits.
_IS_MANAGED, _IS_PLUMBING, _IS_OURS, _IS_NAMELESS, _IS_RUBY = 1, 2, 4, 8, 16
_ALWAYS_SHOWN = (FrameKind.SYNTHETIC, FrameKind.SYSCALL)


class Language(str, Enum):
    """The language of the functions to show."""

    ALL = "all"
    PYTHON = "python"
    NATIVE = "native"


def traits(function: Function) -> int:
    """Return what a filter needs to know of a function, as one number."""
    if function.kind is FrameKind.RUBY:
        return _IS_MANAGED | _IS_RUBY
    if function.kind in MANAGED_KINDS:
        return _IS_MANAGED
    if function == GUESS:  # between native functions: functions of interpreters are never guessed
        return _IS_PLUMBING
    if function.kind in _ALWAYS_SHOWN:
        return _IS_OURS
    if function.kind is FrameKind.UNKNOWN:
        return _IS_NAMELESS
    return _IS_PLUMBING if is_plumbing_of_any(function) else 0


def _has(function_traits: npt.NDArray[np.uint8], bits: int) -> Bools:
    found: Bools = (function_traits & bits) > 0
    return found


def are_native(function_traits: npt.NDArray[np.uint8]) -> Bools:
    """Return which functions are native, by their ``traits``: plumbing, and others with a name."""
    return ~_has(function_traits, _IS_MANAGED | _IS_OURS | _IS_NAMELESS)


@dataclass(frozen=True)
class FrameFilter:
    """Which stacks and frames are shown; see the module docstring."""

    language: Language = Language.ALL
    plumbing: bool = False
    only_gil: bool = False  # only while the thread holds the GIL

    @property
    def hides_plumbing(self) -> bool:
        """True if the interpreter's own frames are hidden in stacks with Python frames."""
        return self.language is Language.ALL and not self.plumbing

    def hidden_functions(self, function_traits: npt.NDArray[np.uint8]) -> Bools:
        """Return which functions are hidden in stacks with Python frames, by their ``traits``."""
        if self.language is Language.PYTHON:
            return ~_has(function_traits, _IS_MANAGED | _IS_OURS)
        if self.language is Language.NATIVE:
            return _has(function_traits, _IS_MANAGED)
        return _has(function_traits, _IS_PLUMBING if self.hides_plumbing else 0)

    def hidden_addresses(
        self,
        module_ids: npt.NDArray[np.int32],
        is_eval: Bools,
        function_traits: npt.NDArray[np.uint8],
    ) -> Bools:
        """Return at which addresses all functions are hidden, in stacks with Python frames.

        A function without a name in the file of an interpreter counts as plumbing: most are. So
        does one outside of all files, made at run time, if there are functions of Ruby: YJIT's code
        has no names, and the interpreter keeps a frame for each method that it runs.

        Args:
            module_ids: of each address.
            is_eval: whether each address is in an interpreter's loop.
            function_traits: of the function at each address, the innermost one.
        """
        if self.language is Language.NATIVE:
            is_managed: Bools = module_ids == MANAGED
            return is_managed
        hides_eval = self.hides_plumbing or self.language is Language.PYTHON
        if not hides_eval:
            return np.zeros(len(is_eval), bool)
        is_nameless = _has(function_traits, _IS_NAMELESS)
        modules = np.unique(module_ids[is_eval])
        if _has(function_traits, _IS_RUBY).any():
            modules = np.append(modules, np.int32(NO_MODULE))
        return is_eval | (np.isin(module_ids, modules) & is_nameless)


ALL_FRAMES = FrameFilter()
"""What is shown by default: all but plumbing."""
