"""The version of flametap, read when it is asked for: package metadata takes long to read."""

from __future__ import annotations

import functools


@functools.cache
def version() -> str:
    """Return the version."""
    from importlib import metadata

    return metadata.version("flametap")
