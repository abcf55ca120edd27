"""Which package of the distribution brings the debug information of a file.

Asks the package manager that knows who owns the file. Debian and its kin keep debug information in
packages beside the ones they belong to, ``NAME-dbgsym`` in an archive of their own; Fedora and its
kin in ``NAME-debuginfo``. Whether the archive is set up is not checked.

Source: wiki.debian.org/HowToGetABacktrace; dpkg-query(1); dnf-plugins-core, "debuginfo-install".
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

# Debug packages of the main archive, older than -dbgsym.
_OTHER_NAMES = {"libc6": "libc6-dbg"}
_TIMEOUT_S = 10.0


def debug_packages(paths: Sequence[str]) -> dict[str, str]:
    """The command that installs the debug information of each file of this machine.

    Args:
        paths: absolute paths; links resolved.

    Returns:
        only those that a package owns.
    """
    if not paths:
        return {}
    return _debian(paths) or _rpm(paths)


def _debian(paths: Sequence[str]) -> dict[str, str]:
    # Files of /usr may be registered without it: the root's folders became links into it.
    asked = {path: path for path in paths}
    asked.update({path.removeprefix("/usr"): path for path in paths})
    found = {}
    for line in _answer(["dpkg-query", "-S", *asked]).splitlines():
        owners, separator, path = line.partition(": ")
        if separator and path in asked and not owners.startswith("diversion "):
            package = owners.split(",")[0].split(":")[0]
            found[asked[path]] = f"apt install {_OTHER_NAMES.get(package, f'{package}-dbgsym')}"
    return found


def _rpm(paths: Sequence[str]) -> dict[str, str]:
    lines = _answer(["rpm", "-qf", "--qf", "%{NAME}\\n", *paths]).splitlines()
    if len(lines) != len(paths):
        return {}
    return {
        path: f"dnf debuginfo-install {package}"
        for path, package in zip(paths, lines, strict=True)
        if " " not in package  # "file … is not owned by any package"
    }


def _answer(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=_TIMEOUT_S,
            check=False,
            env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C"},
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return ""
    return done.stdout
