"""Tell the JDK's own packages from others. Pure."""

from __future__ import annotations

import re

from ..origin import Origin

_JDK = re.compile(r"(java|javax|jdk|sun|com\.sun|org\.(ietf\.jgss|w3c\.dom|xml\.sax|jcp))(\..*)?")


def origin_of_package(package: str) -> Origin:
    """Return whose code a package is. Libraries cannot be told from the user's own."""
    return Origin.STDLIB if _JDK.fullmatch(package) else Origin.PROJECT
