"""What all processes of a recording write into."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..recording.names.table import SymbolTable
from ..recording.numbers import Numbers
from ..recording.profile.store import Profile
from ..symbols.symbolizers import Symbolizers
from ..wire.events import Batch

if TYPE_CHECKING:
    from ..symbols.module_names import ModuleNames


@dataclass
class Shared:
    """See the module.

    Attributes:
        profile: threads, modules, stacks and intervals.
        names: the functions.
        numbers: those of the recording.
        wake: set when one of them needs the pump.
        modules: names code in files, once the first process is attached to.
        symbolizers: those of all processes.
        lock: held to change the two.
        fill: gives stacks to CPU time that an agent tells without; see ``KernelFill``.
    """

    profile: Profile
    names: SymbolTable
    numbers: Numbers
    wake: threading.Event
    modules: ModuleNames | None = None
    symbolizers: Symbolizers = field(default_factory=Symbolizers)
    lock: threading.Lock = field(default_factory=threading.Lock)
    fill: Callable[[Batch], Batch] = lambda batch: batch
