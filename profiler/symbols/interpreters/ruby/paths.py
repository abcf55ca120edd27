"""Shorten the file names of Ruby code, and say whose the code is. Pure."""

from __future__ import annotations

import re

from ..origin import Origin

# An unpacked gem, and one that Bundler fetched from a repository; what Debian's packages install.
_GEM = re.compile(r".*/gems/((?:[^/-]|-(?!\d))+)-\d[^/]*/(?:lib/)?(.+)", re.DOTALL)
_GIT_GEM = re.compile(r".*/bundler/gems/([^/]+)-[0-9a-f]{7,}/(?:lib/)?(.+)", re.DOTALL)
_PACKAGED = re.compile(r".*/(?:vendor_ruby|site_ruby)/(?:\d[^/]*/)?(.+)", re.DOTALL)
_STDLIB = re.compile(r".*/ruby/\d+\.\d+\.\d+/(.+)", re.DOTALL)
_BUILT_IN = "<internal:"


def short_path(file: str) -> str:
    """Return a file name as people know it.

    In the folder of a gem the gem's name and the path in its ``lib``, in that of the standard
    library the path in that, else the last two parts. Names of code that is in no file stay as they
    are.
    """
    if file.startswith(("<", "(")):
        return file
    for pattern in (_GEM, _GIT_GEM):
        if match := pattern.fullmatch(file):
            inner = match[2]
            return inner if inner.split("/")[0] == match[1] else f"{match[1]}/{inner}"
    for pattern in (_PACKAGED, _STDLIB):
        if match := pattern.fullmatch(file):
            return match[1]
    return "/".join(part for part in file.split("/")[-2:] if part)


def origin_of_ruby(file: str) -> Origin:
    """Return whose the code in a file is."""
    if not file or file.startswith(_BUILT_IN):  # a method in C, or one that comes with it
        return Origin.STDLIB
    if any(each.fullmatch(file) for each in (_GEM, _GIT_GEM, _PACKAGED)):
        return Origin.LIBRARY
    return Origin.STDLIB if _STDLIB.fullmatch(file) else Origin.PROJECT
