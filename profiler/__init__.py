"""flametap: a remote-attach profiler with a live flame graph."""

from importlib.metadata import version

__version__ = version("flametap")
