"""flametap: a remote-attach profiler with a live flame graph."""

from __future__ import annotations

__version__: str


def __getattr__(name: str) -> str:
    # Reading package metadata takes longer than everything else before `flametap --help` is out.
    if name == "__version__":
        from importlib.metadata import version

        return version("flametap")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
