"""Find the package that provides the debug information that a file lacks.

We read the package manager's own files in the target's root and run no command. dpkg's lists of
files give the package of a file. With rpm, the user asks for a debug file by its build-id.

Source: dpkg-query(1), ``/var/lib/dpkg/info``; os-release(5); Debian wiki, "AutomaticDebugPackages";
Ubuntu documentation, "Debug symbol packages".
"""

from __future__ import annotations

import contextlib
import os
import re
import threading

from ..object.object_file import ObjectError
from .open_file import OpenFile, Root
from .symbol_dirs import DEBUG_DIR, by_build_id

_DPKG_LISTS = "/var/lib/dpkg/info"
# Maximum size of all lists. A desktop has 4 000 packages and 60 MB of lists.
_MAX_LISTS_BYTES = 256 << 20
# Packages whose debug files are not in NAME-dbgsym; they are older than that convention.
_DEBIAN_NAMES = (
    (re.compile(r"libc6|libc-bin"), "libc6-dbg"),
    (re.compile(r"(?:lib)?(python3\.\d+)(?:-minimal|-stdlib)?"), r"\1-dbg"),
    (re.compile(r"(openjdk-\d+)-.*"), r"\1-dbg"),
)


class Packages:
    """The packages of a machine or container.

    Args:
        root: root of its file system.
    """

    def __init__(self, root: Root) -> None:
        self._root = root
        self._lock = threading.Lock()
        # All lists joined, and the position of each package's list. A search of 11 MB takes 2 ms; a
        # dict of its 200 000 paths would take 100 ms to build.
        self._lists = b""
        self._starts: list[tuple[int, str]] = []
        self._is_read = False

    def remedy(self, path: str, build_id: str) -> str:
        """Describe how to install the debug file of ``path``, a file in that root.

        Returns:
            an instruction: "install libc6-dbg", "install redis-server-dbgsym (debug archive: deb
            http://deb.debian.org/debian-debug bookworm-debug main)"; ``""`` if unknown.
        """
        release = self._release()
        words = {word for name in ("ID", "ID_LIKE") for word in release.get(name, "").split()}
        if words & {"debian", "ubuntu"}:
            with self._lock:
                owner = self._debian_owner(path)
            return f"install {_debian_name(owner, release)}" if owner else ""
        if not build_id:
            return ""
        if words & {"fedora", "rhel", "centos"}:
            file = f"{DEBUG_DIR}/.build-id/{by_build_id(build_id)}"
            return f"dnf --enablerepo='*debug*' install {file}"
        if words & {"suse", "opensuse"}:
            return f"zypper install --plus-content debug 'debuginfo(build-id)={build_id}'"
        return ""

    def _release(self) -> dict[str, str]:
        """Return the variables of os-release whose values are plain words."""
        text = _read("/etc/os-release", self._root, 1 << 16).decode("utf-8", "replace")
        return dict(re.findall(r"^(\w+)=[\"']?([\w .-]+)", text, re.MULTILINE))

    def _debian_owner(self, path: str) -> str:
        """Return the package of a file, ``""`` if it is in none."""
        if not self._is_read:
            self._is_read = True
            self._read_lists()
        with contextlib.suppress(OSError):
            path = self._root.real_path(path)
        short = path.removeprefix("/usr")  # some lists are older than the link /lib -> usr/lib
        for name in (path, short, f"/usr{path}"):
            place = self._lists.find(b"\n%s\n" % os.fsencode(name))
            if place >= 0:
                return next(owner for start, owner in reversed(self._starts) if start <= place)
        return ""

    def _read_lists(self) -> None:
        try:
            names = [n for n in self._root.names_in(_DPKG_LISTS) if n.endswith(".list")]
        except OSError:
            return
        parts, length = [], 0
        for name in names:
            text = b"\n" + _read(f"{_DPKG_LISTS}/{name}", self._root, 1 << 24)
            self._starts.append((length, re.split(r"[:.]list$|:", name)[0].removesuffix(".list")))
            parts.append(text)
            length += len(text)
            if length > _MAX_LISTS_BYTES:
                break
        self._lists = b"".join(parts)


def _debian_name(package: str, release: dict[str, str]) -> str:
    """Return the debug package of a package, and its archive if that is not the main one.

    Only NAME-dbgsym is in a separate archive. Those of derived distributions are unknown to us.
    """
    for pattern, name in _DEBIAN_NAMES:
        if match := pattern.fullmatch(package):
            return match.expand(name)
    codename = release.get("UBUNTU_CODENAME") or release.get("VERSION_CODENAME", "")
    archive = ""
    if release.get("ID") == "ubuntu" or "UBUNTU_CODENAME" in release:
        archive = f"http://ddebs.ubuntu.com {codename} main"
    elif release.get("ID") == "debian":
        archive = f"http://deb.debian.org/debian-debug {codename}-debug main"
    if not archive or not codename:
        return f"{package}-dbgsym"
    return f"{package}-dbgsym (debug archive: deb {archive})"


def _read(path: str, root: Root, limit: int) -> bytes:
    """Return the first bytes of a file; none if it cannot be read."""
    try:
        file = OpenFile(path, root)
    except (OSError, ValueError):
        return b""
    try:
        return file.read(0, min(file.size, limit))
    except ObjectError:
        return b""
    finally:
        file.close()
