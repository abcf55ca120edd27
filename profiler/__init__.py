"""flametap: a remote-attach profiler with a live flame graph.

As a library: ``attach`` records a running process, ``record`` a program that is started, and
``load`` opens a file. Each gives a ``Recording``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api.answers import FunctionTime, Lane, Node, Thread
    from .api.recorder import Live, attach, record
    from .api.recording import Change, Recording, load
    from .errors import FlametapError

__version__: str

# Imported when they are used: `import flametap` loads neither numpy nor what attaches.
_HOMES = {
    **dict.fromkeys(("Live", "attach", "record"), "api.recorder"),
    **dict.fromkeys(("Change", "Recording", "load"), "api.recording"),
    **dict.fromkeys(("FunctionTime", "Lane", "Node", "Thread"), "api.answers"),
    "FlametapError": "errors",
    "load_ipython_extension": "api.notebook",
}

__all__ = [
    "Change",
    "FlametapError",
    "FunctionTime",
    "Lane",
    "Live",
    "Node",
    "Recording",
    "Thread",
    "attach",
    "load",
    "record",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from .version import version

        return version()
    if name in _HOMES:
        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
